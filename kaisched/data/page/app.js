// The page: its frame, which view is shown, and when its documents are asked for again.

import { all, ApiError, follow, get, hasToken, setToken } from "./api.js";
import { h, patch } from "./dom.js";
import { commandDialog, commandsOf, csvOf, save } from "./export.js";
import { age, count } from "./format.js";
import { player } from "./player.js";
import { VIEWS } from "./views/index.js";

const LEAST_MS = 1000;
/** After an answer the page rests so many times as long as it took: it shares the scheduler's core. */
const REST = 4;

const state = {
  view: null, id: "", params: {}, data: null, wrong: null, local: {}, dialog: null, saving: "",
  last: null, isOpen: false, isPaused: false, shards: [], shard: "", index: null,
  theme: localStorage.getItem("kaisched-theme") || "",
};
/** The earlier cycles of a simulation, and which of them is looked at. */
const film = player({ change: () => load(), draw: () => draw(), get: () => get("/frames", { shard: common().shard }) });
let loading = null;
let dueAt = 0;
let timer = 0;
let isStale = false;
let stopFollowing = () => {};

/** What a view may use. */
function context() {
  return {
    id: state.id, params: state.params, local: state.local, go, draw, now: film.time() || state.last?.time || Date.now(),
    resource: state.params.resource || "",
    get: (path, params) => get(path, { ...common(), ...params }, loading?.signal),
  };
}

function common() {
  return { shard: state.shards.length > 1 ? state.shard : "", at: film.at ?? "" };
}

/** Change parameters of the view; what is empty goes. */
function go(changes) {
  const params = { ...state.params, ...changes };
  if (!("offset" in changes)) delete params.offset;
  const query = new URLSearchParams(Object.entries(params).filter(([, it]) => it !== "" && it !== null));
  const text = query.toString();
  const path = state.view.id + (state.id ? `/${encodeURI(state.id)}` : "");
  history.replaceState(null, "", `#/${path}${text ? `?${text}` : ""}`);
  route();
}

function route() {
  if (!location.hash) history.replaceState(null, "", "#/overview");
  const [path, query] = location.hash.slice(2).split("?");
  const [name, ...rest] = path.split("/");
  const view = VIEWS.find((it) => it.id === name) || VIEWS[0];
  const id = decodeURIComponent(rest.join("/"));
  const isOther = view !== state.view || id !== state.id;
  state.hash = decodeURI(location.hash);
  Object.assign(state, { view, id, params: Object.fromEntries(new URLSearchParams(query || "")) });
  if (isOther) {
    Object.assign(state, { data: null, wrong: null, local: {}, dialog: null });
    document.title = `${id || view.title} · kaisched`;
    window.scrollTo(0, 0);
  }
  load();
}

async function load() {
  loading?.abort();
  const mine = new AbortController();
  loading = mine;
  clearTimeout(timer);
  isStale = false;
  draw();
  const beganAt = performance.now();
  try {
    const data = await state.view.load(context());
    if (mine.signal.aborted) return;
    Object.assign(state, { data, wrong: null });
  } catch (wrong) {
    if (mine.signal.aborted || wrong.name === "AbortError") return;
    state.wrong = wrong;
  }
  loading = null;
  dueAt = performance.now() + Math.max(REST * (performance.now() - beganAt), LEAST_MS);
  draw();
  if (isStale || state.wrong) schedule();
}

function schedule() {
  if (state.isPaused || document.hidden || loading) {
    isStale = true;
    return;
  }
  clearTimeout(timer);
  const wait = state.wrong ? 3000 : Math.max(dueAt - performance.now(), 0);
  if (!state.wrong || ![401, 404].includes(state.wrong.status)) timer = setTimeout(load, wait);
}

function changed(event) {
  if (state.shards.length > 1 && event.shard !== state.shard) return;
  const isNew = event.revision !== state.last?.revision || state.view.isByCycle;
  state.last = { ...event, at: Date.now() };
  film.look();
  if (film.at !== null) return;
  if (isNew) schedule();
  draw();
}

async function start() {
  stopFollowing();
  try {
    state.index = await get("");
    state.shards = state.index.shards;
    state.shard = state.shard || state.shards[0] || "";
  } catch (wrong) {
    state.wrong = wrong;
    if (wrong.status === 401) {
      draw();
      return;
    }
  }
  stopFollowing = follow(changed, (isOpen) => { state.isOpen = isOpen; draw(); });
  route();
}

let isDrawing = false;

function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    patch(document.getElementById("app"), frame());
    showTab();
    const dialog = document.querySelector("dialog.commands");
    if (dialog && !dialog.open) dialog.showModal();
  });
}

let shownTab = null;

/** Bring the tab of the view into sight where the row of tabs is scrolled. */
function showTab() {
  const tab = document.querySelector(".side nav a[aria-current]");
  if (!tab || tab.hash === shownTab) return;
  shownTab = tab.hash;
  const { parentElement: row } = tab;
  row.scrollLeft = tab.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
}

function frame() {
  const isAsked = state.wrong?.status === 401;
  return h("div", { class: "frame" }, side(), h("div", { class: "body" },
    h("main", { id: "main", tabindex: "-1", "aria-busy": String(state.data === null && !state.wrong),
      "data-shown": state.data === null && !state.wrong ? null : state.hash },
      isAsked ? signIn() : view()), state.dialog));
}

function side() {
  return h("header", { class: "side" },
    h("a", { class: "brand", href: "#/overview" },
      h("img", { src: "/page/icon.svg", alt: "", width: 24, height: 24 }), "kaisched"),
    h("nav", { "aria-label": "Views" }, offered().map((it) =>
      h("a", { href: `#/${it.id}`, "aria-current": it === state.view ? "page" : null }, it.title))),
    h("div", { class: "foot" }, live(),
      state.shards.length > 1 && h("select", { "aria-label": "Shard", value: state.shard,
        onchange: (event) => { state.shard = event.target.value; state.last = null; load(); } },
        state.shards.map((it) => h("option", { value: it, selected: it === state.shard }, it))),
      h("div", { class: "row" },
        h("button", { type: "button", class: "quiet", "aria-pressed": String(state.isPaused),
          title: "Stop and continue with changes (p)", onclick: pause },
          state.isPaused ? "Continue" : "Pause"),
        h("button", { type: "button", class: "quiet", onclick: darken, title: "Light or dark (d)" },
          isDark() ? "Light" : "Dark"),
        hasToken() && h("button", { type: "button", class: "quiet", onclick: signOut }, "Sign out"))));
}

/** The views that this scheduler has something for. */
function offered() {
  return VIEWS.filter((it) => it.id !== "whatif" || state.index?.whatif || it === state.view);
}

function live() {
  const { last } = state;
  const kind = state.isPaused ? "wait" : state.isOpen ? "good" : "bad";
  const word = state.isPaused ? "paused" : state.isOpen ? "live" : "not connected";
  return h("div", { class: "live", role: "status", "aria-live": "off" },
    h("span", { class: `lamp ${kind}`, "aria-hidden": "true" }), word,
    last && h("span", { class: "muted number" },
      `cycle ${count(last.cycle)}, ${since(last.at)}`));
}

function since(at) {
  const seconds = Math.round((Date.now() - at) / 1000);
  return seconds < 3 ? "just now" : `${age(at, Date.now())} ago`;
}

function view() {
  const { view: it, data, wrong } = state;
  if (!it) return [h("div", { class: "wait", role: "status" }, "Asking the scheduler …")];
  const ctx = context();
  const content = wrong && data === null ? failure(wrong)
    : data === null ? h("div", { class: "wait", role: "status" }, "Asking the scheduler …")
      : it.render(data, ctx);
  return [
    film.bar(),
    h("div", { class: "head" },
      h("div", {}, h("h1", {}, it.name?.(ctx, data) || it.title),
        h("p", { class: "lead" }, it.lead?.(data, ctx) || it.about)),
      h("div", { class: "tools" },
        h("button", { type: "button", onclick: showCommand }, "As a command"),
        h("button", { type: "button", onclick: () => saveAs("json"), disabled: data === null }, "JSON"),
        h("button", { type: "button", onclick: () => saveAs("csv"), disabled: data === null },
          state.saving || "CSV"))),
    wrong && data !== null && h("p", { class: "notice bad", role: "alert" }, wrong.message, " ", wrong.fix),
    h("div", { class: `view view-${it.id}`, key: `${it.id}/${state.id}` }, content),
  ];
}

function failure(wrong) {
  const isKnown = wrong instanceof ApiError;
  return h("div", { class: "empty", role: "alert" },
    h("p", { class: "strong" }, isKnown ? sentence(wrong.message) : "The page has a fault."),
    h("p", { class: "muted" }, isKnown ? sentence(wrong.fix) : String(wrong)),
    h("button", { type: "button", onclick: load }, "Try again"));
}

function sentence(text) {
  return text ? text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".") : "";
}

function signIn() {
  return h("form", { class: "sign-in card", onsubmit: (event) => {
    event.preventDefault();
    setToken(new FormData(event.target).get("token").trim());
    state.wrong = null;
    start();
  } },
    h("h1", {}, "Who are you?"),
    h("p", { class: "muted" }, "This scheduler asks the API server what you may see. Give a token of it;",
      " this tab keeps it until it is closed."),
    h("code", {}, "kubectl create token NAME"),
    h("label", { class: "field" }, h("span", {}, "Token"),
      h("input", { name: "token", type: "password", required: true, autocomplete: "off" })),
    hasToken() && h("p", { class: "notice bad", role: "alert" }, state.wrong.message),
    h("button", { type: "submit", class: "primary" }, "Show the page"));
}

function signOut() {
  setToken("");
  Object.assign(state, { data: null, last: null, isOpen: false });
  start();
}

function showCommand() {
  const ctx = context();
  const { path, params } = state.view.document(ctx);
  const values = state.view.values?.(ctx) || {};
  const commands = commandsOf(state.view.command?.(ctx) || state.view.id, values, path, { ...common(), ...params });
  state.dialog = commandDialog(commands, () => { state.dialog = null; draw(); });
  draw();
}

async function saveAs(kind) {
  const ctx = context();
  const name = `kaisched-${state.view.id}${state.id ? `-${state.id.replaceAll("/", "-")}` : ""}`;
  const { path, params, list } = state.view.document(ctx);
  const wanted = { ...common(), ...params };
  if (kind === "json") {
    save(`${name}.json`, "application/json", `${JSON.stringify(await get(path, wanted), null, 2)}\n`);
    return;
  }
  const isLong = state.data && "total" in state.data && !state.view.entries;
  const tell = (done, total) => { state.saving = `${count(done)} of ${count(total)}`; draw(); };
  try {
    const entries = isLong
      ? await all(path, { ...wanted, offset: "", limit: "" }, list, tell)
      : (state.view.entries?.(state.data) || state.data[list] || [state.data]);
    save(`${name}.csv`, "text/csv", csvOf(entries));
  } finally {
    state.saving = "";
    draw();
  }
}

function pause() {
  state.isPaused = !state.isPaused;
  if (!state.isPaused) load();
  draw();
}

function isDark() {
  return state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function darken() {
  state.theme = isDark() ? "light" : "dark";
  localStorage.setItem("kaisched-theme", state.theme);
  document.documentElement.dataset.theme = state.theme;
  draw();
}

const KEYS = { p: pause, d: darken, "?": showCommand };

function pressed(event) {
  const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping || state.dialog) return;
  const number = Number(event.key);
  if (number >= 1 && number <= offered().length) location.hash = `#/${offered()[number - 1].id}`;
  else if (event.key === "/") {
    const first = document.querySelector("main input[type=search]");
    if (first) { event.preventDefault(); first.focus(); }
  } else KEYS[event.key]?.();
}

if (state.theme) document.documentElement.dataset.theme = state.theme;
window.addEventListener("hashchange", route);
window.addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", () => { if (!document.hidden && isStale) load(); });
setInterval(draw, 1000);
start();
