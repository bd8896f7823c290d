// Numbers and times as text: short, the same width where digits change.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const NONE = "–";

export function count(value) {
  return value === null || value === undefined ? NONE : COUNT.format(value);
}

export function percent(part) {
  if (part === null || part === undefined || !Number.isFinite(part)) return NONE;
  return `${Math.round(part * 100)} %`;
}

/** An amount of a resource; null is unlimited. */
export function amount(value, resource) {
  if (value === null || value === undefined) return "∞";
  if (resource !== "memory") return COUNT.format(value);
  let step = 0;
  for (; value >= 1024 && step < BYTES.length - 1; step += 1) value /= 1024;
  return `${COUNT.format(Math.round(value * 10) / 10)} ${BYTES[step]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} d`;
}

/** How long before `now` a time was; both as text or milliseconds. */
export function age(time, now) {
  if (!time) return NONE;
  return duration(Math.max((new Date(now) - new Date(time)) / 1000, 0));
}

/** GPU-hours. */
export function hours(value) {
  return `${COUNT.format(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))} GPU-hours`;
}

export function clock(time) {
  return time ? time.slice(11, 19) : NONE;
}

export function stamp(time) {
  return time ? `${time.slice(0, 10)} ${time.slice(11, 19)} UTC` : NONE;
}

export function plural(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many || `${one}s`}`;
}
