// Colours of queues: a hue for each branch of the tree, shades of it for the queues below.

// Told apart by most who see colours differently, on light ground and on dark.
const HUES = [
  "#4c6fe0", "#e8833a", "#17a398", "#a35fd0", "#5f9f3c", "#d6578f", "#b8952b", "#3d9bd1",
  "#8a6d5c", "#6d7f99",
];
// Branches beyond as many as there are hues begin again in another shade.
const ROUNDS = [0, 30, -28];
const SHADES = [0, 22, -20, 38, -34];

export class Colours {
  constructor(queues) {
    const below = new Map();
    for (const it of queues) {
      const of = below.get(it.parent) || [];
      of.push(it.name);
      below.set(it.parent, of);
    }
    // A tree with a single trunk begins to branch further down.
    let branches = below.get(null) || [];
    while (branches.length === 1 && below.has(branches[0])) branches = below.get(branches[0]);
    this.branches = branches;
    this.found = new Map();
    branches.forEach((name, at) => {
      const round = ROUNDS[Math.floor(at / HUES.length) % ROUNDS.length];
      this.#colour(name, shade(HUES[at % HUES.length], round), below);
    });
  }

  #colour(name, hue, below) {
    const waiting = [name];
    for (let at = 0; waiting.length; at += 1) {
      const it = waiting.shift();
      this.found.set(it, shade(hue, SHADES[at % SHADES.length]));
      waiting.push(...(below.get(it) || []));
    }
  }

  of(queue) {
    return this.found.get(queue) || "var(--queue-none)";
  }
}

function shade(hue, part) {
  if (part === 0) return hue;
  return `color-mix(in oklab, ${hue}, ${part > 0 ? "white" : "black"} ${Math.abs(part)}%)`;
}
