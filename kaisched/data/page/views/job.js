// One job: why it waits, what would help, its gang, its place in the order, and what happened to it.

import { h } from "../dom.js";
import { age, clock, count, duration, NONE, plural, stamp } from "../format.js";
import {
  badge, bar, empty, gainerLink, jobLink, link, queueLink, resourcesOf, scaleOf, section, stateBadge, table, tile, words,
} from "../parts.js";

const MOST_PODS = 512;
const KINDS = { pending: "wait", gated: "wait", running: "good", bound: "good", binding: "good" };

export function jobPage(data, ctx) {
  const { job } = data;
  return [
    why(data), tiles(job, ctx),
    h("div", { class: "columns" },
      when_(data, ctx), ahead(data), gang(data), turn(data), shares(data), misses(data), timeline(data), evicted(data)),
  ];
}

function why(data) {
  const { job } = data;
  if (!data.pending) {
    return h("div", { class: "why card" }, stateBadge(job),
      h("p", { class: "sentence" }, job.started ? `It runs since ${stamp(job.started)}.`
        : job.state === "running" ? "It starts now." : "It ends."));
  }
  const helps = job.advice.filter((it) => it.helps !== false);
  const useless = job.advice.some((it) => it.othersFirst)
    ? "Others are ahead: this would start them first" : "Tried, and not enough by itself";
  return h("div", { class: "why card" },
    h("div", { class: "row" }, stateBadge(job), badge("wait", words(job.reason))),
    h("p", { class: "sentence" }, data.because || (data.complete ? words(job.reason)
      : "The scheduler had no time to say it in a sentence; it is asked again.")),
    data.cure && !job.advice.length && h("p", { class: "muted" }, data.cure),
    job.advice.length > 0 && h("div", { class: "advice" },
      h("h3", {}, helps.length ? "This would let it start" : useless),
      h("ul", {}, job.advice.map((it) => h("li", { key: it.text },
        badge(it.helps === false ? "quiet" : "good", it.helps === false ? "not enough" : "tried, works"),
        " ", it.text)))),
    submitLink(data));
}

/** The way to a what-if with a job like this one. */
function submitLink({ job, pods }) {
  const waiting = pods.filter((it) => !it.node);
  const gpus = waiting[0]?.gpus;
  if (!Number.isInteger(gpus) || waiting.some((it) => it.gpus !== gpus)) return null;
  const query = new URLSearchParams({ of: "job", queue: job.queue, pods: waiting.length, gpus });
  return h("p", {}, link(`/whatif?${query}`, `Submit it as ${plural(waiting.length, "pod")} of ${plural(gpus, "GPU")} or otherwise, in what-if`));
}

/** When the job may start: asked for, since a worker runs the cycle ahead for some seconds. */
function when_(data, ctx) {
  if (!data.pending) return null;
  const { local } = ctx;
  const ask = async () => {
    Object.assign(local, { foresees: true, foreseen: null, wrongWhen: null });
    ctx.draw();
    try {
      local.foreseen = await ctx.get("/whatif", { when: data.podGroup });
    } catch (wrong) {
      local.wrongWhen = wrong;
    }
    local.foresees = false;
    ctx.draw();
  };
  const found = local.foreseen;
  return section("When it may start", null,
    found && (found.enabled === false
      ? h("p", { class: "muted" }, "Not offered here: set snapshots.enabled: true, or use kaisched why --when.")
      : found.when ? band(found.when) : h("p", {}, "It does not wait any more.")),
    local.wrongWhen && h("p", { class: "notice bad", role: "alert" }, local.wrongWhen.message, " ", local.wrongWhen.fix),
    h("p", {}, h("button", { type: "button", disabled: !!local.foresees, onclick: ask },
      local.foresees ? "Running ahead …" : found ? "Ask again" : "Foresee it")),
    !found && h("p", { class: "muted small" }, "The cycle is run ahead on a copy, several times with other run times by chance; it takes some seconds."));
}

/** The band of a forecast, and what it rests on. */
function band(it) {
  const { started, courses, earliestSeconds: earliest, medianSeconds: median, latestSeconds: latest } = it;
  const of = courses > 1 ? ` of ${count(courses)} courses of events` : "";
  const ahead = duration(it.lookedAheadSeconds);
  const says = latest === 0 ? "In the next cycle."
    : !started ? `Not in the next ${ahead}${of && `, in none${of}`}.`
      : latest === null ? `In ${duration(earliest)} at the earliest; not in the next ${ahead} in ${count(courses - started)}${of}.`
        : earliest === latest ? `In ${duration(latest)}, if what is assumed holds.`
          : `In ${duration(earliest)} to ${duration(latest)}, half of the time within ${duration(median)}, by ${count(courses)} courses of events.`;
  return [h("p", { class: "sentence" }, says),
    it.cut && h("p", { class: "muted small" }, "Time was up: fewer courses than usual, and the band may be too narrow."),
    h("ul", { class: "assumed small muted" }, it.assumptions.map((text) => h("li", { key: text }, `assumed: ${text}`)))];
}

/** The jobs of its queue whose turn comes before. */
function ahead(data) {
  if (!data.job.place) return null;
  const rows = data.ahead.map((it) => ({
    key: it.podGroup,
    cells: [count(it.position), h("span", { class: "who" }, jobLink(it),
      h("span", { class: "muted small" }, [it.user, words(it.reason)].filter(Boolean).join(", "))), count(it.gpus), it.because],
  }));
  const more = data.job.place.position - 1 - rows.length;
  return section("Who is ahead in its queue", plural(data.job.place.position - 1, "job"),
    rows.length
      ? h("div", { class: "pods" }, table("Jobs ahead", [{ title: "Turn", number: true }, { title: "Job" },
        { title: "GPUs", number: true }, { title: "Because" }], rows))
      : h("p", {}, "No job of its queue."),
    more > 0 && h("p", { class: "muted small" }, `and ${count(more)} more between these and this job`));
}

function tiles(job, ctx) {
  return h("div", { class: "tiles" },
    tile("Place in its queue", job.place ? count(job.place.position) : NONE,
      job.place ? `of ${count(job.place.of)}` : "", [queueLink(job.queue)]),
    tile("GPUs", count(job.gpus.held), "held", job.gpus.pending ? `${count(job.gpus.pending)} asked for` : ""),
    tile("Pods", count(job.pods.running), "running", job.pods.pending ? `${count(job.pods.pending)} waiting` : ""),
    tile("Priority", count(job.priority), "", job.preemptible ? "may be preempted" : "is not preempted"),
    tile("Age", age(job.created, ctx.now), "", stamp(job.created)));
}

function gang(data) {
  const pods = data.pods.slice(0, MOST_PODS);
  const rows = pods.slice(0, 64).map((it) => ({
    key: it.pod,
    cells: [h("span", { class: "name" }, it.pod.split("/").pop()),
      badge(KINDS[it.state] || "quiet", it.state), it.node || NONE, count(it.gpus)],
  }));
  return section("Pods", plural(data.pods.length, "pod"),
    h("div", { class: "gang", role: "img", "aria-label": counted(data.pods) },
      pods.map((it) => h("i", { key: it.pod, class: KINDS[it.state] || "quiet",
        title: `${it.pod}\n${it.state}${it.node ? ` on ${it.node}` : ""}` }))),
    h("div", { class: "pods" }, table("Pods", [{ title: "Pod" }, { title: "State" },
      { title: "Node", from: "mid" }, { title: "GPUs", number: true }], rows)),
    data.pods.length > 64 && h("p", { class: "muted small" }, "The first 64; JSON has all."));
}

function counted(pods) {
  const found = new Map();
  for (const it of pods) found.set(it.state, (found.get(it.state) || 0) + 1);
  return [...found].map(([state, number]) => `${number} ${state}`).join(", ");
}

function turn(data) {
  const levels = data.job.turn?.levels;
  if (!levels?.length) return null;
  return section("Whose turn it is", null,
    h("ol", { class: "levels" }, levels.map((it) => h("li", { key: it.queue },
      h("div", { class: "row" }, queueLink(it.queue),
        badge(it.position === 1 ? "good" : "quiet", `${count(it.position)} of ${count(it.of)}`)),
      it.ahead && h("p", { class: "muted" }, "Ahead: ",
        it.ahead.podGroup ? jobLink(it.ahead) : queueLink(it.ahead.queue),
        `, because ${it.ahead.because}`)))));
}

function shares(data) {
  const resource = resourcesOf(data.queues)[0];
  if (!resource) return null;
  return section("Its queues", resource,
    h("ul", { class: "bars" }, data.queues.map((it) => h("li", { key: it.name },
      queueLink(it.name), bar(it, resource, scaleOf([it], resource), "var(--accent)"),
      h("span", { class: "number" }, `${count(it.allocated[resource])} of ${count(it.fairShare[resource])}`)))));
}

function misses(data) {
  const refusals = Object.entries(data.evictionRefusals);
  if (!data.nodeMisses.length && !refusals.length) return null;
  const rows = data.nodeMisses.map((it) => ({
    key: `${it.reason}${it.detail}`, cells: [count(it.nodes), words(it.reason), it.detail] }));
  return section("Why not here", null,
    rows.length > 0 && table("Nodes that are out", [{ title: "Nodes", number: true }, { title: "Reason" },
      { title: "Detail", wide: true }], rows),
    refusals.map(([action, text]) => h("p", { key: action }, badge("quiet", action), " ", text)));
}

function timeline(data) {
  const words_ = { bound: "good", evicted: "bad", promised: "quiet", waits: "wait" };
  return section("What happened", data.timeline.length ? "the latest first" : null,
    data.timeline.length
      ? h("ol", { class: "timeline" }, data.timeline.map((it) =>
        h("li", { key: `${it.cycle}${it.what}${it.pod}` },
          h("time", { class: "number muted", title: stamp(it.time) }, clock(it.time)),
          badge(words_[it.what], it.what),
          h("span", {}, it.what === "waits" ? words(it.reason) : it.pod?.split("/").pop(),
            it.node && h("span", { class: "muted" }, ` on ${it.node}`),
            it.what === "evicted" && h("span", { class: "muted block" }, it.reason)))))
      : empty("Nothing yet", "Decisions of this process are kept, the last 20,000."));
}

function evicted(data) {
  if (!data.evictions.length) return null;
  return section("Evicted lately", null, data.evictions.map((it) =>
    h("div", { class: "evicted", key: it.reason },
      h("div", { class: "row" }, badge("bad", it.action), "for ", gainerLink(it)),
      h("p", {}, it.reason))));
}
