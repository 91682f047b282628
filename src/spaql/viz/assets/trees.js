/*
 * The partition of an agent: its arrays, and the questions that pictures and explanations ask of it.
 * Part of one program; see base.js.  Nothing here touches the page.
 *
 * The sums are those of spaql.viz.policy_plot.  Points are in the unit cube unless they are called values; a "leaf" is a node of
 * the state tree without children, and `chosen` tells of every node which cell decides there.
 */

const ARRAYS = {
  uint8: Uint8Array, int16: Int16Array, int32: Int32Array, float32: Float32Array, float64: Float64Array,
};
const NONE = -1;
const BINS = 64; // of a projection, along each side
const BAND = 0.02; // height of a cell of a single action, relative to the action space

function unpack({ type, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[type](bytes.buffer);
}

const unpackAll = (group) => Object.fromEntries(Object.entries(group).map(([name, array]) => [name, unpack(array)]));

/** An agent of the data with its arrays, and with what follows from them for every node. */
function agentOf(given) {
  const agent = {
    ...given,
    size: given.states.length,
    numbers: given.actions.discrete ? 1 : given.actions.low.length, // of an action
    nodes: unpackAll(given.nodes),
    cells: unpackAll(given.cells),
    choices: unpackAll(given.choices),
    episode: given.episode && {
      ...given.episode, points: unpack(given.episode.points), rewards: unpack(given.episode.rewards),
    },
  };
  agent.playedSize = agent.choices.played.length / (agent.choices.middles.length / agent.numbers);
  grow(agent);
  return agent;
}

/** Boxes, the cell that decides, the density of visits and the time step of every node; parents stand first. */
function grow(agent) {
  const { nodes, cells, size, steps } = agent;
  const count = nodes.child.length;
  const low = new Float64Array(count * size);
  const high = new Float64Array(count * size).fill(1);
  const chosen = new Int32Array(count).fill(NONE);
  const density = new Float64Array(count);
  const root = new Int32Array(count);
  const node = new Int32Array(cells.q.length);
  const value = (cell) => (cell === NONE ? -Infinity : cells.q[cell]);
  const take = (at, above) => {
    chosen[at] = value(nodes.top[at]) > value(above) ? nodes.top[at] : above;
    let volume = 1;
    for (let d = 0; d < size; d += 1) volume *= high[at * size + d] - low[at * size + d];
    for (let cell = nodes.head[at]; cell !== NONE; cell = cells.next[cell]) {
      node[cell] = at;
      density[at] += cells.visits[cell] / volume;
    }
  };
  for (let at = 0; at < count; at += 1) {
    if (at < steps) {
      root[at] = at;
      take(at, NONE);
    }
    if (nodes.child[at] === NONE) continue;
    for (const side of [0, 1]) {
      const child = nodes.child[at] + side;
      for (let d = 0; d < size; d += 1) {
        low[child * size + d] = low[at * size + d];
        high[child * size + d] = high[at * size + d];
      }
      (side ? low : high)[child * size + nodes.dim[at]] = nodes.cut[at];
      root[child] = root[at];
      density[child] = density[at];
      take(child, chosen[at]);
    }
  }
  const visits = new Float64Array(steps); // in all, of each time step
  for (let cell = 0; cell < node.length; cell += 1) visits[root[node[cell]]] += cells.visits[cell];
  Object.assign(agent, { low, high, chosen, density, root, visits });
  agent.cells.node = node;
}

// ---- Points

/** Values in the observation's own units, as a point of the unit cube; see `observed` of the problems. */
function toUnit(agent, values) {
  return agent.states.map(({ low, high, periodic }, d) => {
    const at = (values[d] - low) / (high - low);
    return Math.min(1, Math.max(0, periodic ? at - Math.floor(at) : at));
  });
}

const fromUnit = ({ low, high }, at) => (at === 1 ? high : low + at * (high - low));

function leafAt({ nodes }, step, point) {
  let at = step;
  while (nodes.child[at] !== NONE) at = nodes.child[at] + (point[nodes.dim[at]] >= nodes.cut[at] ? 1 : 0);
  return at;
}

const greedyAt = (agent, step, point) => agent.chosen[leafAt(agent, step, point)];

/** All cells relevant to a point, by falling Q, the one that decides first; of equal ones those met first. */
function relevantAt({ nodes, cells, chosen }, step, point) {
  const found = [];
  let at = step;
  for (;;) {
    for (let cell = nodes.head[at]; cell !== NONE; cell = cells.next[cell]) found.push(cell);
    if (nodes.child[at] === NONE) break;
    at = nodes.child[at] + (point[nodes.dim[at]] >= nodes.cut[at] ? 1 : 0);
  }
  const first = chosen[at];
  return found.sort((a, b) => (b === first) - (a === first) || cells.q[b] - cells.q[a]);
}

// ---- What layers show

/** What a layer shows of a cell; NaN for nothing. */
function cellValue(agent, { layer, number: which }, cell) {
  const { cells, choices, numbers, bonus } = agent;
  if (layer === "policy") return choices.middles[cells.choice[cell] * numbers + which];
  if (layer === "uncertainty") return cells.visits[cell] > 0 ? (bonus ?? 1) / Math.sqrt(cells.visits[cell]) : NaN;
  return layer === "q" ? cells.q[cell] : cells.depth[cell];
}

function relative(agent, step, density) {
  return density > 0 ? density / agent.visits[step] : NaN;
}

function leafValue(agent, setting, leaf) {
  if (setting.layer === "visits") return relative(agent, agent.root[leaf], agent.density[leaf]);
  return cellValue(agent, setting, agent.chosen[leaf]);
}

/** The leaves that a plane through a point cuts: boxes of the plane, and what they show. */
function sliceOf(agent, setting, point) {
  const { nodes, size, low, high } = agent;
  const [x, y] = setting.dims;
  const tiles = [];
  const waiting = [setting.step];
  while (waiting.length) {
    const at = waiting.pop();
    const child = nodes.child[at];
    if (child === NONE) {
      const [left, bottom] = [low[at * size + x], low[at * size + y]];
      const [right, top] = [high[at * size + x], high[at * size + y]];
      tiles.push({ left, right, bottom, top, value: leafValue(agent, setting, at), cell: agent.chosen[at] });
    } else if (nodes.dim[at] === x || nodes.dim[at] === y) {
      waiting.push(child, child + 1);
    } else {
      waiting.push(child + (point[nodes.dim[at]] >= nodes.cut[at] ? 1 : 0));
    }
  }
  return tiles;
}

/** Each leaf of a time step with the density behind the plane, and the bins that it covers, each with its share. */
function overBins(agent, { dims, step }, visit) {
  const { nodes, size, low, high, density, root } = agent;
  for (let at = 0; at < nodes.child.length; at += 1) {
    if (nodes.child[at] !== NONE || root[at] !== step || density[at] === 0) continue;
    let weight = density[at];
    for (let d = 0; d < size; d += 1) {
      if (!dims.includes(d)) weight *= high[at * size + d] - low[at * size + d];
    }
    const [x, y] = dims.map((d) => [low[at * size + d] * BINS, high[at * size + d] * BINS]);
    for (let i = Math.min(Math.floor(x[0]), BINS - 1); i < x[1]; i += 1) {
      for (let j = Math.min(Math.floor(y[0]), BINS - 1); j < y[1]; j += 1) {
        const share = (Math.min(x[1], i + 1) - Math.max(x[0], i)) * (Math.min(y[1], j + 1) - Math.max(y[0], j));
        visit(at, i * BINS + j, weight * share);
      }
    }
  }
}

/** The plane in bins, each of what lies behind it, weighted by visits: the sum, the most, or the mean. */
function projectionOf(agent, setting) {
  const values = new Float64Array(BINS * BINS).fill(NaN);
  const total = new Float64Array(BINS * BINS);
  if (setting.layer === "visits") {
    overBins(agent, setting, (leaf, bin, weight) => { total[bin] += weight; });
    total.forEach((weight, bin) => { values[bin] = relative(agent, setting.step, weight); });
  } else if (setting.layer === "policy" && agent.actions.discrete) {
    const sums = new Map();
    overBins(agent, setting, (leaf, bin, weight) => {
      const key = bin * agent.actions.names.length + leafValue(agent, setting, leaf);
      sums.set(key, (sums.get(key) ?? 0) + weight);
    });
    const keys = [...sums.keys()].sort((a, b) => a - b); // of equals, the first action
    for (const key of keys) {
      const bin = Math.floor(key / agent.actions.names.length);
      if (sums.get(key) > total[bin]) [total[bin], values[bin]] = [sums.get(key), key % agent.actions.names.length];
    }
  } else {
    const sum = new Float64Array(BINS * BINS);
    overBins(agent, setting, (leaf, bin, weight) => {
      const value = leafValue(agent, setting, leaf);
      if (Number.isNaN(value)) return;
      total[bin] += weight;
      sum[bin] += weight * value;
    });
    total.forEach((weight, bin) => { if (weight > 0) values[bin] = sum[bin] / weight; });
  }
  return Array.from(values, (value, bin) => {
    const [i, j] = [Math.floor(bin / BINS), bin % BINS];
    return { left: i / BINS, right: (i + 1) / BINS, bottom: j / BINS, top: (j + 1) / BINS, value, cell: NONE };
  });
}

// ---- One observed number: states along x, actions along y

/** The range of a cell along y, in the units of the axis. */
function actionSpan({ actions, cells, choices, numbers }, cell, which) {
  const [low, high] = [0, 1].map((end) => choices.boxes[(cells.choice[cell] * 2 + end) * numbers + which]);
  if (actions.discrete) return [low - 0.5, high + 0.5];
  return [low, high].map((at) => fromUnit({ low: actions.low[which], high: actions.high[which] }, at));
}

/** Where a cell is drawn along y: its range, or a narrow band around a single action; see charts.py. */
function drawnSpan(agent, cell, which) {
  const [low, high] = actionSpan(agent, cell, which);
  if (low < high) return [low, high];
  const [first, last] = [agent.actions.low[which], agent.actions.high[which]];
  const band = BAND * (last - first);
  const bottom = Math.max(first, Math.min(low - band / 2, last - band));
  return [bottom, bottom + band];
}

/** All cells of a time step, large ones first; cells of several numbers lie over each other and are left out. */
function planeOf(agent, setting) {
  const { cells, low, high, root, numbers } = agent;
  if (numbers > 1) return playedOf(agent, setting);
  const tiles = [];
  const shown = setting.layer === "policy" ? { ...setting, layer: "q" } : setting;
  for (let cell = 0; cell < cells.q.length; cell += 1) {
    const at = cells.node[cell];
    if (root[at] !== setting.step) continue;
    const [lowest, highest] = actionSpan(agent, cell, 0);
    const [bottom, top] = drawnSpan(agent, cell, 0);
    const range = agent.actions.discrete ? 1 : agent.actions.high[0] - agent.actions.low[0];
    const thick = (highest - lowest) / range || 1; // a single action shares with no other
    const density = cells.visits[cell] / ((high[at] - low[at]) * thick);
    const value = setting.layer === "visits" ? relative(agent, setting.step, density) : cellValue(agent, shown, cell);
    tiles.push({ left: low[at], right: high[at], bottom, top, value, cell });
  }
  return tiles.sort((a, b) => (b.right - b.left) * (b.top - b.bottom) - (a.right - a.left) * (a.top - a.bottom));
}

/** The cells that decide, from the lowest state to the highest. */
function playedOf(agent, setting) {
  const { nodes, low, high, root, chosen } = agent;
  const tiles = [];
  const shown = setting.layer === "policy" || setting.layer === "visits" ? { ...setting, layer: "q" } : setting;
  for (let at = 0; at < nodes.child.length; at += 1) {
    if (nodes.child[at] !== NONE || root[at] !== setting.step) continue;
    const [bottom, top] = drawnSpan(agent, chosen[at], setting.number);
    const value = cellValue(agent, shown, chosen[at]);
    tiles.push({ left: low[at], right: high[at], bottom, top, value, cell: chosen[at] });
  }
  return tiles.sort((a, b) => a.left - b.left);
}

// ---- Explanations

/** What `agent.explain` returns for a state: the cell that decides, its rivals, and what lies beyond its borders. */
function explanationOf(agent, step, values) {
  const { cells, size, low, high, states, bonus } = agent;
  const point = toUnit(agent, values);
  const [cell, ...others] = relevantAt(agent, step, point);
  const at = cells.node[cell];
  const borders = states.map((state, d) => {
    const [lower, upper] = [low[at * size + d], high[at * size + d]];
    const beyond = (edge, inside) => {
      let there = edge ? upper : lower * (1 - Number.EPSILON / 2); // the nearest number on the other side
      if (edge ? upper === 1 : lower === 0) {
        if (!state.periodic || (lower === 0 && upper === 1)) return null; // the space ends there
        there = edge ? 0 : 1 - Number.EPSILON / 2;
      }
      const moved = [...point];
      moved[d] = there;
      return { distance: Math.abs(inside - fromUnit(state, edge ? upper : lower)), cell: greedyAt(agent, step, moved) };
    };
    const here = fromUnit(state, point[d]);
    return {
      here, low: fromUnit(state, lower), high: fromUnit(state, upper), below: beyond(0, here), above: beyond(1, here),
    };
  });
  return {
    cell, borders, q: cells.q[cell], visits: cells.visits[cell], depth: cells.depth[cell],
    bonus: bonus === null ? null : bonus / Math.sqrt(Math.max(cells.visits[cell], 1)),
    others: others.map((other) => ({ cell: other, q: cells.q[other], behind: cells.q[cell] - cells.q[other] })),
  };
}

/** What is played in a cell, as the environment takes it: a list of numbers. */
function playedIn({ cells, choices, playedSize }, cell) {
  const first = cells.choice[cell] * playedSize;
  return Array.from(choices.played.subarray(first, first + playedSize));
}

function actionText(agent, cell) {
  const played = playedIn(agent, cell);
  const { discrete, names } = agent.actions;
  if (discrete) {
    const own = agent.choices.middles[agent.cells.choice[cell]];
    const same = played.length === 1 && played[0] === own;
    return same ? names[own] : `${names[own]} (${played.join(", ")})`;
  }
  return played.map((value, i) => `${names[i] ?? "action"} ${number(value)}`).join(", ");
}
