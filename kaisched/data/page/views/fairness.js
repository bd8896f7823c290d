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

  render(data, ctx) {
    const colours = new Colours(data.all);
    const parents = new Set(data.all.map((it) => it.parent));
    const own = data.courses.map((it) => it.name);
    const choices = data.all.filter((it) => parents.has(it.name)).map((it) => it.name).slice(0, 500);
    return [
      h("div", { class: "filters" },
        field("Below", ctx.params.queue || "", (queue) => ctx.go({ queue }),
          { choices: [["", "the top"], ...choices.map((it) => [it, it])] }),
        h("div", { class: "legend", "aria-hidden": "true" },
          h("span", {}, h("i", { class: "key" }), "allocated"),
          h("span", {}, h("i", { class: "key fair-line" }), "fair share"),
          data.courses.some((it) => it.usage.some((part) => part !== null)) &&
            h("span", {}, h("i", { class: "key usage-line" }), "usage, as a part of the capacity"))),
      data.times.length > 1
        ? h("div", { class: "courses" }, data.courses.map((it) =>
          chart(it, data, colours, parents.has(it.name) && own[0] !== it.name)))
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

function chart(it, data, colours, hasBelow) {
  const known = (list) => list.filter((value) => value !== null);
  const most = Math.max(...known(it.allocated), ...known(it.fairShare), 0) || 1;
  const begin = new Date(data.times[0]).getTime();
  const whole = span(data) * 1000 || 1;
  const xs = data.times.map((time) => ((new Date(time).getTime() - begin) / whole) * WIDTH);
  const to = (list, scale) => steps(xs, list, (value) => HEIGHT - (value / scale) * HEIGHT);
  const held = known(it.allocated).at(-1) ?? 0;
  const fair = known(it.fairShare).at(-1);
  const used = known(it.usage);
  const gap = fair === undefined ? 0 : held - fair;
  const says = `${it.name}: holds ${count(held)} of a fair share of ${count(fair)}`;
  return h("section", { class: "card course", key: it.name },
    h("header", {},
      h("h2", {}, dot(colours.of(it.name)), h("a", { href: `#/queues/${encodeURIComponent(it.name)}` }, it.name)),
      h("span", { class: "number muted" }, `${amount(held, data.resource)} of ${amount(fair ?? null, data.resource)} `,
        Math.abs(gap) >= 0.005 && badge(gap < 0 ? "wait" : "quiet", `${gap > 0 ? "+" : "−"}${count(Math.abs(gap))}`))),
    h("span", { class: "axis number" }, count(most)),
    h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": says },
      h("path", { class: "area", d: area(to(it.allocated, most)), fill: colours.of(it.name) }),
      h("path", { class: "fair-line", d: line(to(it.fairShare, most)) }),
      used.length > 0 && h("path", { class: "usage-line", d: line(to(it.usage, 1)) })),
    h("div", { class: "row times small muted number" },
      h("span", {}, when(data, 0)), used.length > 0 && h("span", {}, `usage ${percent(used.at(-1))}`),
      hasBelow && h("a", { href: `#/fairness?queue=${encodeURIComponent(it.name)}` }, "queues below"),
      h("span", { class: "last" }, when(data, -1))));
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
