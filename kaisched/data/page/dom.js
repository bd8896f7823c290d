// Elements as plain values, and a patch that changes only what differs: an update of the page keeps
// the focus, what is selected, and where one has scrolled to.

const SVG = "http://www.w3.org/2000/svg";
const IN_SVG = new Set(["svg", "g", "rect", "path", "line", "circle", "title", "text", "polyline"]);
const LIVE = new Set(["value", "checked"]);

/** Describe an element. Props beginning with `on` are handlers; `style` is an object. */
export function h(tag, props, ...children) {
  return { tag, props: props || {}, children: flat(children) };
}

function flat(children) {
  const found = [];
  for (const it of children) {
    if (Array.isArray(it)) found.push(...flat(it));
    else if (it !== null && it !== undefined && it !== false && it !== "") {
      found.push(typeof it === "object" ? it : String(it));
    }
  }
  return found;
}

/** Make the children of an element be what is described. */
export function patch(parent, ...described) {
  children(parent, flat(described));
}

function children(parent, wanted) {
  const keyed = new Map();
  for (const node of parent.childNodes) if (node.key !== undefined) keyed.set(node.key, node);
  const kept = new Set(wanted.map((it) => (typeof it === "string" ? undefined : it.props.key)));
  for (const [key, node] of keyed) if (!kept.has(key)) parent.removeChild(node);
  let at = parent.firstChild;
  for (const it of wanted) {
    const key = typeof it === "string" ? undefined : it.props.key;
    let node = key !== undefined ? keyed.get(key) : at;
    if (!node || !isSame(node, it, key)) {
      node = create(it);
      if (at && key === undefined && at.key === undefined) {
        parent.replaceChild(node, at);
        at = node;
      }
    }
    if (node !== at) parent.insertBefore(node, at);
    else at = at.nextSibling;
    if (typeof it === "string") {
      if (node.data !== it) node.data = it;
    } else fill(node, it);
  }
  while (at) {
    const next = at.nextSibling;
    parent.removeChild(at);
    at = next;
  }
}

function isSame(node, it, key) {
  if (typeof it === "string") return node.nodeType === Node.TEXT_NODE;
  return node.localName === it.tag && node.key === key;
}

function create(it) {
  if (typeof it === "string") return document.createTextNode(it);
  const node = IN_SVG.has(it.tag)
    ? document.createElementNS(SVG, it.tag)
    : document.createElement(it.tag);
  node.props = {};
  if (it.props.key !== undefined) node.key = it.props.key;
  return node;
}

function fill(node, it) {
  const before = node.props || {};
  const late = [];
  for (const name of Object.keys(before)) if (!(name in it.props)) set(node, name, null, before);
  for (const [name, value] of Object.entries(it.props)) {
    // What a reader may have changed is set whenever the page says otherwise, but never while one
    // is typing there.
    const isLive = LIVE.has(name) && !(name === "value" && node === document.activeElement);
    const is = isLive ? node[name] : before[name];
    if (name === "style") styled(node, value, before.style || {});
    else if (is !== value && !LIVE.has(name)) set(node, name, value, before);
    else if (is !== value) late.push([name, value]);
  }
  node.props = it.props;
  children(node, it.children);
  for (const [name, value] of late) set(node, name, value, before); // a choice, once it is there
}

function set(node, name, value, before) {
  if (name === "key") return;
  if (name === "style") styled(node, {}, before.style || {});
  else if (name.startsWith("on")) node[name] = value;
  else if (LIVE.has(name)) node[name] = value ?? "";
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

function styled(node, wanted, before) {
  for (const name of Object.keys(before)) if (!(name in wanted)) node.style.removeProperty(name);
  for (const [name, value] of Object.entries(wanted)) {
    if (before[name] !== value) node.style.setProperty(name, value);
  }
}
