// What several views are made of: tiles, badges, bars, tables, pagers, and what empty places say.

import { h } from "./dom.js";
import { amount, count, NONE } from "./format.js";

export function link(to, ...text) {
  return h("a", { href: `#${to}` }, ...text);
}

/** What a job of a document is called: by what a person has made. */
export function titleOf(it, name = "podGroup", workload = "workload") {
  const of = it[workload];
  return of ? `${of.kind} ${of.namespace}/${of.name}${of.part ? ` (${of.part})` : ""}` : it[name];
}

export function jobLink(it, name = "podGroup", workload = "workload") {
  if (!it[name]) return h("span", { class: "muted" }, "not shown to you");
  return h("a", { href: `#/jobs/${encodeURI(it[name])}`, class: "name" }, titleOf(it, name, workload));
}

/** The job that a pod was evicted for. */
export function gainerLink(it) {
  return jobLink(it, "beneficiary", "beneficiaryWorkload");
}

export function queueLink(name, colours) {
  if (!name) return h("span", { class: "muted" }, NONE);
  return h("a", { href: `#/queues/${encodeURIComponent(name)}`, class: "queue" },
    colours && dot(colours.of(name)), name);
}

export function dot(colour) {
  return h("span", { class: "dot", style: { background: colour }, "aria-hidden": "true" });
}

export function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, text);
}

export function section(title, more, ...content) {
  return h("section", { class: "card" },
    h("header", {}, h("h2", {}, title), more && h("div", { class: "more" }, more)), ...content);
}

export function tile(label, value, unit, note, kind) {
  return h("div", { class: `tile ${kind || ""}` },
    h("div", { class: "label" }, label),
    h("div", { class: "value" }, value, unit && h("span", { class: "unit" }, unit)),
    note && h("div", { class: "note" }, note));
}

export function empty(title, text) {
  return h("div", { class: "empty" },
    h("div", { class: "empty-mark", "aria-hidden": "true" }), h("p", { class: "strong" }, title),
    text && h("p", { class: "muted" }, text));
}

/** A table: columns have a title, whether they are numbers, and from which width they are shown. */
export function table(caption, columns, rows) {
  const names = columns.map((it) => [it.number && "number", it.from && `from-${it.from}`, it.wide && "wide"]
    .filter(Boolean).join(" ") || null);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("thead", {}, h("tr", {},
        columns.map((it, at) => h("th", { class: names[at], scope: "col" }, it.title)))),
      h("tbody", {}, rows.map((row) =>
        h("tr", { key: row.key, class: row.kind || null },
          row.cells.map((cell, at) => h("td", { class: names[at] }, cell)))))));
}

export function pager(document, go) {
  const { total, offset, limit, next } = document;
  if (total <= limit && offset === 0) return null;
  const end = Math.min(offset + limit, total);
  return h("nav", { class: "pager", "aria-label": "Parts of the list" },
    h("button", { type: "button", disabled: offset === 0,
      onclick: () => go({ offset: Math.max(offset - limit, 0) || "" }) }, "Previous"),
    h("span", { class: "muted number" },
      `${count(Math.min(offset + 1, total))}–${count(end)} of ${count(total)}`),
    h("button", { type: "button", disabled: next === null,
      onclick: () => go({ offset: next }) }, "Next"));
}

/** A field that filters: it waits until one stops typing. */
export function field(label, value, change, options) {
  const more = options || {};
  if (more.choices) {
    return h("label", { class: "field" }, h("span", {}, label),
      h("select", { value, onchange: (event) => change(event.target.value) },
        more.choices.map(([of, text]) => h("option", { value: of, selected: of === value }, text))));
  }
  return h("label", { class: "field" }, h("span", {}, label),
    h("input", { type: "search", value, placeholder: more.placeholder || "", list: more.list || null,
      spellcheck: "false", autocomplete: "off", oninput: later(change) }));
}

let timer = 0;

function later(change) {
  return (event) => {
    const { value } = event.target;
    clearTimeout(timer);
    timer = setTimeout(() => change(value), 300);
  };
}

/** What the bars of some queues are drawn to: the most that they hold or may hold, not what they ask for. */
export function scaleOf(queues, resource) {
  const values = queues.flatMap((it) => [
    it.allocated[resource], it.fairShare[resource], it.deserved[resource], it.limit?.[resource]]);
  const finite = values.filter((it) => Number.isFinite(it));
  return Math.max(...finite, 0) || 1;
}

/** The bar of a queue: what it holds and asks for; marks of its shares and limit; what it asks for beyond the bar. */
export function bar(queue, resource, scale, colour) {
  const of = (name) => queue[name][resource];
  const width = (value) => `${Math.min(Math.max(value, 0) / scale, 1) * 100}%`;
  const mark = (kind, value) => value !== null && value !== undefined && value <= scale * 1.0001 &&
    h("i", { class: kind, style: { left: width(value) } });
  const held = of("allocated") || 0;
  const asked = Math.max(of("requested") || 0, held);
  const says = ["allocated", "requested", "fairShare", "deserved", "limit"]
    .map((name) => `${name === "fairShare" ? "fair share" : name} ${amount(of(name), resource)}`);
  return h("div", { class: "barred" }, h("div", { class: "bar", role: "img", title: says.join("\n"),
    "aria-label": `${queue.name}, ${resource}: ${says.join(", ")}` },
    h("b", { class: "asked", style: { width: width(asked) } }),
    h("b", { class: "held", style: { width: width(held), background: colour } }),
    mark("deserved", of("deserved")), mark("fair", of("fairShare")), mark("limit", of("limit"))),
    asked > scale * 1.0001 && h("span", { class: "beyond number" }, `+${amount(asked - scale, resource)} requested`));
}

export function barLegend() {
  const entry = (kind, text) => h("span", {}, h("i", { class: `key ${kind}` }), text);
  return h("div", { class: "legend", "aria-hidden": "true" },
    entry("held", "allocated"), entry("asked", "requested"), entry("fair", "fair share"),
    entry("deserved", "deserved"), entry("limit", "limit"));
}

/** The resources that queues share out, the scarce one first. */
export function resourcesOf(queues) {
  const found = new Set(queues.flatMap((it) => Object.keys(it.allocated)));
  const has = (name) => queues.some((it) => it.allocated[name] > 0 || it.requested[name] > 0);
  const order = ["gpu", ...[...found].filter((it) => it !== "gpu" && it !== "pods")];
  return order.filter((it) => found.has(it) && (it === "gpu" || has(it)));
}

export const STATES = {
  pending: ["wait", "waiting"],
  partly: ["wait", "partly running"],
  running: ["good", "running"],
  ending: ["quiet", "ending"],
};

export function stateBadge(job) {
  const [kind, text] = STATES[job.state] || ["quiet", job.state];
  return badge(kind, text);
}

/** A reason such as NoRoom as words. */
export function words(reason) {
  return reason ? reason.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase() : NONE;
}
