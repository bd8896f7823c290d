// Jobs: a list with filters in parts, and one job: see job.js.

import { Colours } from "../colour.js";
import { h } from "../dom.js";
import { age, count, duration, NONE, plural, stamp } from "../format.js";
import { empty, field, jobLink, pager, queueLink, stateBadge, table, titleOf, words } from "../parts.js";
import { jobPage } from "./job.js";

const SORTS = [
  ["", "turn"], ["name", "name"], ["since", "longest first"], ["created", "oldest first"], ["-created", "newest first"],
  ["-priority", "priority"], ["-gpus", "GPUs"],
];
const CHOICES = [
  ["", "any"], ["waiting", "waiting"], ["pending", "not started"], ["partly", "partly running"],
  ["running", "running"], ["ending", "ending"],
];
const FILTERS = ["queue", "user", "reason", "state", "namespace", "name", "sort", "offset"];

export const jobs = {
  id: "jobs",
  title: "Jobs",
  about: "Jobs that wait or run.",

  async load(ctx) {
    if (ctx.id) return ctx.get(`/jobs/${encodeURI(ctx.id)}`);
    const [found, queues] = await Promise.all([
      ctx.get("/jobs", filtersOf(ctx)), ctx.local.queues || ctx.get("/queues")]);
    ctx.local.queues = queues;
    return { ...found, queues: queues.queues };
  },

  name: (ctx, data) => (data?.workload ? titleOf(data) : ctx.id),
  lead: (data, ctx) => {
    if (ctx.id) return "What the last cycle found about this job.";
    return data && `${plural(data.total, "job")}${data.hidden
      ? `, and ${count(data.hidden)} that you may not see` : ""}`;
  },
  command: (ctx) => (ctx.id ? "job" : "jobs"),
  values: (ctx) => ({ job: ctx.id }),
  document: (ctx) => (ctx.id
    ? { path: `/jobs/${encodeURI(ctx.id)}`, params: {} }
    : { path: "/jobs", params: filtersOf(ctx), list: "jobs" }),

  render: (data, ctx) => (ctx.id ? jobPage(data, ctx) : list(data, ctx)),
};

function filtersOf(ctx) {
  return Object.fromEntries(FILTERS.map((it) => [it, ctx.params[it]]));
}

function list(data, ctx) {
  const { params, go } = ctx;
  const reasons = Object.entries(data.reasons).sort((one, other) => other[1] - one[1]);
  const chosen = reasons.some(([it]) => it === params.reason) || !params.reason
    ? reasons : [...reasons, [params.reason, 0]];
  return [
    h("div", { class: "filters" },
      field("Name", params.name || "", (name) => go({ name }), { placeholder: "part of a name" }),
      field("Queue", params.queue || "", (queue) => go({ queue }),
        { placeholder: "and those below", list: "queue-names" }),
      h("datalist", { id: "queue-names" },
        data.queues.slice(0, 1000).map((it) => h("option", { value: it.name, key: it.name }))),
      field("User", params.user || "", (user) => go({ user }), { placeholder: "who submitted it" }),
      field("State", params.state || "", (state) => go({ state }), { choices: CHOICES }),
      field("Order", params.sort || "", (sort) => go({ sort }), { choices: SORTS })),
    chosen.length > 0 && h("div", { class: "chips", role: "group", "aria-label": "Reasons" },
      chosen.map(([reason, number]) => h("button", { type: "button", key: reason,
        class: `chip ${reason === params.reason ? "on" : ""}`,
        "aria-pressed": String(reason === params.reason),
        onclick: () => go({ reason: reason === params.reason ? "" : reason }) },
        words(reason), h("b", {}, count(number))))),
    starts(data, ctx),
    h("div", { class: "card" }, jobTable(data, ctx, new Colours(data.queues))),
  ];
}

/** When the waiting jobs may start: asked for, since a worker runs the cycle ahead for some seconds. */
function starts(data, ctx) {
  const { local } = ctx;
  const isAny = data.jobs.some((it) => it.reason);
  if (!isAny && !local.starts) return null;
  const ask = async () => {
    Object.assign(local, { foresees: true, wrongStarts: null });
    ctx.draw();
    try {
      local.starts = await ctx.get("/whatif", { starts: true });
    } catch (wrong) {
      local.wrongStarts = wrong;
    }
    local.foresees = false;
    ctx.draw();
  };
  const found = local.starts;
  return h("div", { class: "row" },
    h("button", { type: "button", disabled: !!local.foresees, onclick: ask },
      local.foresees ? "Running ahead …" : found ? "Foresee again" : "Foresee when they start"),
    found && h("span", { class: "muted small" }, found.enabled === false
      ? "Not offered here: set snapshots.enabled: true, or use kaisched jobs --when."
      : `assumed: ${found.assumptions.join("; ")}`),
    local.wrongStarts && h("p", { class: "notice bad", role: "alert" },
      local.wrongStarts.message, " ", local.wrongStarts.fix));
}

/** A forecast in a few words. */
function startOf(it) {
  if (!it) return NONE;
  const { earliestSeconds: earliest, latestSeconds: latest } = it;
  if (latest === 0) return "now";
  if (!it.started) return `after ${duration(it.lookedAheadSeconds)}`;
  if (latest === null) return `${duration(earliest)} or later`;
  const [first, last] = [duration(earliest), duration(latest)];
  return first === last || !earliest ? `in ${last}` : `${first} to ${last}`;
}

/** The jobs of a document as a table with a pager. */
export function jobTable(data, ctx, colours) {
  if (!data.jobs.length) {
    return empty("No jobs", data.hidden
      ? "Those that match are of queues that you may not get." : "Nothing matches, or nothing is there.");
  }
  const hasUsers = data.jobs.some((it) => it.user);
  const foreseen = ctx.local.starts?.starts;
  const columns = [
    { title: "Job" }, { title: "State" }, { title: "Queue", from: "wide" },
    ...(hasUsers ? [{ title: "User", from: "mid" }] : []),
    { title: "GPUs", number: true }, { title: "Pods", number: true, from: "wide" }, { title: "For", number: true },
    ...(foreseen ? [{ title: "Starts", number: true }] : []),
    { title: "Place", number: true, from: "wide" }, { title: "Nodes", from: "wide" },
  ];
  const rows = data.jobs.map((it) => ({
    key: it.podGroup,
    cells: [
      jobLink(it),
      h("span", { class: "state" }, stateBadge(it),
        it.reason && h("span", { class: "muted" }, words(it.reason))),
      queueLink(it.queue, colours),
      ...(hasUsers ? [it.user || NONE] : []),
      held(it.gpus.held, it.gpus.pending), held(it.pods.running, it.pods.pending),
      h("span", { title: `${it.reason ? "waits" : "runs"} since ${stamp(it.since)}` }, age(it.since, ctx.now)),
      ...(foreseen ? [startOf(foreseen[it.podGroup])] : []),
      it.place ? `${count(it.place.position)} of ${count(it.place.of)}` : NONE,
      nodesOf(it),
    ],
  }));
  return [table("Jobs", columns, rows), pager(data, ctx.go)];
}

function nodesOf(it) {
  const more = it.nodeCount - it.nodes.length;
  return it.nodeCount ? it.nodes.join(", ") + (more ? ` and ${count(more)} more` : "") : NONE;
}

function held(has, waits) {
  if (!waits) return count(has);
  return [count(has), h("span", { class: "waits", title: "waiting" }, ` +${count(waits)}`)];
}
