// Evictions: who went, for whom, and by which rule.

import { h } from "../dom.js";
import { clock, count, NONE, plural, stamp } from "../format.js";
import { badge, empty, field, gainerLink, jobLink, pager, queueLink, table } from "../parts.js";

export const evictions = {
  id: "evictions",
  title: "Evictions",
  about: "Who went for whom, and by which rule.",

  load: (ctx) => ctx.get("/evictions", paramsOf(ctx)),
  lead: (data) => data &&
    `${plural(data.total, "eviction")} kept${data.hidden ? `, and ${count(data.hidden)} that you may not see` : ""}.`,
  document: (ctx) => ({ path: "/evictions", params: paramsOf(ctx), list: "evictions" }),

  render(data, ctx) {
    const rows = data.evictions.map((it) => ({
      key: `${it.cycle}/${it.pod}`,
      cells: [
        h("time", { class: "number", title: stamp(it.time) }, clock(it.time)),
        h("span", { class: "who" }, jobLink(it), h("span", { class: "muted small" }, it.pod.split("/").pop())),
        queueLink(it.queue),
        badge("bad", it.rule),
        it.beneficiary || it.beneficiaryQueue
          ? h("span", { class: "who" }, gainerLink(it),
            h("span", { class: "muted small" }, it.beneficiaryQueue)) : NONE,
        it.reason,
      ],
    }));
    return [
      h("div", { class: "filters" },
        field("Queue", ctx.params.queue || "", (queue) => ctx.go({ queue }), { placeholder: "lost or gained" })),
      h("div", { class: "card" }, rows.length
        ? [table("Evictions", [{ title: "Time" }, { title: "Went" }, { title: "Queue", from: "mid" },
          { title: "Rule" }, { title: "For" }, { title: "Because", from: "wide", wide: true }], rows),
        pager(data, ctx.go)]
        : empty("Nothing was evicted", "Among the last 20,000 decisions of this process.")),
    ];
  },
};

function paramsOf(ctx) {
  return { queue: ctx.params.queue, offset: ctx.params.offset };
}
