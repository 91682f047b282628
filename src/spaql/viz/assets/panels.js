/*
 * A panel: one set of controls, and under it the picture of an agent, or of two over the same observed dimensions.
 * Part of one program; see base.js.
 *
 * All that can be seen follows from the panel's `setting`:
 *   dims, layer, number, mode, step, borders      what the pictures show
 *   view                                          the part of the axes that is shown; see zoom.js
 *   point, cursor                                 values that are explained, and those the arrow keys move, or null
 *   pointed                                       values under the mouse, explained for as long as it is there, or null
 *   episode, time, follow                         the episode
 */

const LAYERS = { policy: "policy", q: "Q", visits: "visits", depth: "depth", uncertainty: "uncertainty" };
const MODES = { slice: "fixed: a slice", projection: "averaged by visits" };
const STRIDE = 1 / 64; // of the range, for each press of an arrow key
const SLIDER_STEPS = 512;
const HINT = coarsePointer.matches
  ? "Tap a state to choose it."
  : "Click a state, or move with the arrow keys and press Enter. Ctrl and the wheel zoom, dragging moves.";

let ids = 0;

/** A label and its control, in a box. */
function field(text, control, className = "field") {
  const box = make("div", className);
  ids += 1;
  control.id = `control-${ids}`;
  const label = make("label", "", text);
  label.htmlFor = control.id;
  box.append(label, control);
  return box;
}

function chooser(options, value, onChange) {
  const select = make("select");
  for (const [key, text] of options) select.append(Object.assign(make("option", "", text), { value: key }));
  select.value = value;
  select.addEventListener("change", () => onChange(select.value));
  return select;
}

function tickBox(text, value, onChange) {
  const input = Object.assign(make("input"), { type: "checkbox", checked: value });
  input.addEventListener("change", () => onChange(input.checked));
  const label = make("label", "tick");
  label.append(input, make("span", "", text));
  return label;
}

/** A slider with its value beside it. */
function slider(text, { min, max, step, value, say, onInput }) {
  const input = Object.assign(make("input"), { type: "range", min, max, step });
  input.value = value;
  const output = make("output");
  const box = field(text, input, "field slide");
  box.append(output);
  const set = (now) => {
    input.value = now;
    output.textContent = say(now);
    input.setAttribute("aria-valuetext", say(now));
  };
  input.addEventListener("input", () => onInput(Number(input.value)));
  set(value);
  return { box, set, input };
}

/** Ranges of the observed dimensions over all agents of a panel. */
function rangesOver(agents) {
  return agents[0].states.map(({ name, periodic, whole }, d) => ({
    name, periodic, whole,
    low: Math.min(...agents.map((agent) => agent.states[d].low)),
    high: Math.max(...agents.map((agent) => agent.states[d].high)),
  }));
}

function panelOf(page, agents) {
  const [first] = agents;
  const start = first.start.dims.length === 2 ? first.start.dims : [0];
  const setting = {
    dims: [...start], layer: first.size === 1 ? "q" : "policy", number: 0, mode: "slice", step: 0, borders: true,
    view: wholeView(), point: [...first.start.at], cursor: null, pointed: null, episode: agents.some((agent) => agent.episode), time: 0, follow: false,
  };
  const panel = { page, agents, setting, ranges: rangesOver(agents), element: make("div", "panel"), timer: null };
  panel.controls = make("div", "controls");
  panel.slices = make("div", "slices");
  panel.pictures = agents.map((agent) => pictureOf(panel, agent));
  const row = make("div", agents.length > 1 ? "pictures two" : "pictures");
  row.append(...panel.pictures.map((picture) => picture.element));
  const [replay, ...rewards] = setting.episode ? episodeOf(panel) : [];
  const reads = make("div", "point");
  panel.inputs = pointInputs(panel, reads);
  const asked = [reads, ...(replay ? [replay] : [])];
  const explanations = explanationsOf(panel);
  const body = make("div", agents.length > 1 ? "" : "beside"); // of one agent, the explanation beside the picture
  if (agents.length > 1) {
    body.append(row, panel.slices, explanations, ...asked);
  } else {
    const main = make("div", "main");
    main.append(row, panel.slices, ...asked);
    body.append(main, explanations);
  }
  panel.element.append(panel.controls, body, ...rewards);
  if (first.size === 1) {
    panel.values = linesView(make("figure", "below"));
    panel.element.append(panel.values.figure);
  }
  buildControls(panel);
  views.push({ drawn: true, draw: () => refresh(panel) });
  refresh(panel);
  return panel;
}

// ---- Controls

function buildControls(panel) {
  const { agents: [first], setting, controls } = panel;
  const dims = first.states.map(({ name }, d) => [String(d), name]);
  const axis = (text, at) => {
    const select = chooser(dims, setting.dims[at], (value) => {
      const other = setting.dims[1 - at];
      setting.dims[1 - at] = Number(value) === other ? setting.dims[at] : other;
      setting.dims[at] = Number(value);
      showWhole(panel);
      refresh(panel, true);
    });
    return field(text, select);
  };
  controls.replaceChildren();
  const layers = Object.entries(LAYERS).filter(([key]) => key !== "policy" || first.size > 1);
  controls.append(field("Colour shows", chooser(layers, setting.layer, (value) => {
    setting.layer = value;
    refresh(panel);
  })));
  if (first.numbers > 1) {
    const names = first.actions.names.map((name, i) => [String(i), name]);
    controls.append(field("Action dimension", chooser(names, setting.number, (value) => {
      setting.number = Number(value);
      refresh(panel);
    })));
  }
  if (first.size > 1) controls.append(axis("Across", 0), axis("Upwards", 1));
  if (first.size > 2) {
    controls.append(field("Other dimensions", chooser(Object.entries(MODES), setting.mode, (value) => {
      setting.mode = value;
      refresh(panel, true);
    })));
  }
  const ticks = make("div", "field ticks");
  ticks.append(tickBox("cell borders", setting.borders, (value) => {
    setting.borders = value;
    refresh(panel);
  }));
  if (setting.episode) {
    ticks.append(tickBox("episode", true, (value) => {
      setting.episode = value;
      refresh(panel);
    }));
  }
  controls.append(ticks);
  buildSlices(panel);
}

/** Sliders for the dimensions that are not on the axes, and for the time step of a policy that changes with it. */
function buildSlices(panel) {
  const { agents, setting, slices, ranges } = panel;
  panel.sliders = new Map();
  slices.replaceChildren();
  const steps = Math.max(...agents.map((agent) => agent.steps));
  if (steps > 1) {
    panel.stepSlider = slider("Time step", {
      min: 0, max: steps - 1, step: 1, value: setting.step, say: (value) => `${value} of 0 to ${steps - 1}`,
      onInput: (value) => {
        setting.step = value;
        refresh(panel);
      },
    });
    slices.append(panel.stepSlider.box);
  }
  if (setting.mode === "projection") return;
  ranges.forEach(({ name, low, high, whole }, d) => {
    if (ranges.length === 1 || setting.dims.includes(d)) return;
    const made = slider(`${name}, fixed at`, {
      min: 0, max: SLIDER_STEPS, step: 1, value: share(panel, d),
      say: () => number(setting.point[d], 3),
      onInput: (value) => {
        const at = low + (value / SLIDER_STEPS) * (high - low);
        setting.point[d] = whole ? Math.min(Math.max(Math.round(at), Math.ceil(low)), Math.floor(high)) : at;
        refresh(panel);
      },
    });
    panel.sliders.set(d, made);
    slices.append(made.box);
  });
}

/** Where the point stands along the slider of a number. */
function share({ setting, ranges }, d) {
  return Math.round(SLIDER_STEPS * (setting.point[d] - ranges[d].low) / (ranges[d].high - ranges[d].low));
}

/** A field for every dimension of the state that is explained. */
function pointInputs(panel, box) {
  const legend = make("p", "legend-title", "State to explain");
  box.append(legend);
  return panel.ranges.map(({ name }, d) => {
    const input = Object.assign(make("input"), { type: "number", step: "any" });
    input.addEventListener("change", () => {
      const value = Number(input.value);
      if (input.value !== "" && Number.isFinite(value)) {
        panel.setting.point[d] = value;
        panel.setting.cursor = null;
      }
      refresh(panel);
    });
    box.append(field(name, input));
    return input;
  });
}

// ---- Pictures

function pictureOf(panel, agent) {
  const element = make("figure", "picture-of");
  const canvas = make("canvas");
  const legend = make("div");
  const reading = make("p", "reading");
  const output = make("output", "", HINT);
  if (panel.agents.length > 1) element.append(make("h4", "", agent.name));
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "map of the policy");
  const keys = "The arrow keys move a cursor, Enter explains the state under it, plus and minus zoom, 0 shows all.";
  canvas.setAttribute("aria-label", `Policy of ${agent.name}. ${keys}`);
  ids += 1;
  output.id = `reading-${ids}`;
  canvas.setAttribute("aria-describedby", output.id);
  output.setAttribute("aria-live", "polite");
  reading.append(output);
  const below = make("div", "under");
  below.append(reading, zoomButtons(panel));
  element.append(canvas, below, legend);
  const picture = { panel, agent, element, canvas, legend, output, frame: null, held: null, dragged: false };
  canvas.addEventListener("pointermove", (event) => {
    if (picture.dragged && picture.held) return;
    const values = valuesAt(picture, event);
    lookAt(picture, values);
    // After a redraw the browser may report a mouse that rests: it takes over from the keys only when it moves.
    if (event.pointerType === "mouse" && (event.movementX !== 0 || event.movementY !== 0)) pointAt(panel, values);
  });
  canvas.addEventListener("pointerleave", () => {
    lookAt(picture, null);
    pointAt(panel, null);
  });
  canvas.addEventListener("click", (event) => {
    const values = picture.dragged ? null : valuesAt(picture, event);
    if (values) choose(panel, values);
  });
  canvas.addEventListener("keydown", (event) => onKey(picture, event));
  listenToZoom(picture);
  watchWidth(canvas.parentElement, { drawn: true, draw: () => drawPicture(picture) });
  return picture;
}

/** The values of the plane under the pointer, the others as they are fixed; null outside. */
function valuesAt({ panel: { setting }, agent, canvas, frame }, event) {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  if (!frame || x < frame.left || x > frame.right || y < frame.top || y > frame.bottom) return null;
  const values = [...setting.point];
  values[setting.dims[0]] = frame.vx(x);
  if (agent.size > 1) values[setting.dims[1]] = frame.vy(y);
  return values;
}

function wordsAt({ panel: { setting }, agent }, values) {
  const where = setting.dims.map((d) => `${agent.states[d].name} ${number(values[d], 3)}`).join(", ");
  const cell = greedyAt(agent, Math.min(setting.step, agent.steps - 1), toUnit(agent, values));
  const facts = [actionText(agent, cell), `Q ${number(agent.cells.q[cell])}`, count(agent.cells.visits[cell], "visit")];
  return `${where}: ${facts.join(", ")}`;
}

function lookAt(picture, values) {
  picture.output.textContent = values ? wordsAt(picture, values) : HINT;
}

/** Explain the state under the mouse for as long as it is there. */
function pointAt(panel, values) {
  if (values === null && panel.setting.pointed === null) return;
  panel.setting.pointed = values;
  explainAll(panel);
}

function choose(panel, values) {
  Object.assign(panel.setting, { point: values, cursor: null, pointed: null });
  refresh(panel);
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1] };

function onKey(picture, event) {
  const { panel } = picture;
  const { setting, ranges } = panel;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (zoomByKey(picture, event.key)) {
    event.preventDefault();
    return;
  }
  if (event.key === "Enter") {
    event.preventDefault();
    if (setting.cursor) choose(panel, setting.cursor);
    return;
  }
  const [axis, sign] = MOVES[event.key] ?? [0, 0];
  if (!sign) return;
  event.preventDefault();
  const d = setting.dims[axis];
  if (d === undefined) return;
  const { low, high } = ranges[d];
  const cursor = [...(setting.cursor ?? setting.point)];
  const stride = STRIDE * (high - low) * (setting.view[axis][1] - setting.view[axis][0]);
  cursor[d] = Math.min(high, Math.max(low, cursor[d] + sign * (event.shiftKey ? 8 : 1) * stride));
  setting.cursor = cursor;
  keepShown(panel, cursor);
  lookAt(picture, cursor);
  drawPanel(panel);
}

function axisOf(panel, agent) {
  const { setting, ranges } = panel;
  const x = ranges[setting.dims[0]];
  if (agent.size > 1) return [x, ranges[setting.dims[1]]];
  const { discrete, names, low, high } = agent.actions;
  if (discrete) return [x, { low: -0.5, high: names.length - 0.5, names }];
  return [x, { name: names[setting.number], low: low[setting.number], high: high[setting.number] }];
}

function drawPicture(picture) {
  const { panel, agent, canvas } = picture;
  const setting = { ...panel.setting, step: Math.min(panel.setting.step, agent.steps - 1) };
  const theme = currentTheme();
  const width = Math.max(240, picture.element.clientWidth);
  const height = Math.round(Math.min(520, Math.max(280, width * 0.62)));
  const ratio = devicePixelRatio || 1;
  Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, width, height);
  const [x, y] = axisOf(panel, agent).map((axis, i) => shownPart(axis, setting.view[i]));
  const named = y.names ? Math.min(0.35 * width, 16 + 7 * Math.max(...y.names.map((name) => name.length))) : undefined;
  const frame = frameOf(width, height, x, y, named);
  picture.frame = frame;
  const tiles = tilesOf(agent, setting);
  const paint = painter(panel.page, panel.agents, agent, setting, theme);
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
  context.clip();
  drawTiles(context, frame, agent, setting, tiles, paint, theme);
  if (agent.size === 1) drawPlayed(context, frame, agent, playedOf(agent, setting));
  if (setting.episode && agent.episode) drawEpisode(context, frame, agent, setting);
  drawCursor(context, frame, agent, setting, setting.cursor ?? setting.point);
  context.restore();
  drawAxes(context, frame, theme);
  const empty = tiles.some((tile) => Number.isNaN(tile.value));
  picture.legend.replaceChildren(legendOf(panel.page, panel.agents, agent, setting, theme, empty));
  canvas.dataset.tiles = tiles.length;
  canvas.dataset.shown = JSON.stringify([x, y].map(({ low, high }) => [low, high]));
}

function tilesOf(agent, setting) {
  if (agent.size === 1) return planeOf(agent, setting);
  if (setting.mode === "projection" && agent.size > 2) return projectionOf(agent, setting);
  return sliceOf(agent, setting, toUnit(agent, setting.point));
}

// ---- Explanations and lines

function explanationsOf(panel) {
  const row = make("div", panel.agents.length > 1 ? "pictures two" : "pictures");
  panel.explanations = panel.agents.map((agent) => {
    const article = make("div", "explanation");
    row.append(article);
    return article;
  });
  return row;
}

/** Explain the state under the mouse, or else the one that was chosen. */
function explainAll(panel) {
  const { setting, agents } = panel;
  agents.forEach((agent, i) => {
    const element = panel.explanations[i];
    const step = Math.min(setting.step, agent.steps - 1);
    element.setAttribute("aria-live", setting.pointed ? "off" : "polite"); // the mouse is not announced
    explain(element, agent, step, setting.pointed ?? setting.point, setting.pointed ? "Under the mouse" : "Chosen state");
    if (agent.size > 1) {
      const paint = painter(panel.page, agents, agent, { ...setting, layer: "policy", step }, currentTheme());
      const patch = make("span", "swatch");
      patch.style.background = paint(cellValue(agent, { ...setting, layer: "policy" }, Number(element.dataset.cell)));
      element.querySelector(".done").prepend(patch);
    }
    if (agents.length > 1) element.prepend(make("h4", "", agent.name));
  });
}

/** Q of the greedy action over the states, for agents with one observed dimension. */
function valueLines(panel) {
  const series = panel.agents.map((agent, i) => {
    const step = Math.min(panel.setting.step, agent.steps - 1);
    const tiles = playedOf(agent, { ...panel.setting, layer: "q", step });
    const look = { ...panel.page.palette[i], dash: "solid" };
    const x = tiles.flatMap((tile) => [tile.left, tile.right].map((at) => fromUnit(agent.states[0], at)));
    return { name: agent.name, x, y: tiles.flatMap((tile) => [tile.value, tile.value]), look };
  });
  const name = panel.ranges[0].name;
  return {
    title: `Q of the greedy action, over ${name}`, note: "", x_label: name, y_label: "Q", series,
  };
}

// ---- Everything anew

function drawPanel(panel) {
  panel.pictures.forEach(drawPicture);
}

/** Bring all that depends on the setting up to date; `axes` where other dimensions are fixed than before. */
function refresh(panel, axes = false) {
  const { setting, agents } = panel;
  if (axes) buildControls(panel);
  for (const [d, made] of panel.sliders) made.set(share(panel, d));
  panel.stepSlider?.set(setting.step);
  panel.inputs.forEach((input, d) => { input.value = String(Number(setting.point[d].toPrecision(8))); });
  drawPanel(panel);
  explainAll(panel);
  if (panel.values) {
    panel.values.show(valueLines(panel));
    panel.values.marker = setting.point[0];
    panel.values.draw();
  }
  if (panel.time) {
    panel.time.set(setting.time);
    const told = agents.filter((agent) => agent.episode);
    const named = (agent) => (told.length > 1 ? `${agent.name}: ` : "");
    panel.moment.textContent = told.map((agent) => `${named(agent)}${momentText(agent, setting.time)}.`).join(" ");
    if (panel.rewards) {
      panel.rewards.marker = setting.time;
      panel.rewards.draw();
    }
  }
}
