// What-if: other values of a queue, or k, tried on a copy of the last cycle in a process of its own.

import { h } from "../dom.js";
import { amount, count, NONE, plural } from "../format.js";
import { badge, empty, field, gainerLink, jobLink, queueLink, section, table, words } from "../parts.js";

const MOST_K = 5;

export const whatif = {
  id: "whatif",
  title: "What if",
  about: "Try other values on a copy of the cluster; nothing is changed.",

  async load(ctx) {
    if (!ctx.local.values) {
      const [values, totals] = await Promise.all([ctx.get("/whatif"), ctx.get("/overview")]);
      ctx.local.values = { ...values, gpus: totals.gpus.total };
    }
    return ctx.local.values;
  },

  command: (ctx) => (ctx.params.of === "job" ? "whatif-submit" : "whatif"),
  values: (ctx) => asked(ctx) || { target: "queue/NAME", change: ["gpu.quota=8"] },
  document: (ctx) => ({ path: "/whatif", params: paramsOf(asked(ctx)) }),
  entries: (data) => data.queues,

  render(data, ctx) {
    if (!data.enabled) {
      return empty("Not offered here", "Set snapshots.enabled: true; or use kaisched whatif set, or kaisched tune"
        + " for settings that act over days.");
    }
    return h("div", { class: "columns" }, form(data, ctx), answer(ctx));
  },
};

function chosenOf(data, ctx) {
  return data.queues.find((it) => it.name === ctx.params.queue) || data.queues[0];
}

/** The numbers of the form: those of the queue as they are, or of a job that is submitted. */
function numbersOf(data, ctx) {
  const most = Math.max(data.gpus, 1);
  const found = [];
  const queue = chosenOf(data, ctx);
  if (ctx.params.of === "job") {
    return [{ name: "pods", label: "Pods, which start together", now: Number(ctx.params.pods) || 1, min: 1, max: 10000, step: 1 },
      { name: "gpus", label: "GPUs of each", now: Number(ctx.params.gpus ?? 1), min: 0, max: 1000, step: 1 }];
  }
  if (ctx.params.of === "k") {
    return [{ name: "kValue", label: "k, the strength of fairness over time", now: data.kValue ?? 1, max: MOST_K, step: 0.1 }];
  }
  const gpu = queue?.gpu || {};
  const weight = Number(gpu.overQuotaWeight ?? 1);
  found.push({ name: "gpu.quota", label: "Quota, GPUs", now: gpu.quota ?? 0, min: Math.min(gpu.quota ?? 0, 0), max: Math.max(most, gpu.quota ?? 0), step: 1 });
  if (Number.isFinite(weight)) {
    found.push({ name: "gpu.weight", label: "Weight over quota", now: weight, max: Math.max(10, weight), step: 0.5 });
  }
  found.push({ name: "gpu.limit", label: "Limit, GPUs; −1 is none", now: gpu.limit ?? -1, min: -1, max: most, step: 1 });
  return found;
}

function asked(ctx) {
  const data = ctx.local.values;
  if (!data?.enabled) return null;
  const moved = ctx.local.moved || {};
  if (ctx.params.of === "job") {
    const [pods, gpus] = numbersOf(data, ctx).map((it) => moved[it.name] ?? it.now);
    return { queue: ctx.params.queue || chosenOf(data, ctx)?.name, pods, gpus };
  }
  const change = numbersOf(data, ctx).filter((it) => it.name in moved && moved[it.name] !== it.now)
    .map((it) => `${it.name}=${moved[it.name]}`);
  const target = ctx.params.of === "k" ? "shard" : `queue/${chosenOf(data, ctx)?.name}`;
  return change.length ? { target, change } : null;
}

function paramsOf(wanted) {
  if (wanted?.pods) return wanted;
  return wanted ? { target: wanted.target, set: wanted.change.join(",") } : {};
}

function form(data, ctx) {
  const forget = (changes) => {
    Object.assign(ctx.local, { moved: {}, answer: null, wrong: null });
    ctx.go(changes);
  };
  const wanted = asked(ctx);
  const { local } = ctx;
  return h("section", { class: "card whatif" },
    h("header", {}, h("h2", {}, "Change")),
    h("div", { class: "filters" },
      field("Of", ctx.params.of || "queue", (of) => forget({ of }), { choices: [["queue", "a queue"], ["job", "submit a job"], ["k", "the shard"]] }),
      ctx.params.of !== "k" && field("Queue", chosenOf(data, ctx)?.name || "", (queue) => forget({ queue }),
        { choices: data.queues.slice(0, 1000).map((it) => [it.name, it.name]) })),
    h("div", { class: "amounts" }, numbersOf(data, ctx).map((it) => number(it, ctx))),
    h("div", { class: "row" },
      h("button", { type: "button", class: "primary", disabled: !wanted || local.isTrying, onclick: () => run(ctx) },
        local.isTrying ? "Trying …" : "Try"),
      h("button", { type: "button", disabled: !Object.keys(local.moved || {}).length, onclick: () => forget({}) }, "As it is")),
    h("p", { class: "muted small" }, "Cycles run on two copies of a state of the last half minute, with the change and without it, until",
      " nothing moves; no job ends meanwhile. A half-life acts over days: see kaisched tune."));
}

function number(it, ctx) {
  const value = ctx.local.moved?.[it.name] ?? it.now;
  return h("label", { class: "field", key: it.name },
    h("span", {}, it.label, value !== it.now && ` (now ${count(it.now)})`),
    h("input", { type: "number", inputmode: "decimal", min: it.min ?? 0, max: it.max, step: it.step, value: String(value),
      oninput: (event) => {
        if (!event.target.validity.valid || event.target.value === "") return;
        ctx.local.moved = { ...ctx.local.moved, [it.name]: Number(event.target.value) };
        ctx.draw();
      } }));
}

async function run(ctx) {
  const { local } = ctx;
  Object.assign(local, { isTrying: true, wrong: null });
  ctx.draw();
  try {
    local.answer = await ctx.get("/whatif", paramsOf(asked(ctx)));
  } catch (wrong) {
    local.wrong = wrong;
    local.answer = null;
  }
  local.isTrying = false;
  ctx.draw();
}

function answer(ctx) {
  const { answer: found, wrong } = ctx.local;
  if (wrong) return h("p", { class: "notice bad", role: "alert" }, wrong.message);
  if (!found) return section("Difference", null, empty("Nothing tried yet", "Change a number, then try."));
  const { jobs, evictions, queues } = found;
  if (!jobs.length && !evictions.length && !queues.length) {
    return section("Difference", null, empty("No difference", "Nothing starts, nothing is evicted, shares stay."));
  }
  return section("Difference", null,
    h("p", { class: "sentence strong" }, headline(jobs, evictions)),
    found.warnings.map((text) => h("p", { class: "notice", key: text }, text)),
    jobs.length > 0 && table("Jobs", [{ title: "Job" }, { title: "Without" }, { title: "With" }], jobs.slice(0, 100).map((it) => ({
      key: it.podGroup, cells: [jobLink(it), became(it.without), became(it.with)] }))),
    evictions.length > 0 && [h("h3", {}, "Would be evicted"), table("Evictions", [{ title: "Pod" }, { title: "For" }],
      evictions.slice(0, 100).map((it) => ({ key: it.pod, cells: [it.pod, gainerLink(it)] })))],
    queues.length > 0 && [h("h3", {}, "Shares of GPUs"), table("Queues", [{ title: "Queue" },
      { title: "Fair share", number: true }, { title: "Allocated", number: true }], queues.map((it) => ({
      key: it.name, cells: [queueLink(it.name), both(it, "fairShare"), both(it, "allocated")] })))]);
}

/** What matters of a difference: "6 jobs start, 10 pods are evicted". */
function headline(jobs, evictions) {
  const starts = jobs.filter((it) => it.with && !it.with.waiting && (!it.without || it.without.waiting)).length;
  const stops = jobs.filter((it) => it.with?.waiting && it.without && !it.without.waiting).length;
  const are = (number) => (number === 1 ? "is" : "are");
  return [
    starts ? `${plural(starts, "job")} start${starts === 1 ? "s" : ""}` : "No job starts",
    stops > 0 && `${plural(stops, "job")} no longer run${stops === 1 ? "s" : ""}`,
    `${evictions.length ? plural(evictions.length, "pod") : "no pod"} ${are(evictions.length || 1)} evicted`,
  ].filter(Boolean).join(", ");
}

function became(it) {
  if (!it) return NONE;
  if (!it.waiting) return badge("good", "running");
  return [badge("wait", it.running ? "partly" : "waiting"), " ", h("span", { class: "muted" }, words(it.reason))];
}

function both(it, name) {
  const of = (which) => (it[which] ? amount(it[which][name].gpu, "gpu") : NONE);
  return of("without") === of("with") ? of("with") : [h("span", { class: "muted" }, `${of("without")} → `), of("with")];
}
