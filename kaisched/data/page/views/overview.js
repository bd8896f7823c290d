// Overview: what the cluster has, who waits and why, who is furthest from the fair share.

import { Colours } from "../colour.js";
import { h } from "../dom.js";
import { count, duration, percent, plural, stamp } from "../format.js";
import {
  badge, bar, barLegend, empty, link, queueLink, resourcesOf, scaleOf, section, table, tile, words,
} from "../parts.js";
import { headline } from "./evictions.js";

const HOURS_MS = 55_000;

export const overview = {
  id: "overview",
  title: "Overview",
  about: "What the last cycle found.",
  isByCycle: true,

  async load(ctx) {
    const [totals, queues, evictions] = await Promise.all([
      ctx.get("/overview"), ctx.local.queues || ctx.get("/queues"), ctx.get("/decisions", { limit: 5 })]);
    ctx.local.queues = queues;  // for their colours only
    if (!(ctx.now - ctx.local.hoursAt < HOURS_MS)) {
      Object.assign(ctx.local, { hours: await ctx.get("/hours", { last: 24 }), hoursAt: ctx.now });
    }
    return { totals, queues: queues.queues, evictions, hours: ctx.local.hours };
  },

  lead: (data) => data && `Cycle ${count(data.totals.cycle)} ended ${stamp(data.totals.time)}.`,
  document: () => ({ path: "/overview", params: {} }),
  entries: (data) => [data.totals],

  render({ totals, queues, evictions, hours }) {
    const colours = new Colours(queues);
    return [
      troubles(totals), tiles(totals),
      h("div", { class: "columns" },
        lastHours(hours),
        waiting(totals), furthest(totals.furthest, colours), lately(evictions)),
    ];
  },
};

function troubles(totals) {
  const found = [];
  if (totals.abandoned) found.push(`The last cycle ended without decisions: ${totals.abandoned}`);
  for (const it of totals.failures) found.push(`${it.plugin} failed at ${it.question}: ${it.error}`);
  found.push(...totals.wrong);
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
    tile("Jobs waiting", count(jobs.pending), "", `${count(totals.waiting)} GPUs, ${plural(pods.pending, "pod")}`, jobs.pending ? "wait" : ""),
    tile("Oldest wait", duration(totals.oldestWaitSeconds)),
    tile("Jobs running", count(jobs.running), "", plural(pods.running, "pod")),
    tile("Nodes", count(totals.nodes), "", plural(totals.queues, "queue")),
    tile("Last cycle", duration(totals.durationSeconds), "",
      `${plural(totals.evictions, "eviction")} kept`));
}

/** The last day and week: use, waits and what was lost, and the hours of the day as columns. */
function lastHours(data) {
  const { day, week, hours } = data;
  const rows = [
    ["Use", (it) => percent(it.use)],
    ["Waiting GPUs", (it) => count(it.waiting)],
    ["Oldest wait", (it) => duration(it.oldestWaitSeconds)],
    ["Jobs started", (it) => count(it.starts)],
    ["Wait, half of them", (it) => duration(it.waitP50Seconds)],
    ["Wait, 95 %", (it) => duration(it.waitP95Seconds)],
    ["Pods evicted", (it) => count(it.evictions)],
    ["GPU-hours lost", (it) => count(it.lostGpuHours)],
  ].map(([title, of]) => ({ key: title, cells: [title, of(hours.at(-1) || day), of(day), of(week)] }));
  const number = (title) => ({ title, number: true });
  return section("The last hours", `${duration(week.seenSeconds)} of a week seen`,
    hours.length > 1 && columns(hours),
    table("The last day and week", [{ title: "Measure" }, number("This hour"), number("Day"), number("Week")], rows));
}

const TALL = 90;

/** Each hour a column: the part in use filled, with the starts told when it is pointed at. */
function columns(hours) {
  const most = Math.max(...hours.map((it) => it.starts), 1);
  const wide = 400 / Math.max(hours.length, 24);
  const says = (it) => `${it.start.slice(5, 16).replace("T", " ")}: use ${percent(it.use)}, ${plural(it.starts, "start")}, `
    + `waits ${duration(it.waitP50Seconds)} and ${duration(it.waitP95Seconds)}, ${plural(it.evictions, "eviction")}`;
  return [
    h("div", { class: "legend" }, h("span", {}, h("i", { class: "key" }), "use by hour"),
      h("span", {}, h("i", { class: "key starts" }), `starts, ${count(most)} at most`)),
    h("svg", { class: "hours", viewBox: `0 0 400 ${TALL}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `Use of the last ${hours.length} hours` },
      hours.map((it, at) => h("g", { key: it.start },
        h("rect", { class: "all", x: at * wide, y: 0, width: wide * 0.86, height: TALL }),
        h("rect", { class: "use", x: at * wide, y: TALL * (1 - (it.use || 0)), width: wide * 0.86, height: TALL * (it.use || 0) }),
        h("rect", { class: "starts", x: at * wide, y: TALL * (1 - it.starts / most) - 1, width: wide * 0.86, height: 3 }),
        h("title", {}, says(it))))),
  ];
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
