// Queues: the tree with bars, and one queue with those around it and its jobs.

import { Colours } from "../colour.js";
import { h } from "../dom.js";
import { amount, count, percent, plural } from "../format.js";
import {
  badge, bar, barLegend, dot, empty, field, link, queueLink, resourcesOf, scaleOf, section, table, words,
} from "../parts.js";
import { jobTable } from "./jobs.js";

/** A tree of more queues begins with its branches closed. */
const FEW = 60;
/** Rows that are made at once; the others come when they are asked for. */
const MOST = 300;

export const queues = {
  id: "queues",
  title: "Queues",
  about: "What queues hold, beside what they are entitled to.",

  async load(ctx) {
    if (!ctx.id) return ctx.get("/queues");
    const [found, jobs] = await Promise.all([
      ctx.get(`/queues/${encodeURIComponent(ctx.id)}`),
      ctx.get("/jobs", { queue: ctx.id, offset: ctx.params.offset })]);
    return { ...found, jobs };
  },

  name: (ctx) => ctx.id,
  lead: (data, ctx) => data && (ctx.id ? pathOf(data.queues, ctx.id) : plural(data.queues.length, "queue")),
  command: (ctx) => (ctx.id ? "queue" : "queues"),
  values: (ctx) => ({ queue: ctx.id }),
  document: (ctx) => ({ path: ctx.id ? `/queues/${encodeURIComponent(ctx.id)}` : "/queues",
    params: {}, list: "queues" }),
  entries: (data) => data.queues,

  render(data, ctx) {
    if (!data.queues.length) {
      return empty("There are no queues", "Apply a Queue, and its shares are shown here.");
    }
    return [...tree(data.queues, ctx), ctx.id && of(data, ctx)];
  },
};

function pathOf(found, name) {
  const parents = new Map(found.map((it) => [it.name, it.parent]));
  const path = [];
  for (let it = parents.get(name); it; it = parents.get(it)) path.unshift(it);
  return path.length ? ["Below ", path.map((it, at) => [at > 0 && " / ", queueLink(it)])] : "A queue at the top.";
}

function resourceOf(found, ctx) {
  const resources = resourcesOf(found);
  return resources.includes(ctx.resource) ? ctx.resource : resources[0];
}

function tree(found, ctx) {
  const colours = new Colours(found);
  const resources = resourcesOf(found);
  const resource = resourceOf(found, ctx);
  const below = new Map();
  for (const it of found) below.set(it.parent, [...(below.get(it.parent) || []), it]);
  const text = (ctx.params.name || "").toLowerCase();
  const rows = text
    ? found.filter((it) => it.name.toLowerCase().includes(text)).map((it) => [it, 0])
    : [...opened(below, found, ctx)];
  const most = ctx.local.most || MOST;
  const scales = new Map([...below].map(([parent, of]) => [parent, scaleOf(of, resource)]));
  return [
    h("div", { class: "filters" },
      field("Find", ctx.params.name || "", (name) => ctx.go({ name }), { placeholder: "queue" }),
      resources.length > 1 && field("Resource", resource, (it) => ctx.go({ resource: it }),
        { choices: resources.map((it) => [it, it]) }),
      barLegend()),
    h("div", { class: "tree card", role: "table", "aria-label": "Queues", "aria-rowcount": found.length },
      head(), rows.slice(0, most).map(([it, depth]) =>
        row(it, depth, { resource, ctx, below, colours, isFlat: !!text,
          scale: isOfPath(it, found, ctx) ? scaleOf([it], resource) : scales.get(it.parent) })),
      rows.length > most && h("button", { type: "button", class: "more-rows",
        onclick: () => { ctx.local.most = most + MOST; ctx.draw(); } },
        `Show ${count(Math.min(rows.length - most, MOST))} more of ${count(rows.length)}`),
      !rows.length && empty("No queue has this in its name", "")),
    h("p", { class: "muted small" }, ctx.id
      ? "Each bar of the path has a scale of its own: its limit, or the most that it holds or may hold."
      : "The bars of queues with one parent are drawn to one scale: the most that any of them holds or may hold."),
  ];
}

/** Whether a queue is the one that is shown, or above it. */
function isOfPath(it, found, ctx) {
  if (!ctx.id) return false;
  const me = found.findIndex((of) => of.name === ctx.id);
  return found.indexOf(it) <= me;
}

function* opened(below, found, ctx) {
  const isLarge = found.length > FEW;
  const waiting = (below.get(null) || []).map((it) => [it, 0]).reverse();
  // One queue is shown with those above it, which begin the list.
  if (ctx.id && !waiting.length) waiting.push([found[0], 0]);
  while (waiting.length) {
    const [it, depth] = waiting.pop();
    yield [it, depth];
    if (isOpen(it.name, depth, isLarge, ctx)) {
      const more = below.get(it.name) || [];
      for (let at = more.length - 1; at >= 0; at -= 1) waiting.push([more[at], depth + 1]);
    }
  }
}

function isOpen(name, depth, isLarge, ctx) {
  return ctx.local.open?.[name] ?? (!isLarge || depth === 0);
}

function head() {
  const cell = (text, kind) => h("span", { role: "columnheader", class: kind }, text);
  return h("div", { class: "tree-row tree-head", role: "row", key: "head" },
    cell("Queue"), cell("Shares", "shares"), cell("Allocated", "number"), cell("Fair share", "number"),
    cell("Deserved", "number wide"), cell("Limit", "number wide"), cell("Usage", "number wide"),
    cell("Waiting", "number"));
}

function row(it, depth, { resource, ctx, below, colours, scale, isFlat }) {
  const isLarge = ctx.id ? false : below.size > 0 && [...below.values()].flat().length > FEW;
  const has = !isFlat && below.has(it.name);
  const is = has && isOpen(it.name, depth, isLarge, ctx);
  const waits = Object.values(it.pending).reduce((sum, number) => sum + number, 0);
  const over = it.allocated[resource] > it.fairShare[resource] && it.fairShare[resource] !== null;
  const toggle = () => {
    ctx.local.open = { ...ctx.local.open, [it.name]: !is };
    ctx.draw();
  };
  const number = (value, kind, label) =>
    h("span", { role: "cell", class: `number ${kind || ""}`, "data-label": label }, value);
  return h("div", { class: `tree-row ${it.name === ctx.id ? "current" : ""}`, role: "row", key: it.name },
    h("span", { role: "rowheader", class: "tree-name", style: { "--depth": String(depth) } },
      has ? h("button", { type: "button", class: "twist", "aria-expanded": String(is),
        "aria-label": `${is ? "Close" : "Open"} ${it.name}`, onclick: toggle }, is ? "▾" : "▸")
        : h("span", { class: "twist" }),
      dot(colours.of(it.name)),
      h("a", { href: `#/queues/${encodeURIComponent(it.name)}` }, it.name),
      it.stopPolicy && badge("wait", it.stopPolicy === "Hold" ? "held" : "drained"),
      it.problem && h("span", { class: "badge bad", title: it.problem }, "problem")),
    h("span", { role: "cell", class: "shares" }, bar(it, resource, scale, colours.of(it.name))),
    number(amount(it.allocated[resource], resource), over ? "over" : "", "allocated"),
    number(amount(it.fairShare[resource], resource), "", "fair share"),
    number(amount(it.deserved[resource], resource), "wide"),
    number(amount(it.limit[resource], resource), "wide"),
    number(it.usage ? percent(it.usage[resource]) : "–", "wide"),
    number(waits ? h("a", { href: `#/jobs?state=waiting&queue=${encodeURIComponent(it.name)}` },
      badge("wait", count(waits))) : h("span", { class: "muted" }, "0"), "", "waiting"));
}

/** What a project has in each node pool and in all, of one resource. */
function overPools(project, resource, mine) {
  const number = (title, from) => ({ title, number: true, from });
  const cells = (it) => ["allocated", "fairShare", "requested", "deserved"]
    .map((name) => amount(it[name][resource], resource));
  const rows = project.pools.map((it) => ({ key: it.nodePool, cells: [
    it.nodePool, it.queue === mine ? h("b", {}, it.queue) : it.queue, ...cells(it)] }));
  return section(`${project.name} over node pools`, null,
    table(`${project.name} over node pools, ${resource}`,
      [{ title: "Node pool" }, { title: "Queue" }, number("Allocated"), number("Fair share"),
        number("Requested", "wide"), number("Deserved")],
      [...rows, { key: " all", kind: "sum", cells: [h("b", {}, "all"), "", ...cells(project)] }]),
    h("p", { class: "muted small" },
      "Fair shares are those of each node pool; nothing is decided by their sum."));
}

function of(data, ctx) {
  const me = data.queues.find((it) => it.name === ctx.id);
  const reasons = Object.entries(me?.pending || {});
  const figures = Object.entries(me?.figures || {});
  return [
    me?.problem && h("p", { class: "notice bad" }, me.problem),
    h("div", { class: "chips" },
      reasons.map(([reason, number]) => h("a", { class: "chip", key: reason,
        href: `#/jobs?state=waiting&queue=${encodeURIComponent(ctx.id)}&reason=${reason}` },
        words(reason), h("b", {}, count(number)))),
      figures.map(([name, value]) => h("span", { class: "chip", key: name }, name, h("b", {}, count(value))))),
    me?.project && overPools(me.project, resourceOf(data.queues, ctx), me.name),
    section("Jobs", link(`/jobs?queue=${encodeURIComponent(ctx.id)}`, "With filters"),
      jobTable(data.jobs, ctx, null)),
  ];
}
