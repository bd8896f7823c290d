// GPUs of many nodes: totals by state, by domain and by department; a click shows the names.

import { Colours } from "../colour.js";
import { h } from "../dom.js";
import { count, plural } from "../format.js";
import { field, queueLink, section, table, tile } from "../parts.js";

const STATES = {
  free: "all GPUs free", partly: "some GPUs free", full: "no GPU free", without: "no GPUs",
  unschedulable: "unschedulable", "not-ready": "not ready",
};
const MOST = 40;

export function capacityView({ capacity, queues }, ctx) {
  const { all } = capacity;
  return [
    h("div", { class: "filters" },
      field("Name", "", (name) => ctx.go({ name }), { placeholder: "part of a name" }),
      field("Queue", "", (queue) => ctx.go({ queue }), { placeholder: "holds room there" }),
      capacity.levels.length > 0 && field("By", capacity.level, (by) => ctx.go({ by }),
        { choices: capacity.levels.map((it) => [it, it]) }),
      h("button", { type: "button", onclick: () => ctx.go({ all: "1" }) }, "Every node")),
    h("div", { class: "tiles" },
      tile("GPUs free", count(all.free), `of ${count(all.total)}`, plural(all.nodes, "node")),
      tile("Whole free nodes", count(all.wholeFree)),
      tile("Largest gang that fits", count(capacity.largestGang), "pods of 1 GPU",
        capacity.level ? `in one ${capacity.level}` : ""),
      tile("GPUs stranded", count(all.stranded), "", "free, without CPU or memory", all.stranded ? "wait" : "")),
    h("div", { class: "columns" },
      section("By state", null, totals("State", capacity.states, (it) => [STATES[it], { nodeState: it }], ctx)),
      departments(capacity, queues),
      capacity.level && section(`By ${capacity.level}`, capacity.domains.length > MOST ? `the ${MOST} with the most free GPUs` : null,
        totals(capacity.level, [...capacity.domains].sort((one, other) => other.free - one.free).slice(0, MOST),
          (it) => [it, { domain: it }], ctx))),
  ];
}

function totals(title, found, linkOf, ctx) {
  const number = (head, from) => ({ title: head, number: true, from });
  return table(`Nodes by ${title}`, [{ title }, number("Nodes"), number("Free"), number("Whole nodes", "mid"),
    number("Stranded", "mid")],
  found.map((it) => {
    const [text, changes] = linkOf(it.name);
    const query = new URLSearchParams({ ...ctx.params, ...changes });
    return { key: it.name, cells: [h("a", { href: `#/nodes?${query}` }, text), count(it.nodes),
      [h("span", {}, `${count(it.free)} of ${count(it.total)}`), meter(it)], count(it.wholeFree), count(it.stranded)] };
  }));
}

function meter(it) {
  const part = it.total ? (it.total - it.free) / it.total : 0;
  return h("div", { class: "meter", "aria-hidden": "true" }, h("b", { style: { width: `${part * 100}%` } }));
}

function departments(capacity, queues) {
  const colours = new Colours(queues);
  const found = Object.entries(capacity.departments).sort((one, other) => other[1] - one[1]);
  const total = capacity.all.total || 1;
  return section("By department", "GPUs held", h("ul", { class: "bars" }, found.map(([name, held]) =>
    h("li", { key: name }, queueLink(name, colours),
      h("div", { class: "bar", role: "img", "aria-label": `${name}: ${count(held)} GPUs` },
        h("b", { class: "held", style: { width: `${Math.min(held / total, 1) * 100}%`, background: colours.of(name) } })),
      h("span", { class: "number" }, count(held))))));
}
