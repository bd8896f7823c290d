// The API: documents by path, the stream of changes, and the token of who looks.

const ROOT = "/api/v1";
const TOKEN = "kaisched-token";

export class ApiError extends Error {
  constructor(status, message, fix) {
    super(message);
    this.status = status;
    this.fix = fix || "";
  }
}

// The token is kept by this tab until it is closed, and sent to this server only.
export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** The address of a document; parameters that are empty are left out. */
export function address(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) {
    if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  }
  const text = query.toString();
  return `${ROOT}${path}${text ? `?${text}` : ""}`;
}

export async function get(path, params, signal) {
  let answer;
  try {
    answer = await fetch(address(path, params), { headers: headers(), signal });
  } catch (wrong) {
    if (wrong.name === "AbortError") throw wrong;
    throw new ApiError(0, "The scheduler does not answer.", "Is it still running?");
  }
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  let fault = { message: text.trim() || answer.statusText, fix: "" };
  try {
    fault = JSON.parse(text).error || fault;
  } catch {
    // Refusals are plain text.
  }
  throw new ApiError(answer.status, fault.message, fault.fix);
}

/** All parts of a list, one after the other; from the start if the cluster changed meanwhile. */
export async function all(path, params, list, tell, signal) {
  for (let tries = 0; ; tries += 1) {
    const found = [];
    let revision = null;
    let offset = 0;
    while (offset !== null) {
      const part = await get(path, { ...params, offset, limit: 1000 }, signal);
      if (revision !== null && part.revision !== revision && tries < 3) break;
      revision = part.revision;
      found.push(...part[list]);
      offset = part.next;
      if (tell) tell(found.length, part.total);
    }
    if (offset === null) return found;
  }
}

/** Follow the changes until stopped; `tell` gets each event, `state` whether the stream is open. */
export function follow(tell, state) {
  const stop = new AbortController();
  (async () => {
    while (!stop.signal.aborted) {
      try {
        const answer = await fetch(`${ROOT}/changes`, { headers: headers(), signal: stop.signal });
        if (!answer.ok) throw new ApiError(answer.status, "no stream");
        state(true);
        await read(answer.body.getReader(), tell);
        // A stream ends after some minutes: ask again, with the rights of then.
      } catch {
        if (!stop.signal.aborted) state(false);
        await new Promise((resolve) => setTimeout(resolve, 2000));
      }
    }
  })();
  return () => stop.abort();
}

async function read(reader, tell) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) tell(JSON.parse(data.slice(6)));
    }
  }
}
