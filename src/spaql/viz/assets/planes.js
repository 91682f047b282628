/*
 * The picture: tiles of a plane on a canvas, with axes, borders, an episode over it, a cursor, and a legend in words.
 * Part of one program; see base.js.
 */

const POLICY_LINE = "#e3120b";
const MOST_NAMED = 24; // discrete actions in a legend

// ---- Colours

const rgbOf = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

/** The colour at a share of the scale. */
function scaleColour(scale, share) {
  const at = Math.min(1, Math.max(0, share)) * (scale.length - 1);
  const first = Math.min(scale.length - 2, Math.floor(at));
  const [low, high] = [rgbOf(scale[first]), rgbOf(scale[first + 1])];
  return `rgb(${low.map((channel, i) => Math.round(channel + (at - first) * (high[i] - channel))).join(",")})`;
}

/** The colours of a layer, the values of the first and the last, and the range: signed actions diverge from 0. */
function scaleOf({ scale, diverging }, agents, agent, setting) {
  const [low, high] = rangeOf(agents, agent, setting);
  if (setting.layer !== "policy" || agent.size === 1 || !(low < 0 && high > 0)) {
    return { colours: scale, low, high, range: [low, high] };
  }
  const most = Math.max(-low, high);
  return { colours: diverging, low: -most, high: most, range: [low, high] };
}

/** The colour of a discrete action: the palette, or for many of them the scale. */
function actionColour({ palette, scale }, count, action, theme) {
  if (count <= palette.length) return palette[action][theme.name];
  return scaleColour(scale, action / (count - 1));
}

const isNamed = (agent, { layer }) => layer === "policy" && agent.actions.discrete && agent.size > 1;

const rangesOf = new Map();

/** The least and the largest value of a layer over all leaves of the agents: sliders do not change the colours.
    Q has a range of its own for each agent and time step, as it falls with the steps left. */
function rangeOf(agents, agent, setting) {
  const { layer, number: which } = setting;
  if (layer === "policy" && agents[0].size > 1) {
    const ends = (side, pick) => pick(...agents.map((agent) => agent.actions[side][which]));
    return [ends("low", Math.min), ends("high", Math.max)];
  }
  const own = layer === "q" || layer === "policy";
  const through = layer === "visits" && setting.mode === "projection" ? `${setting.dims} ${setting.step}` : "";
  const some = own ? [agent] : agents;
  const key = `${some.map(({ key }) => key).join()} ${layer} ${which} ${through} ${own ? setting.step : ""}`;
  if (!rangesOf.has(key)) {
    const values = some.flatMap((agent) => {
      if (agent.size === 1) {
        const steps = own ? [setting.step] : Array.from({ length: agent.steps }, (_, step) => step);
        return steps.flatMap((step) => planeOf(agent, { ...setting, step }).map((tile) => tile.value));
      }
      if (through) return projectionOf(agent, setting).map((tile) => tile.value);
      const found = [];
      agent.nodes.child.forEach((child, at) => {
        if (child === NONE && (!own || agent.root[at] === setting.step)) found.push(leafValue(agent, setting, at));
      });
      return found;
    });
    rangesOf.set(key, extent(values.filter((value) => Number.isFinite(value))));
  }
  return rangesOf.get(key);
}

/** A function from values to colours. */
function painter(page, agents, agent, setting, theme) {
  if (isNamed(agent, setting)) {
    const count = agent.actions.names.length;
    return (value) => (Number.isNaN(value) ? theme.empty : actionColour(page, count, value, theme));
  }
  const log = setting.layer === "visits";
  const scale = scaleOf(page, agents, agent, setting);
  const [low, high] = [scale.low, scale.high].map((value) => (log ? Math.log(Math.max(value, 1e-12)) : value));
  const paint = (value) => {
    if (Number.isNaN(value)) return theme.empty;
    return scaleColour(scale.colours, high > low ? ((log ? Math.log(value) : value) - low) / (high - low) : 0.5);
  };
  return Object.assign(paint, { diverges: scale.colours === page.diverging });
}

// ---- Axes

/** Round values within a range, in about so many steps. */
function ticksOf(low, high, about) {
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) ticks.push(k * step || 0);
  const digits = Math.max(4, 1 + Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / step)));
  return { ticks, text: (value) => number(value, digits) };
}

/** Where values stand on a canvas: a frame of pixels and the ranges along its sides. */
function frameOf(width, height, x, y, leftRoom = 58) {
  const [left, top, right, bottom] = [leftRoom, 8, width - 14, height - 46];
  return {
    left, top, right, bottom, x, y,
    px: (value) => left + ((value - x.low) / (x.high - x.low)) * (right - left),
    py: (value) => bottom - ((value - y.low) / (y.high - y.low)) * (bottom - top),
    vx: (pixel) => x.low + ((pixel - left) / (right - left)) * (x.high - x.low),
    vy: (pixel) => y.low + ((bottom - pixel) / (bottom - top)) * (y.high - y.low),
  };
}

function drawAxes(context, frame, theme) {
  const { left, right, top, bottom, x, y } = frame;
  context.font = `12px ${FONT}`;
  context.fillStyle = theme.quiet;
  context.strokeStyle = theme.edge;
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, right - left + 1, bottom - top + 1);
  context.textAlign = "center";
  context.textBaseline = "top";
  const across = ticksOf(x.low, x.high, (right - left) / 90);
  for (const value of across.ticks) {
    const at = Math.round(frame.px(value)) + 0.5;
    context.beginPath();
    context.moveTo(at, bottom + 1);
    context.lineTo(at, bottom + 5);
    context.stroke();
    const room = context.measureText(across.text(value)).width / 2;
    context.fillText(across.text(value), Math.min(at, right + 13 - room), bottom + 8);
  }
  context.fillText(x.name, (left + right) / 2, bottom + 27, right - left);
  context.textAlign = "right";
  context.textBaseline = "middle";
  const every = y.names ? Math.ceil((14 * (y.high - y.low)) / (bottom - top)) : 1; // as many names as there is room for
  const up = y.names
    ? { ticks: y.names.map((_, i) => i).filter((i) => i % every === 0 && i >= y.low && i <= y.high), text: (i) => y.names[i] }
    : ticksOf(y.low, y.high, (bottom - top) / 55);
  for (const value of up.ticks) {
    const at = Math.round(frame.py(value)) + 0.5;
    context.beginPath();
    context.moveTo(left - 5, at);
    context.lineTo(left - 1, at);
    context.stroke();
    context.fillText(up.text(value), left - 8, at, left - 10);
  }
  if (y.names) return;
  context.save();
  context.translate(11, (top + bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText(y.name, 0, 0, bottom - top);
  context.restore();
}

// ---- Tiles, episode, cursor

function drawTiles(context, frame, agent, setting, tiles, paint, theme) {
  const ratio = devicePixelRatio || 1;
  const snap = (value) => Math.round(value * ratio) / ratio;
  const place = (d, at) => (d === null ? at : fromUnit(agent.states[d], at));
  const [xDim, yDim] = agent.size === 1 ? [0, null] : setting.dims;
  context.fillStyle = theme.empty;
  context.fillRect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
  const boxes = [];
  for (const tile of tiles) {
    const [left, right] = [tile.left, tile.right].map((at) => snap(frame.px(place(xDim, at))));
    const [bottom, top] = [tile.bottom, tile.top].map((at) => snap(frame.py(place(yDim, at))));
    if (right < frame.left || left > frame.right || bottom < frame.top || top > frame.bottom) continue; // zoomed past
    context.fillStyle = paint(tile.value);
    context.fillRect(left, top, right - left, bottom - top);
    boxes.push([left, top, right - left, bottom - top]);
  }
  if (!setting.borders || setting.mode === "projection") return;
  context.strokeStyle = paint.diverges ? "rgba(0,0,0,0.3)" : "rgba(255,255,255,0.65)"; // white vanishes around 0
  context.lineWidth = boxes.length > 2000 ? 0.4 : 0.8;
  context.beginPath();
  for (const [left, top, width, height] of boxes) {
    if (width < 2 && height < 2) continue; // it would be nothing but border
    context.rect(left, top, width, height);
  }
  context.stroke();
}

/** The cells played over the states, outlined, broken where the action jumps. */
function drawPlayed(context, frame, agent, played) {
  const value = (at) => frame.px(fromUnit(agent.states[0], at));
  for (const [colour, width] of [["#ffffff", 4], [POLICY_LINE, 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    played.forEach((tile, i) => {
      const [before, after] = [played[i - 1], played[i + 1]];
      const joins = (other) => other && other.bottom <= tile.top && other.top >= tile.bottom;
      const [left, right, low, high] = [value(tile.left), value(tile.right), frame.py(tile.bottom), frame.py(tile.top)];
      context.moveTo(left, low);
      context.lineTo(right, low);
      context.moveTo(left, high);
      context.lineTo(right, high);
      for (const [other, at] of [[before, left], [after, right]]) {
        if (!joins(other)) {
          context.moveTo(at, low);
          context.lineTo(at, high);
        } else {
          for (const [mine, theirs] of [[low, frame.py(other.bottom)], [high, frame.py(other.top)]]) {
            context.moveTo(at, mine);
            context.lineTo(at, theirs);
          }
        }
      }
    });
    context.stroke();
  }
}

/** The episode as points of the plane, `null` where a number that comes round jumps. */
function pathOf(agent, setting, frame) {
  const { points } = agent.episode;
  const count = points.length / agent.size;
  return Array.from({ length: count }, (_, t) => {
    const values = Array.from(points.subarray(t * agent.size, (t + 1) * agent.size));
    const y = agent.size === 1 ? playedAt(agent, setting, t, values) : values[setting.dims[1]];
    return [frame.px(values[agent.size === 1 ? 0 : setting.dims[0]]), frame.py(y)];
  });
}

/** The middle of what is played at a time of the episode, along the axis of actions. */
function playedAt(agent, setting, time, values) {
  const step = agent.steps > 1 ? Math.min(time, agent.steps - 1) : 0;
  const [low, high] = actionSpan(agent, greedyAt(agent, step, toUnit(agent, values)), setting.number);
  return (low + high) / 2;
}

function drawEpisode(context, frame, agent, setting) {
  const path = pathOf(agent, setting, frame);
  const jumps = (i) => {
    return setting.dims.some((d) => agent.states[d]?.periodic
      && Math.abs(agent.episode.points[i * agent.size + d] - agent.episode.points[(i - 1) * agent.size + d])
        > 0.5 * (agent.states[d].high - agent.states[d].low));
  };
  const line = (until, colour, width) => {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.lineJoin = "round";
    context.beginPath();
    path.slice(0, until + 1).forEach((at, i) => (i === 0 || jumps(i) ? context.moveTo(...at) : context.lineTo(...at)));
    context.stroke();
  };
  line(path.length, "rgba(0,0,0,0.35)", 1);
  line(setting.time, "#ffffff", 4);
  line(setting.time, "#000000", 2);
  const dot = ([x, y], radius, fill) => {
    context.fillStyle = fill;
    context.strokeStyle = fill === "#ffffff" ? "#000000" : "#ffffff";
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  };
  dot(path[0], 9, "#ffffff"); // seen around the black one where both are at the start
  dot(path[Math.min(setting.time, path.length - 1)], 5, "#000000");
}

/** A cross through a point of the plane, and the borders of the cell that decides there. */
function drawCursor(context, frame, agent, setting, values) {
  const [x, y] = agent.size === 1 ? [values[0], null] : setting.dims.map((d) => values[d]);
  const cell = greedyAt(agent, setting.step, toUnit(agent, values));
  const at = agent.cells.node[cell];
  const edge = (d, side) => fromUnit(agent.states[d], agent[side][at * agent.size + d]);
  const [xDim, yDim] = agent.size === 1 ? [0, null] : setting.dims;
  const upwards = () => [edge(yDim, "low"), edge(yDim, "high")];
  const [bottom, top] = yDim === null ? drawnSpan(agent, cell, setting.number) : upwards();
  const box = [edge(xDim, "low"), edge(xDim, "high")].map(frame.px);
  for (const [colour, width] of [["#ffffff", 5], ["#000000", 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    if (setting.mode === "slice") {
      context.strokeRect(box[0], frame.py(top), box[1] - box[0], frame.py(bottom) - frame.py(top));
    }
    context.beginPath();
    if (y === null) {
      context.moveTo(frame.px(x), frame.top);
      context.lineTo(frame.px(x), frame.bottom);
    } else {
      const [left, up] = [frame.px(x), frame.py(y)];
      context.moveTo(left - 9, up);
      context.lineTo(left + 9, up);
      context.moveTo(left, up - 9);
      context.lineTo(left, up + 9);
    }
    context.stroke();
  }
}

// ---- The legend

function layerWords(agent, { layer, number: which, mode }) {
  const behind = mode === "projection" && agent.size > 2;
  const decides = behind ? "mean by visits of the cells that decide" : "of the cell that decides";
  const of = agent.size === 1 ? "of each cell" : decides;
  if (layer === "policy" && agent.size > 1) {
    if (agent.actions.discrete) return behind ? "Greedy action, by most visits" : "Greedy action";
    return `${agent.actions.names[which]} of the greedy policy${behind ? ", mean by visits" : ""}`;
  }
  if (layer === "visits") return "Visits relative to an even spread: 1 is average (log scale)";
  if (layer === "depth") return `Depth: number of splits above, ${of}`;
  if (layer === "uncertainty") {
    return agent.bonus === null ? `1 / √visits, ${of}` : `Bonus left, ${number(agent.bonus)} / √visits, ${of}`;
  }
  return `Q: the value ${of}`;
}

function legendOf(page, agents, agent, setting, theme, hasEmpty) {
  const legend = make("div", "legend");
  legend.append(make("p", "legend-title", layerWords(agent, setting)));
  const swatch = (colour, text) => {
    const item = make("li");
    const patch = make("span", "swatch");
    patch.style.background = colour;
    item.append(patch, make("span", "", text));
    return item;
  };
  const list = make("ul");
  if (isNamed(agent, setting)) {
    const { names } = agent.actions;
    const colours = names.map((_, i) => actionColour(page, names.length, i, theme));
    names.slice(0, MOST_NAMED).forEach((name, i) => list.append(swatch(colours[i], name)));
    if (names.length > MOST_NAMED) list.append(make("li", "", `and ${names.length - MOST_NAMED} more`));
  } else {
    const scale = scaleOf(page, agents, agent, setting);
    const [low, high] = scale.range;
    const bar = make("div", "bar");
    const place = (value) => (scale.high > scale.low ? (value - scale.low) / (scale.high - scale.low) : 0.5);
    const stops = page.scale.map((_, i, { length }) => place(low) + (i / (length - 1)) * (place(high) - place(low)));
    bar.style.background = `linear-gradient(to right, ${stops.map((at) => scaleColour(scale.colours, at)).join(",")})`;
    const ends = make("div", "ends");
    const middle = setting.layer === "visits" ? Math.sqrt(Math.max(low, 1e-12) * high) : (low + high) / 2;
    for (const value of [low, middle, high]) ends.append(make("span", "", number(value, 3)));
    legend.append(bar, ends);
  }
  if (agent.size === 1) list.append(swatch(POLICY_LINE, "outlined: the greedy policy"));
  if (setting.mode === "slice") {
    const { head, child } = agent.nodes;
    const nested = head.some((cell, at) => cell !== NONE && child[at] !== NONE);
    const inside = nested ? "; other colours inside it are smaller cells, which decide in their own boxes" : "";
    const at = agent.size > 1 ? `cross${inside}` : "line";
    list.append(swatch("transparent", `black outline: the cell that decides at the ${at}`));
  }
  if (hasEmpty) list.append(swatch(theme.empty, "never visited"));
  if (setting.episode && agent.episode) {
    list.append(swatch("#000000", "the episode: white dot its start, black dot the step shown"));
  }
  legend.append(list);
  return legend;
}
