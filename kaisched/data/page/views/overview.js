// Overview: what the cluster has, who waits and why, who is furthest from the fair share.

import { Colours } from "../colour.js";
import { h } from "../dom.js";
import { count, duration, NONE, percent, plural, stamp } from "../format.js";
import {
  badge, bar, barLegend, empty, gainerLink, jobLink, link, queueLink, resourcesOf, scaleOf, section, table, tile, words,
} from "../parts.js";

const FEW = 8;

export const overview = {
  id: "overview",
  title: "Overview",
  about: "What the last cycle found.",
  isByCycle: true,

  async load(ctx) {
    const [totals, queues, evictions] = await Promise.all([
      ctx.get("/overview"), ctx.get("/queues"), ctx.get("/evictions", { limit: 6 })]);
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
        waiting(totals), furthest(queues, colours), lately(evictions, colours)),
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
  const parents = new Set(queues.map((it) => it.parent));
  const leaves = queues.filter((it) => !parents.has(it.name) && it.fairShare[resource] !== null);
  const gap = (it) => it.allocated[resource] - it.fairShare[resource];
  const asked = leaves.filter((it) => it.requested[resource] > 0)
    .sort((one, other) => Math.abs(gap(other)) - Math.abs(gap(one))).slice(0, FEW);
  const scale = scaleOf(asked, resource);
  return section("Furthest from the fair share", link("/queues", "All queues"),
    asked.length
      ? [barLegend(), h("ul", { class: "bars" }, asked.map((it) =>
        h("li", { key: it.name }, queueLink(it.name, colours),
          bar(it, resource, scale, colours.of(it.name)), signed(gap(it)))))]
      : empty("Nothing is asked for", "Queues are listed here once their jobs ask for room."));
}

function signed(gap) {
  if (Math.abs(gap) < 0.005) return h("span", { class: "number muted" }, "even");
  const kind = gap < 0 ? "wait" : "quiet";
  return badge(`number ${kind}`, `${gap > 0 ? "+" : "−"}${count(Math.abs(gap))}`);
}

function lately(evictions, colours) {
  const rows = evictions.evictions.map((it) => ({
    key: `${it.cycle}/${it.pod}`,
    cells: [jobLink(it), queueLink(it.queue, colours),
      it.beneficiary ? gainerLink(it) : NONE],
  }));
  return section("Last evictions", link("/evictions", "All evictions"),
    rows.length
      ? table("Last evictions", [{ title: "Job" }, { title: "Queue" }, { title: "For" }], rows)
      : empty("Nothing was evicted", "Among the last 20,000 decisions of this process."));
}
