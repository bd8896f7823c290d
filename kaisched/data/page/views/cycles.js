// Cycle times: what the last cycles took, by action, and what they did.

import { h } from "../dom.js";
import { clock, count, duration } from "../format.js";
import { empty, section, table, tile } from "../parts.js";

const HEIGHT = 160;
const COLOURS = ["#4c6fe0", "#e8833a", "#17a398", "#a35fd0", "#b8952b", "#6d7f99", "#d6578f"];

export const cycles = {
  id: "cycles",
  title: "Cycles",
  about: "How long the last cycles took, and what they did.",
  isByCycle: true,

  load: (ctx) => ctx.get("/cycles"),
  document: () => ({ path: "/cycles", params: {}, list: "cycles" }),

  render({ cycles: found }) {
    if (!found.length) return empty("No cycle has ended yet", "");
    const took = found.map((it) => it.durationSeconds).sort((one, other) => one - other);
    const at = (part) => took[Math.min(Math.floor(took.length * part), took.length - 1)];
    return [
      h("div", { class: "tiles" },
        tile("Last", duration(found[0].durationSeconds)), tile("Median", duration(at(0.5))),
        tile("99 %", duration(at(0.99))), tile("Longest", duration(at(1)))),
      section("The last cycles", `${count(found.length)}, the latest at the right`, chart(found)),
      h("div", { class: "columns" },
        section("By action", null, sums(found, "actions", "Action")),
        section("By plugin", null, sums(found, "plugins", "Plugin"))),
    ];
  },
};

function namesOf(found, of) {
  return [...new Set(found.flatMap((it) => Object.keys(it[of])))];
}

function chart(found) {
  const shown = found.slice(0, 300).reverse();
  const names = namesOf(shown, "actions");
  const longest = Math.max(...shown.map((it) => it.durationSeconds)) || 1;
  const width = 1000 / Math.max(shown.length, 60);
  return h("div", { class: "chart" },
    h("div", { class: "legend" }, names.map((name, at) =>
      h("span", { key: name }, h("i", { class: "key", style: { background: COLOURS[at % COLOURS.length] } }), name)),
      h("span", {}, h("i", { class: "key rest" }), "the rest")),
    h("div", { class: "plot" }, h("span", { class: "axis number" }, duration(longest)),
      h("svg", { viewBox: `0 0 1000 ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
        "aria-label": `The last ${shown.length} cycles; the longest took ${duration(longest)}` },
        shown.map((it, at) => column(it, at * width, width, names, longest)))));
}

function column(it, x, width, names, longest) {
  const scale = HEIGHT / longest;
  let y = HEIGHT;
  const parts = names.map((name, at) => {
    const tall = (it.actions[name] || 0) * scale;
    y -= tall;
    return h("rect", { x, y, width: width * 0.85, height: Math.max(tall, 0), fill: COLOURS[at % COLOURS.length] });
  });
  const tall = it.durationSeconds * scale;
  return h("g", { key: it.cycle },
    h("rect", { class: "rest", x, y: HEIGHT - tall, width: width * 0.85, height: tall }), parts,
    h("title", {}, `cycle ${it.cycle} at ${clock(it.time)}: ${duration(it.durationSeconds)}, ${it.binds} bound, `
      + `${it.evictions} evicted, ${it.nominations} promised, ${it.pending} pending`));
}

function sums(found, of, title) {
  const rows = namesOf(found, of).map((name) => {
    const took = found.map((it) => it[of][name] || 0);
    return { name, sum: took.reduce((sum, it) => sum + it, 0), most: Math.max(...took), last: took[0] };
  }).sort((one, other) => other.sum - one.sum);
  return table(title, [{ title }, { title: "Last", number: true }, { title: "Mean", number: true },
    { title: "Longest", number: true }],
  rows.map((it) => ({ key: it.name,
    cells: [it.name, duration(it.last), duration(it.sum / found.length), duration(it.most)] })));
}
