// Node map: each GPU a cell in the colour of its queue, shared GPUs in parts, MIG instances narrower, by domain.

import { capacityView } from "./capacity.js";
import { Colours } from "../colour.js";
import { h } from "../dom.js";
import { amount, count, plural } from "../format.js";
import { badge, dot, empty, field, jobLink, pager, queueLink, section, table } from "../parts.js";

const PART = 1000;
/** With more nodes than these only their cells are drawn; names are told by each of them. */
const NAMED = 200;
const CELL = 12;
const STEP = 14;

export const nodes = {
  id: "nodes",
  title: "Nodes",
  about: "Each GPU is a cell in the colour of the queue that holds it, each MIG instance a narrower one.",

  async load(ctx) {
    const [found, queues] = await Promise.all([
      ctx.get("/nodes", isZoomed(ctx) ? paramsOf(ctx) : { limit: NAMED }), ctx.local.queues || ctx.get("/queues")]);
    ctx.local.queues = queues;
    const isLarge = found.total > NAMED && !isZoomed(ctx);
    const capacity = isLarge ? await ctx.get("/capacity", { level: ctx.params.by === "none" ? "" : ctx.params.by }) : null;
    return { ...found, queues: queues.queues, capacity };
  },

  lead: (data) => data?.capacity && "GPUs in totals; a state or a domain leads to its nodes.",
  document: (ctx) => ({ path: "/nodes", params: paramsOf(ctx), list: "nodes" }),

  render(data, ctx) {
    if (data.capacity) return capacityView(data, ctx);
    const colours = new Colours(data.queues);
    const chosen = data.nodes.find((it) => it.name === ctx.local.node);
    return [
      h("div", { class: "filters" },
        field("Name", ctx.params.name || "", (name) => ctx.go({ name }), { placeholder: "part of a name" }),
        field("Queue", ctx.params.queue || "", (queue) => ctx.go({ queue }), { placeholder: "holds room there" }),
        levels(data.nodes, ctx),
        isZoomed(ctx) && h("button", { type: "button",
          onclick: () => ctx.go({ name: "", queue: "", nodeState: "", domain: "", all: "" }) }, "All nodes")),
      data.nodes.length ? [legend(data, colours), map(data, ctx, colours)]
        : empty("No nodes", "Nothing matches, or the cluster has none."),
      pager(data, ctx.go),
      chosen && detail(chosen, colours, ctx),
    ];
  },
};

function paramsOf(ctx) {
  const { name, queue, nodeState, domain, offset } = ctx.params;
  return { name, queue, nodeState, domain, offset, limit: PART };
}

/** Whether some of the nodes are asked for, or all by name; else many are told in totals. */
function isZoomed(ctx) {
  return ["name", "queue", "nodeState", "domain", "offset", "all"].some((it) => ctx.params[it]);
}

/** The level to begin with: the innermost of which domains have several nodes, so racks rather than hosts. */
function firstLevel(found) {
  const names = [...new Set(found.flatMap((it) => Object.keys(it.domains || {})))];
  const isWide = (name) => {
    const inside = found.map((it) => it.domains?.[name]).filter(Boolean);
    return new Set(inside).size < inside.length;
  };
  return names.filter(isWide).at(-1) ?? names.at(-1);
}

function levels(found, ctx) {
  const names = [...new Set(found.flatMap((it) => Object.keys(it.domains || {})))];
  if (!names.length) return null;
  return field("By", ctx.params.by ?? firstLevel(found), (by) => ctx.go({ by }),
    { choices: [...names.map((it) => [it, it]), ["none", "nothing"]] });
}

function legend(data, colours) {
  const held = new Set(data.nodes.flatMap((it) => it.holders.map((holder) => holder.queue)));
  const shown = data.queues.map((it) => it.name).filter((it) => held.has(it));
  return h("div", { class: "legend" },
    shown.slice(0, 24).map((it) => h("span", { key: it }, queueLink(it, colours))),
    shown.length > 24 && h("span", { class: "muted", key: "+" }, `and ${shown.length - 24} more`),
    held.has(null) && h("span", { key: "?" }, dot("var(--queue-none)"), "other schedulers"),
    h("span", { key: "free" }, h("i", { class: "key free" }), "free"),
    h("span", { key: "ending" }, h("i", { class: "key ending" }), "being released"));
}

function map(data, ctx, colours) {
  const isNamed = data.nodes.length <= NAMED;
  const by = ctx.params.by ?? firstLevel(data.nodes);
  const groups = new Map();
  for (const it of data.nodes) {
    const domain = it.domains?.[by] ?? "";
    groups.set(domain, [...(groups.get(domain) || []), it]);
  }
  const isOne = groups.size === 1 && groups.has("");
  return [...groups].map(([domain, of]) => h("section", { class: "domain", key: domain },
    !isOne && h("header", {}, h("h2", {}, domain || "without"),
      h("span", { class: "muted number" }, summary(of))),
    h("div", { class: `map ${isNamed ? "named" : ""}`, onkeydown: walk },
      of.map((it) => node(it, isNamed, ctx, colours)))));
}

function summary(of) {
  const sum = (name) => of.reduce((all, it) => all + it.gpus[name], 0);
  return `${plural(of.length, "node")}, ${count(sum("free"))} of ${count(sum("total"))} GPUs free`;
}

/** Arrow keys go from node to node. */
function walk(event) {
  const step = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
  const next = step && event.target.closest(".node")?.[step];
  if (next) {
    next.focus();
    event.preventDefault();
  }
}

function node(it, isNamed, ctx, colours) {
  const cells = cellsOf(it);
  const says = `${it.name}: ${count(it.gpus.free)} of ${count(it.gpus.total)} GPUs free`
    + `${it.ready ? "" : ", not ready"}${it.schedulable ? "" : ", unschedulable"}`
    + `${it.promised.length ? `, ${plural(it.promised.length, "job")} promised room` : ""}`;
  const kind = [!it.ready && "out", !it.schedulable && "closed", it.promised.length && "promised",
    ctx.local.node === it.name && "on"].filter(Boolean).join(" ");
  const columns = Math.min(Math.max(cells.length, 1), 8);
  const rows = Math.max(Math.ceil(cells.length / 8), 1);
  return h("button", { type: "button", class: `node ${kind}`, key: it.name, title: says, "aria-label": says,
    "aria-pressed": String(ctx.local.node === it.name),
    onclick: () => { ctx.local.node = ctx.local.node === it.name ? null : it.name; ctx.draw(); } },
    isNamed && h("span", { class: "node-name" }, it.name),
    h("svg", { viewBox: `0 0 ${columns * STEP - 2} ${rows * STEP - 2}`, width: columns * STEP - 2,
      height: rows * STEP - 2, "aria-hidden": "true" },
      cells.length ? cells.map((cell, at) => drawn(cell, (at % 8) * STEP, Math.floor(at / 8) * STEP, colours))
        : h("rect", { class: "no-gpu", width: CELL, height: CELL, rx: 2 })));
}

/** The GPUs of a node: whole ones by holder, those that are shared, free ones, and its MIG instances. */
export function cellsOf(it) {
  const parts = new Map();
  for (const card of it.cards) {
    for (const of of card.holders) {
      const key = `${of.podGroup}|${of.queue}`;
      parts.set(key, (parts.get(key) || 0) + of.part);
    }
  }
  let whole = it.gpus.total;
  const instances = [];
  for (const of of it.instances) {
    whole -= of.total * of.part;
    for (const holder of of.holders) {
      // What a job has of them is no cell of a GPU.
      const key = `${holder.podGroup}|${holder.queue}`;
      parts.set(key, (parts.get(key) || 0) + holder.instances * of.part);
      for (let left = holder.instances; left > 0; left -= 1) {
        instances.push({ part: of.part, queue: holder.queue, isEnding: holder.ending });
      }
    }
    for (let left = of.free; left > 0; left -= 1) instances.push({ part: of.part, isFree: true });
  }
  const cells = [];
  for (const holder of it.holders) {
    const key = `${holder.podGroup}|${holder.queue}`;
    const shared = Math.min(parts.get(key) || 0, holder.gpus);
    parts.set(key, (parts.get(key) || 0) - shared);
    for (let left = Math.round(holder.gpus - shared); left > 0; left -= 1) {
      cells.push({ queue: holder.queue, isEnding: holder.ending });
    }
  }
  for (const card of it.cards) cells.push({ parts: card.holders });
  while (cells.length < Math.round(whole)) cells.push({ isFree: true });
  return cells.concat(instances);
}

function drawn(cell, x, y, colours) {
  const width = cell.part ? Math.max(cell.part * CELL, 3) : CELL;
  const box = { x, y, width, height: CELL, rx: 2 };
  if (cell.isFree) return h("rect", { ...box, class: "free" });
  if (!cell.parts) {
    return h("rect", { ...box, fill: colours.of(cell.queue), class: cell.isEnding ? "ending" : null });
  }
  let left = x;
  return h("g", {}, h("rect", { ...box, class: "free" }), cell.parts.map((it) => {
    const wide = Math.max(Math.min(it.part * CELL, x + CELL - left), 0);
    left += wide;
    return h("rect", { x: left - wide, y, width: Math.max(wide - 0.6, 0.4), height: CELL,
      fill: colours.of(it.queue) });
  }));
}

function detail(it, colours, ctx) {
  const rows = it.holders.map((holder, at) => ({
    key: `${holder.podGroup}${at}`,
    cells: [jobLink(holder), queueLink(holder.queue, colours), count(holder.pods), count(holder.gpus),
      holder.devices.join(", "), holder.ending ? badge("wait", "ending") : ""],
  }));
  const instances = it.instances.map((of) => `${of.total - of.free} of ${of.total} ${of.resource} held`);
  const free = Object.entries(it.free).filter(([name]) => name !== "pods")
    .map(([name, value]) => `${amount(value, name)} of ${amount(it.allocatable[name], name)} ${name}`);
  return h("aside", { class: "detail", "aria-label": it.name },
    section(it.name, h("button", { type: "button", class: "quiet",
      onclick: () => { ctx.local.node = null; ctx.draw(); } }, "Close"),
      h("p", {}, badge(it.ready ? "good" : "bad", it.ready ? "ready" : "not ready"), " ",
        !it.schedulable && badge("wait", "unschedulable"), " ", h("span", { class: "muted" }, `free: ${free.join(", ")}`)),
      rows.length ? table("Who holds it", [{ title: "Job" }, { title: "Queue" }, { title: "Pods", number: true },
        { title: "GPUs", number: true }, { title: "Devices" }, { title: "State" }], rows) : empty("Nobody holds room here", ""),
      instances.length > 0 && h("p", { class: "muted" }, instances.join(", ")),
      it.promised.length > 0 && h("p", {}, "Promised to ",
        it.promised.map((of, at) => [at > 0 && ", ", jobLink(of)]))));
}
