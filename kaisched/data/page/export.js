// "As a command", JSON and CSV of what a view shows.

import { h } from "./dom.js";
import { address, hasToken } from "./api.js";
import { COMMANDS } from "./commands.js";

/** A word for a shell. */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The commands that show the same as a view, with names filled in. */
export function commandsOf(view, values, path, params) {
  const all = { ...values, server: location.origin };
  const found = (COMMANDS[view] || []).map((template) =>
    template.replace(/\{(\w+)\}/g, (_, name) => [all[name] ?? []].flat().map(quoted).join(" ")).replaceAll("  ", " "));
  const token = hasToken() ? "-H \"Authorization: Bearer $KAISCHED_TOKEN\" " : "";
  const url = `${location.origin}${address(path, params)}`;
  return [...found, `curl -s ${token}'${url}'`];
}

export function commandDialog(commands, close) {
  return h("dialog", { class: "commands", "aria-label": "As a command", onclose: close,
    onclick: (event) => { if (event.target.localName === "dialog") event.target.close(); } },
    h("div", {},
      h("h2", {}, "As a command"),
      h("p", { class: "muted" }, "The same from a terminal:"),
      commands.map((text) => h("div", { class: "command", key: text },
        h("code", {}, text),
        h("button", { type: "button", onclick: (event) => copy(text, event.target) }, "Copy"))),
      h("form", { method: "dialog" }, h("button", {}, "Close"))));
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

/** Save text as a file. */
export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Entries as CSV: fields in objects get names with dots, lists are counted or joined. */
export function csvOf(entries) {
  const rows = entries.map((it) => flat(it, "", {}));
  const columns = [...new Set(rows.flatMap((it) => Object.keys(it)))];
  const lines = [columns, ...rows.map((row) => columns.map((name) => row[name] ?? ""))];
  return `${lines.map((line) => line.map(cell).join(",")).join("\r\n")}\r\n`;
}

function flat(value, name, into) {
  if (Array.isArray(value)) {
    into[name] = value.every((it) => typeof it !== "object") ? value.join(" ") : value.length;
  } else if (value !== null && typeof value === "object") {
    for (const [key, it] of Object.entries(value)) flat(it, name ? `${name}.${key}` : key, into);
  } else into[name] = value;
  return into;
}

function cell(value) {
  // A text that a spreadsheet would take for a formula is no formula.
  const text = typeof value === "string" && /^[=+\-@]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
