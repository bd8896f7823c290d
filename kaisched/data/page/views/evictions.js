// Evictions by decision: who went, for whom, by which rule, and how much work is lost.

import { h } from "../dom.js";
import { count, hours, plural, stamp } from "../format.js";
import { badge, empty, field, gainerLink, jobLink, pager, queueLink, table } from "../parts.js";

export const evictions = {
  id: "evictions",
  title: "Evictions",
  about: "Who went for whom, and by which rule.",

  load: (ctx) => ctx.get("/decisions", paramsOf(ctx)),
  lead: (data) => data &&
    `${plural(data.total, "decision")} kept${data.hidden ? `; ${plural(data.hidden, "pod")} that you may not see went, too` : ""}.`,
  document: (ctx) => ({ path: "/decisions", params: paramsOf(ctx), list: "decisions" }),

  render(data, ctx) {
    return [
      h("div", { class: "filters" },
        field("Queue", ctx.params.queue || "", (queue) => ctx.go({ queue }), { placeholder: "lost or gained" })),
      h("div", { class: "card" }, data.decisions.length
        ? [h("ol", { class: "decisions" }, data.decisions.map((it) => decision(it, ctx))), pager(data, ctx.go)]
        : empty("Nothing was evicted", "Among the last 20,000 decisions of this process.")),
    ];
  },
};

function paramsOf(ctx) {
  return { queue: ctx.params.queue, offset: ctx.params.offset };
}

/** The sentence of a decision: "14 pods of 9 jobs for Job x, 3.2 GPU-hours lost". */
export function headline(it) {
  const whom = it.beneficiary ? [" for ", gainerLink(it)]
    : it.beneficiaryQueue ? [" for a job of ", queueLink(it.beneficiaryQueue)] : null;
  return h("p", { class: "headline" },
    `${plural(it.pods, "pod")} of `, it.jobs === 1 ? jobLink(it.victims[0]) : plural(it.jobs, "job"), whom,
    it.lostGpuHours > 0 && `, ${hours(it.lostGpuHours)} lost`);
}

function decision(it, ctx) {
  const key = `${it.cycle}/${it.victims[0].pod}`;
  const isOpen = ctx.local.open === key;
  const rows = isOpen && it.victims.map((victim) => ({
    key: victim.pod,
    cells: [jobLink(victim), victim.pod.split("/").pop(), queueLink(victim.queue), victim.node],
  }));
  const more = it.pods - it.victims.length;
  return h("li", { key },
    h("div", { class: "when" }, h("time", { class: "number muted" }, stamp(it.time)), badge("bad", it.rule)),
    headline(it),
    h("p", { class: "because" }, it.reason),
    h("button", { type: "button", class: "quiet", "aria-expanded": String(isOpen),
      onclick: () => { ctx.local.open = isOpen ? "" : key; ctx.draw(); } },
      isOpen ? "Hide the pods" : `Show ${it.pods === 1 ? "the pod" : `${count(it.pods)} pods`}`),
    isOpen && table("Evicted pods", [{ title: "Job" }, { title: "Pod" }, { title: "Queue" }, { title: "Node", from: "mid" }], rows),
    isOpen && more > 0 && h("p", { class: "muted small" }, `and ${count(more)} more`));
}
