// Overview: what the cluster has, who waits and why, who is furthest from the fair share.

import { Colours } from "../colour.js";
import { h } from "../dom.js";
import { count, duration, percent, plural, stamp } from "../format.js";
import {
  badge, bar, barLegend, empty, link, queueLink, resourcesOf, scaleOf, section, tile, words,
} from "../parts.js";
import { headline } from "./evictions.js";

export const overview = {
  id: "overview",
  title: "Overview",
  about: "What the last cycle found.",
  isByCycle: true,

  async load(ctx) {
    const [totals, queues, evictions] = await Promise.all([
      ctx.get("/overview"), ctx.local.queues || ctx.get("/queues"), ctx.get("/decisions", { limit: 5 })]);
    ctx.local.queues = queues;  // for their colours only
    return { totals, queues: queues.queues, evictions };
  },

  lead: (data) => data && `Cycle ${count(data.totals.cycle)} ended ${stamp(data.totals.time)}.`,
  document: () => ({ path: "/overview", params: {} }),
  entries: (data) => [data.totals],

  render({ totals, queues, evictions }) {
    const colours = new Colours(queues);
    return [
      troubles(totals), tiles(totals),
      h("div", { class: "columns" },
        waiting(totals), furthest(totals.furthest, colours), lately(evictions)),
    ];
  },
};

function troubles(totals) {
  const found = [];
  if (totals.abandoned) found.push(`The last cycle ended without decisions: ${totals.abandoned}`);
  for (const it of totals.failures) found.push(`${it.plugin} failed at ${it.question}: ${it.error}`);
  if (totals.usage && totals.usage.state !== "fresh") {
    found.push(`Usage history is ${totals.usage.state}: ${totals.usage.reasons.join("; ")}`);
  }
  return found.map((text) => h("p", { class: "notice bad", role: "alert", key: text }, text));
}

function tiles(totals) {
  const { gpus, capacity, jobs, pods } = totals;
  const part = gpus.total ? gpus.held / gpus.total : null;
  return h("div", { class: "tiles" },
    gpus.total
      ? h("div", { class: "tile" },
        h("div", { class: "label" }, "GPUs held"),
        h("div", { class: "value" }, count(gpus.held),
          h("span", { class: "unit" }, `of ${count(gpus.total)}`)),
        h("div", { class: "meter", role: "img", "aria-label": percent(part) },
          h("b", { style: { width: percent(part).replace(" ", "") } })))
      : tile("CPU cores", count(capacity.cpu)),
    tile("Jobs waiting", count(jobs.pending), "", plural(pods.pending, "pod"), jobs.pending ? "wait" : ""),
    tile("Jobs running", count(jobs.running), "", plural(pods.running, "pod")),
    tile("Nodes", count(totals.nodes), "", plural(totals.queues, "queue")),
    tile("Last cycle", duration(totals.durationSeconds), "",
      `${plural(totals.evictions, "eviction")} kept`));
}

function waiting(totals) {
  const reasons = Object.entries(totals.pending).sort((one, other) => other[1] - one[1]);
  const most = reasons.length ? reasons[0][1] : 1;
  return section("Why jobs wait", link("/jobs?state=waiting", "All waiting jobs"),
    reasons.length
      ? h("ul", { class: "reasons" }, reasons.map(([reason, number]) =>
        h("li", { key: reason },
          h("a", { href: `#/jobs?state=waiting&reason=${reason}` },
            h("span", {}, words(reason)), h("span", { class: "number" }, count(number)),
            h("b", { style: { width: `${(number / most) * 100}%` } })))))
      : empty("No job waits", "All that was asked for has its room."));
}

function furthest(queues, colours) {
  const resource = resourcesOf(queues)[0] || "gpu";
  const scale = scaleOf(queues, resource);
  return section("Furthest from the fair share", link("/queues", "All queues"),
    queues.length
      ? [barLegend(), h("ul", { class: "bars" }, queues.map((it) =>
        h("li", { key: it.name }, queueLink(it.name, colours),
          bar(it, resource, scale, colours.of(it.name)), signed(it.allocated[resource] - it.fairShare[resource]))))]
      : empty("Nothing is asked for", "Queues are listed here once their jobs ask for room."));
}

function signed(gap) {
  if (Math.abs(gap) < 0.005) return h("span", { class: "number muted" }, "even");
  const kind = gap < 0 ? "wait" : "quiet";
  return badge(`number ${kind}`, `${gap > 0 ? "+" : "−"}${count(Math.abs(gap))}`);
}

function lately(evictions) {
  return section("Last evictions", link("/evictions", "All evictions"),
    evictions.decisions.length
      ? h("ol", { class: "decisions" }, evictions.decisions.map((it) =>
        h("li", { key: `${it.cycle}/${it.victims[0].pod}` },
          h("div", { class: "when" }, h("time", { class: "number muted" }, stamp(it.time)), badge("bad", it.rule)),
          headline(it))))
      : empty("Nothing was evicted", "Among the last 20,000 decisions of this process."));
}
