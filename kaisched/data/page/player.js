// The earlier cycles of a simulation: a bar to look at any of them, and to play them one by one.

import { h } from "./dom.js";
import { count, stamp } from "./format.js";

const STEP_MS = 700;
/** The list of cycles is asked for again after so long at most. */
const LOOK_MS = 5000;

export function player({ change, draw, get }) {
  let frames = [];
  let lookedAt = -LOOK_MS;
  let timer = 0;
  let isWanted = true;
  const it = { at: null, look, bar, time };

  function time() {
    return it.at === null ? null : frames.find((frame) => frame.cycle === it.at)?.time;
  }

  async function look() {
    if (!isWanted || performance.now() - lookedAt < LOOK_MS) return;
    lookedAt = performance.now();
    try {
      frames = (await get()).frames;
      isWanted = frames.length > 0; // a daemon keeps none, ever
      draw();
    } catch {
      // The next event asks again.
    }
  }

  function go(at) {
    it.at = at;
    change();
  }

  function play() {
    if (timer) {
      clearInterval(timer);
      timer = 0;
    } else {
      if (it.at === null) it.at = frames[0].cycle;
      timer = setInterval(next, STEP_MS);
    }
    draw();
  }

  function next() {
    const later = frames.find((frame) => frame.cycle > it.at);
    if (later) go(later.cycle);
    else {
      play();
      go(null);
    }
  }

  function bar() {
    if (frames.length < 2) return null;
    const place = it.at === null ? frames.length
      : Math.max(frames.findIndex((frame) => frame.cycle === it.at), 0);
    return h("div", { class: "player card", key: "player" },
      h("button", { type: "button", onclick: play, "aria-pressed": String(timer !== 0) },
        timer ? "Stop" : "Play"),
      h("input", { type: "range", min: 0, max: frames.length, value: String(place), "aria-label": "Time",
        oninput: (event) => go(frames[Number(event.target.value)]?.cycle ?? null) }),
      h("span", { class: "number small" }, it.at === null ? "the latest cycle"
        : `cycle ${count(it.at)}, ${stamp(time())}`),
      h("button", { type: "button", disabled: it.at === null, onclick: () => go(null) }, "Latest"));
  }

  return it;
}
