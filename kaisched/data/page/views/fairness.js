// Fairness over time: a small chart for each queue, what it held beside its fair share.

import { Colours } from "../colour.js";
import { h } from "../dom.js";
import { amount, clock, count, duration, percent, plural } from "../format.js";
import { badge, dot, empty, field, pager } from "../parts.js";

const WIDTH = 400;
const HEIGHT = 110;

export const fairness = {
  id: "fairness",
  title: "Fairness",
  about: "What queues held over time, beside their fair shares.",
  isByCycle: true,

  async load(ctx) {
    const [found, queues] = await Promise.all([
      ctx.get("/fairness", paramsOf(ctx)), ctx.local.queues || ctx.get("/queues")]);
    ctx.local.queues = queues;
    return { ...found, courses: found.queues, all: queues.queues };
  },

  lead: (data) => data && data.times.length > 1 &&
    `${data.resource === "gpu" ? "GPUs" : data.resource} over ${duration(span(data))}, in ${plural(data.times.length, "sample")}.`,
  values: (ctx) => ({ queue: ctx.params.queue || [] }),
  document: (ctx) => ({ path: "/fairness", params: paramsOf(ctx), list: "queues" }),
  /** A row for each queue and time. */
  entries: (data) => data.courses.flatMap((it) => data.times.map((time, at) => ({
    time, queue: it.name, allocated: it.allocated[at], fairShare: it.fairShare[at], usage: it.usage[at] }))),

  render(whole, ctx) {
    const data = within(whole, ctx.params.range);
    const colours = new Colours(data.all);
    const parents = new Set(data.all.map((it) => it.parent));
    const own = data.courses.map((it) => it.name);
    const scales = scalesOf(data);
    const isStacked = ctx.params.shown === "stacked";
    const choices = data.all.filter((it) => parents.has(it.name)).map((it) => it.name).slice(0, 500);
    return [
      h("div", { class: "filters" },
        field("Below", ctx.params.queue || "", (queue) => ctx.go({ queue }),
          { choices: [["", "the top"], ...choices.map((it) => [it, it])] }),
        field("Range", ctx.params.range || "", (range) => ctx.go({ range, offset: ctx.params.offset || "" }),
          { choices: [["", "all that is kept"], ["900", "15 minutes"], ["3600", "an hour"], ["21600", "6 hours"], ["86400", "a day"]] }),
        field("Shown", isStacked ? "stacked" : "", (shown) => ctx.go({ shown, offset: ctx.params.offset || "" }),
          { choices: [["", "each queue"], ["stacked", "stacked"]] }),
        h("div", { class: "legend", "aria-hidden": "true" },
          h("span", {}, h("i", { class: "key" }), "allocated"),
          h("span", {}, h("i", { class: "key fair-line" }), "fair share"),
          data.courses.some((it) => it.usage.some((part) => part !== null)) &&
            h("span", {}, h("i", { class: "key usage-line" }), "usage, as a part of the capacity"))),
      data.times.length > 1
        ? isStacked ? stacked(data, colours, ctx)
          : h("div", { class: "courses" }, data.courses.map((it) =>
            chart(it, { data, colours, ctx, most: scales.get(it.parent), hasBelow: parents.has(it.name) && own[0] !== it.name })))
        : empty("Nothing to draw yet", "Two cycles a second apart are needed."),
      pager(data, ctx.go),
    ];
  },
};

function paramsOf(ctx) {
  return { queue: ctx.params.queue, offset: ctx.params.offset, limit: 24 };
}

function span(data) {
  return (new Date(data.times.at(-1)) - new Date(data.times[0])) / 1000;
}

function when(data, at) {
  const time = data.times.at(at);
  return span(data) > 86400 ? `${time.slice(5, 10)} ${time.slice(11, 16)}` : clock(time);
}

/** The samples of the last seconds only. */
function within(data, range) {
  if (!range || !data.times.length) return data;
  const from = new Date(data.times.at(-1)) - Number(range) * 1000;
  const first = Math.max(data.times.findIndex((time) => new Date(time) >= from), 0);
  const cut = (it) => ({ ...it, allocated: it.allocated.slice(first), fairShare: it.fairShare.slice(first), usage: it.usage.slice(first) });
  return { ...data, times: data.times.slice(first), courses: data.courses.map(cut) };
}

const known = (list) => list.filter((value) => value !== null);

/** The most that any queue of a level held or was entitled to, by parent: charts of a level can be compared. */
function scalesOf(data) {
  const found = new Map();
  for (const it of data.courses) {
    found.set(it.parent, Math.max(found.get(it.parent) || 0, ...known(it.allocated), ...known(it.fairShare)) || 1);
  }
  return found;
}

function xsOf(data) {
  const begin = new Date(data.times[0]).getTime();
  const whole = span(data) * 1000 || 1;
  return data.times.map((time) => ((new Date(time).getTime() - begin) / whole) * WIDTH);
}

/** What a chart needs to tell the sample under the pointer, or the one that arrow keys go to. */
function pointing(name, data, ctx) {
  const xs = xsOf(data);
  const set = (at) => {
    ctx.local.point = at === null ? null : { name, at: Math.min(Math.max(at, 0), xs.length - 1) };
    ctx.draw();
  };
  const point = ctx.local.point?.name === name && ctx.local.point.at < xs.length ? ctx.local.point.at : null;
  return { point, xs, events: {
    tabindex: "0",
    onpointermove: (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH;
      set(Math.max(xs.findLastIndex((it) => it <= x), 0));
    },
    onpointerleave: () => set(null),
    onblur: () => set(null),
    onkeydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) { event.preventDefault(); set((point ?? xs.length) + step); }
    },
  } };
}

function chart(it, { data, colours, ctx, most, hasBelow }) {
  const { point, xs, events } = pointing(it.name, data, ctx);
  const to = (list, scale) => steps(xs, list, (value) => HEIGHT - (value / scale) * HEIGHT);
  const at = point ?? data.times.length - 1;
  const held = it.allocated[at] ?? 0;
  const fair = it.fairShare[at];
  const used = known(it.usage);
  const gap = fair === null ? 0 : held - fair;
  const says = `${it.name}: holds ${count(held)} of a fair share of ${count(fair)}`;
  return h("section", { class: "card course", key: it.name },
    h("header", {},
      h("h2", {}, dot(colours.of(it.name)), h("a", { href: `#/queues/${encodeURIComponent(it.name)}` }, it.name)),
      h("span", { class: "number muted" }, `${amount(held, data.resource)} of ${amount(fair, data.resource)} `,
        Math.abs(gap) >= 0.005 && badge(gap < 0 ? "wait" : "quiet", `${gap > 0 ? "+" : "−"}${count(Math.abs(gap))}`))),
    h("span", { class: "axis number" }, count(most)),
    h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": says, ...events },
      h("path", { class: "area", d: area(to(it.allocated, most)), fill: colours.of(it.name) }),
      h("path", { class: "fair-line", d: line(to(it.fairShare, most)) }),
      used.length > 0 && h("path", { class: "usage-line", d: line(to(it.usage, 1)) }),
      point !== null && h("path", { class: "point", d: `M${xs[point]} 0V${HEIGHT}` })),
    h("div", { class: "row times small muted number" },
      h("span", {}, point === null ? when(data, 0) : h("b", {}, when(data, point))),
      used.length > 0 && h("span", {}, `usage ${percent(it.usage[at])}`),
      hasBelow && h("a", { href: `#/fairness?queue=${encodeURIComponent(it.name)}` }, "queues below"),
      h("span", { class: "last" }, when(data, -1))));
}

/** All queues of the innermost level in one chart, one on top of the other. */
function stacked(data, colours, ctx) {
  const parent = data.courses.at(-1).parent;
  const shown = data.courses.filter((it) => it.parent === parent);
  const { point, xs, events } = pointing("", data, ctx);
  const tops = [data.times.map(() => 0)];
  for (const it of shown) tops.push(tops.at(-1).map((low, at) => low + (it.allocated[at] ?? 0)));
  const most = Math.max(...tops.at(-1)) || 1;
  const at = point ?? data.times.length - 1;
  const yOf = (value) => HEIGHT - (value / most) * HEIGHT;
  const band = (low, high) => {
    const there = steps(xs, high, yOf)[0];
    return `M${there.join("L")}L${steps(xs, low, yOf)[0].reverse().join("L")}Z`;
  };
  return h("section", { class: "card course stacked" },
    h("header", {}, h("h2", {}, parent ? `Below ${parent}` : "At the top"),
      h("span", { class: "number muted" }, `${amount(tops.at(-1)[at], data.resource)} allocated`)),
    h("span", { class: "axis number" }, count(most)),
    h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${plural(shown.length, "queue")}, stacked`, ...events },
      shown.map((it, row) => h("path", { key: it.name, class: "area", d: band(tops[row], tops[row + 1]), fill: colours.of(it.name) })),
      point !== null && h("path", { class: "point", d: `M${xs[point]} 0V${HEIGHT}` })),
    h("div", { class: "row times small muted number" },
      h("span", {}, point === null ? when(data, 0) : h("b", {}, when(data, point))), h("span", { class: "last" }, when(data, -1))),
    h("ul", { class: "legend" }, shown.map((it) => h("li", { key: it.name }, dot(colours.of(it.name)), `${it.name} `,
      h("b", { class: "number" }, amount(it.allocated[at] ?? 0, data.resource)),
      h("span", { class: "muted" }, ` of ${amount(it.fairShare[at], data.resource)}`)))));
}

/** Points of a course that holds its value until the next sample; gaps where nothing is known. */
function steps(xs, list, yOf) {
  const runs = [];
  let run = null;
  list.forEach((value, at) => {
    if (value === null) {
      run = null;
      return;
    }
    if (!run) runs.push(run = []);
    const y = yOf(value).toFixed(1);
    run.push(`${xs[at].toFixed(1)} ${y}`, `${(xs[at + 1] ?? xs[at]).toFixed(1)} ${y}`);
  });
  return runs;
}

function line(runs) {
  return runs.map((run) => `M${run.join("L")}`).join("");
}

function area(runs) {
  return runs.map((run) =>
    `M${run[0].split(" ")[0]} ${HEIGHT}L${run.join("L")}L${run.at(-1).split(" ")[0]} ${HEIGHT}Z`).join("");
}
