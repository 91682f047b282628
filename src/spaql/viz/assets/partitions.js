/*
 * Partitions: a picture of cells that one can point at, walk through by keyboard, and replay as it grew.
 * Part of one program; see base.js.
 */

const POLICY_RED = "#e3120b";
const BAND = 0.02; // height of a cell of a single action, relative to the action space
const FRAME_PAUSE = 150; // milliseconds between two frames of a replay
const HINT = "Point at a cell, tap it, or move from cell to cell with the arrow keys.";

const state = {
  case: 0,
  unit: "", // of the x axes
  partition: 0,
  frame: 0,
  field: "q",
  cursor: null, // the point [state, action] that the arrow keys move, or null
  looked: null, // the point last pointed at or moved to, or null
  byKeys: false, // whether the arrow keys moved last, and not the mouse
  timer: null, // of the replay, or null
};

function mosaicRows(frame) {
  const body = frame.q.map((q, i) => [
    frame.low[i][0], frame.high[i][0], frame.low[i][1], frame.high[i][1], q, frame.visits[i], frame.depth[i],
  ]);
  return { head: ["state from", "state to", "action from", "action to", "Q", "visits", "depth"], body };
}

// ---- Partitions: geometry

/** Corners of the cells as they are drawn: a single action is a narrow band; see charts.py. */
const drawnOf = remembered(({ low, high, actions }) => {
  const [first, last] = actions ?? extent([...low, ...high].map((corner) => corner[1]));
  const band = BAND * (last - first);
  const bottom = low.map(([, y], i) => (y < high[i][1] ? y : Math.max(first, Math.min(y - band / 2, last - band))));
  const top = high.map(([, y], i) => (low[i][1] < y ? y : bottom[i] + band));
  return { low: low.map(([x], i) => [x, bottom[i]]), high: high.map(([x], i) => [x, top[i]]) };
});

/** A frame on the grid of all edges of its cells: `owner[row][column]` is the cell there. */
const gridOf = remembered((frame) => {
  const drawn = drawnOf(frame);
  const corners = [...drawn.low, ...drawn.high];
  const x = sorted(corners.map((corner) => corner[0]));
  const y = sorted(corners.map((corner) => corner[1]));
  const column = new Map(x.map((value, i) => [value, i]));
  const row = new Map(y.map((value, i) => [value, i]));
  const owner = y.slice(1).map(() => new Array(x.length - 1).fill(-1));
  drawn.low.forEach((low, cell) => {
    const high = drawn.high[cell];
    const [left, right] = [column.get(low[0]), column.get(high[0])];
    for (const line of owner.slice(row.get(low[1]), row.get(high[1]))) line.fill(cell, left, right);
  });
  return { x, y, owner };
});

/** Index of the interval between `edges` that holds `value`; the last one is closed. */
function intervalAt(edges, value) {
  let [first, last] = [0, edges.length - 2];
  while (first < last) {
    const middle = (first + last + 1) >> 1;
    if (edges[middle] <= value) first = middle;
    else last = middle - 1;
  }
  return first;
}

function cellAt(frame, [x, y]) {
  const grid = gridOf(frame);
  return grid.owner[intervalAt(grid.y, y)][intervalAt(grid.x, x)];
}

function middle(frame, cell) {
  const { low, high } = drawnOf(frame);
  return [0, 1].map((side) => (low[cell][side] + high[cell][side]) / 2);
}

/** The point the arrow keys start from: what the policy plays in the middle of the states. */
function startPoint(frame) {
  const { edges, played } = frame;
  const x = (edges[0] + edges[edges.length - 1]) / 2;
  return [x, middle(frame, played[intervalAt(edges, x)])[1]];
}

/** The point one cell further; it keeps its other coordinate, so that going back leads back. */
function neighbour(frame, point, side, forward) {
  const cell = cellAt(frame, point);
  if (cell < 0) return startPoint(frame);
  const { low, high } = drawnOf(frame);
  const edges = side === 0 ? gridOf(frame).x : gridOf(frame).y;
  const border = (forward ? high : low)[cell][side];
  if (border === edges[forward ? edges.length - 1 : 0]) return point;
  const at = edges.indexOf(border);
  const probe = [...point];
  probe[side] = forward ? border : edges[at - 1];
  const next = cellAt(frame, probe);
  if (next < 0) return side === 0 ? middle(frame, frame.played[intervalAt(frame.edges, probe[0])]) : point;
  probe[side] = middle(frame, next)[side];
  return probe;
}

/** Left and lower border of every cell, and the border of all: every line once, in one trace with gaps. */
const outlineOf = remembered((frame) => {
  const { x: across, y: up } = gridOf(frame);
  const drawn = drawnOf(frame);
  const [right, top] = [across[across.length - 1], up[up.length - 1]];
  const x = [across[0], right, right, null];
  const y = [top, top, up[0], null];
  drawn.low.forEach((low, cell) => {
    const high = drawn.high[cell];
    x.push(low[0], low[0], high[0], null);
    y.push(high[1], low[1], low[1], null);
  });
  return { x, y };
});

/** The cells played, as outlines along the states, broken where the action jumps. */
const policyOf = remembered((frame) => {
  const drawn = drawnOf(frame);
  const outline = { x: [], y: [] };
  let there = [];
  let back = [];
  let before = null;
  const close = () => {
    if (!there.length) return;
    for (const [x, y] of [...there, ...back.reverse(), there[0]]) {
      outline.x.push(x);
      outline.y.push(y);
    }
    outline.x.push(null);
    outline.y.push(null);
    [there, back] = [[], []];
  };
  frame.played.forEach((cell, i) => {
    const [low, high] = [drawn.low[cell][1], drawn.high[cell][1]];
    if (before && (low > before.high || high < before.low)) close();
    there.push([frame.edges[i], high], [frame.edges[i + 1], high]);
    back.push([frame.edges[i], low], [frame.edges[i + 1], low]);
    before = { low, high };
  });
  close();
  return outline;
});

// ---- Partitions: picture

function cellFacts(frame, cell) {
  const [low, high] = [frame.low[cell], frame.high[cell]];
  return [
    `state ${span(low[0], high[0])}`,
    `action ${low[1] < high[1] ? span(low[1], high[1]) : number(low[1])}`,
    `Q ${number(frame.q[cell])}`,
    count(frame.visits[cell], "visit"),
    `depth ${frame.depth[cell]}`,
  ];
}

/** A value of each cell, over the grid. */
function spread(frame, values) {
  return gridOf(frame).owner.map((row) => row.map((cell) => (cell < 0 ? null : values[cell])));
}

const tooltipsOf = remembered((frame) => {
  return spread(frame, frame.q.map((_, cell) => cellFacts(frame, cell).join("<br>")));
});

function log10(visits) {
  return visits > 0 ? Math.log10(visits) : null;
}

function field(title, values) {
  return { title, values, z: remembered((frame) => spread(frame, values(frame))) };
}

/** What the colours can show. */
const FIELDS = {
  q: field("Q", (frame) => frame.q),
  visits: field("visits", (frame) => frame.visits.map(log10)),
  depth: field("depth", (frame) => frame.depth),
};

/** Ranges over all frames of a partition: fixed during a replay, so that frames can be compared.  That of Q is over the
    last frame, which the optimistic Q of the first ones would leave a fraction of the colours. */
const rangesOf = remembered(({ frames }) => {
  const corners = frames.flatMap((frame) => [...frame.low, ...frame.high]);
  const heights = [...corners.map((corner) => corner[1]), ...frames.flatMap((frame) => frame.actions ?? [])];
  const ranges = { x: extent(corners.map((corner) => corner[0])), y: extent(heights) };
  for (const [name, { values }] of Object.entries(FIELDS)) {
    ranges[name] = extent((name === "q" ? frames.slice(-1) : frames).flatMap(values));
  }
  return ranges;
});

function barTicks(name, [low, high]) {
  if (name === "depth") return { dtick: Math.max(1, Math.ceil((high - low) / 8)), tick0: 0 };
  if (name !== "visits") return {};
  const marks = high - low < 2.5 ? [1, 2, 5] : [1];
  const first = Math.floor(low);
  const powers = Array.from({ length: Math.floor(high) - first + 1 }, (_, i) => 10 ** (first + i));
  const visits = powers.flatMap((power) => marks.map((mark) => mark * power));
  return { tickvals: visits.map(Math.log10), ticktext: visits.map((value) => number(value)) };
}

function colourBar(name, range, theme, narrow) {
  const place = narrow
    ? { orientation: "h", x: 0, xanchor: "left", xpad: 0, y: -0.22, yanchor: "top", len: 1 }
    : { orientation: "v", x: 1.01, xanchor: "left", ypad: 0 };
  return {
    ...place, ...barTicks(name, range), thickness: 12, outlinewidth: 0, tickfont: { size: 12, color: theme.quiet },
    title: { text: FIELDS[name].title, font: { size: 13, color: theme.quiet }, side: narrow ? "top" : "right" },
    separatethousands: true,
  };
}

const lines = (outline, colour, width) => ({
  type: "scatter", mode: "lines", ...outline, line: { color: colour, width, simplify: false },
  hoverinfo: "skip", showlegend: false,
});

function boxOf(frame, cell) {
  if (cell < 0) return { x: [null], y: [null] };
  const [low, high] = [drawnOf(frame).low[cell], drawnOf(frame).high[cell]];
  return { x: [low[0], high[0], high[0], low[0], low[0]], y: [low[1], low[1], high[1], high[1], low[1]] };
}

function mosaicTraces(partition, frame, theme, narrow) {
  const { x, y } = gridOf(frame);
  const range = rangesOf(partition)[state.field];
  const selected = boxOf(frame, state.cursor ? cellAt(frame, state.cursor) : -1);
  const thin = Math.min(1, Math.max(0.3, 14 / Math.sqrt(frame.q.length)));
  return [
    {
      type: "heatmap", x, y, z: FIELDS[state.field].z(frame),
      text: tooltipsOf(frame), hovertemplate: "%{text}<extra></extra>",
      colorscale: "Viridis", zmin: range[0], zmax: range[1], colorbar: colourBar(state.field, range, theme, narrow),
    },
    lines(outlineOf(frame), "rgba(255,255,255,0.6)", thin),
    lines(policyOf(frame), "#ffffff", 4),
    lines(policyOf(frame), POLICY_RED, 2),
    lines(selected, "#ffffff", 5),
    lines(selected, "#000000", 2),
  ];
}

function mosaicLayout(partition) {
  const ranges = rangesOf(partition);
  const { axis, ...screen } = screenLayout(`${state.case} ${state.partition}`); // a zoom stays over a replay
  const side = (title, range) => ({ ...axis, title: { text: title }, range, showgrid: false, ticks: "outside", ticklen: 4 });
  return {
    ...screen,
    plot_bgcolor: currentTheme().empty,
    xaxis: side("state", ranges.x),
    yaxis: side("action", ranges.y),
    hovermode: "closest",
    showlegend: false,
  };
}

const picture = byId("picture");
const partitionNow = () => page.cases[state.case].growth[state.partition];
const frameNow = () => partitionNow().frames[state.frame];

function drawPicture() {
  if (byId("mosaic").hidden) return Promise.resolve();
  const first = !mosaicView.drawn;
  mosaicView.drawn = true;
  fit(picture, (width) => Math.round(Math.min(520, Math.max(340, width * 0.62))));
  const narrow = picture.clientWidth < 520;
  const theme = currentTheme();
  const partition = partitionNow();
  const traces = mosaicTraces(partition, frameNow(), theme, narrow);
  const drawn = Plotly.react(picture, traces, mosaicLayout(partition), CONFIG);
  if (first) listenToPicture(); // Plotly has given it its events only now
  return drawn;
}

const mosaicView = { drawn: false, draw: drawPicture };
const mosaicNumbers = numbersView(byId("mosaic").querySelector(".numbers"), () => mosaicRows(frameNow()));

let waiting = false;

/** Draw the picture once before the next frame of the screen, however often it was asked for. */
function drawPictureSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawPicture();
  });
}

// ---- Partitions: controls

function showCell() {
  const frame = frameNow();
  const cell = state.looked ? cellAt(frame, state.looked) : -1;
  byId("cell").textContent = cell < 0 ? HINT : cellFacts(frame, cell).join(", ");
}

function showMoment() {
  const { iterations, frames } = partitionNow();
  const [now, last] = [iterations[state.frame], iterations.at(-1)].map((i) => i.toLocaleString("en"));
  const text = `iteration ${now} of ${last}, ${count(frames[state.frame].q.length, "cell")}`;
  const slider = byId("moment");
  slider.max = frames.length - 1;
  slider.value = state.frame;
  slider.setAttribute("aria-valuetext", text);
  byId("when").textContent = text;
  showCell();
  mosaicNumbers.refresh();
}

function goToFrame(frame) {
  state.frame = frame;
  showMoment();
  drawPictureSoon();
}

function lookAt(point, select) {
  state.looked = point;
  if (select) {
    state.cursor = point;
    drawPictureSoon();
  }
  showCell();
}

function setPlaying(playing) {
  clearInterval(state.timer);
  state.timer = playing ? setInterval(playOn, FRAME_PAUSE) : null;
  byId("play").textContent = playing ? "Pause" : "Play";
  // A screen reader is told where the replay stops, not every frame of it.
  for (const id of ["when", "cell"]) byId(id).setAttribute("aria-live", playing ? "off" : "polite");
}

function playOn() {
  const last = partitionNow().frames.length - 1;
  goToFrame(Math.min(state.frame + 1, last));
  if (state.frame === last) setPlaying(false);
}

function togglePlay() {
  if (state.timer !== null) return setPlaying(false);
  if (state.frame === partitionNow().frames.length - 1) goToFrame(0);
  setPlaying(true);
}

function showPartition(index) {
  setPlaying(false);
  const partition = page.cases[state.case].growth[index];
  Object.assign(state, { partition: index, frame: partition.frames.length - 1, cursor: null, looked: null });
  byId("partition-title").textContent = `How the partition grew: ${partition.label}`;
  byId("partition-note").textContent = partition.note;
  byId("partition-note").hidden = !partition.note;
  showMoment();
}

/** Fill the chooser of partitions, and keep to the label chosen before where the case has it too. */
function showPartitions() {
  const chooser = byId("partition");
  const label = chooser.selectedOptions[0]?.textContent;
  const partitions = page.cases[state.case].growth;
  const options = partitions.map((partition, i) => Object.assign(make("option", "", partition.label), { value: i }));
  chooser.replaceChildren(...options);
  byId("mosaic").hidden = partitions.length === 0;
  if (partitions.length === 0) return setPlaying(false);
  const index = Math.max(0, partitions.findIndex((partition) => partition.label === label));
  chooser.value = index;
  showPartition(index);
}

const STEPS = { ArrowLeft: [0, false], ArrowRight: [0, true], ArrowDown: [1, false], ArrowUp: [1, true] };

function onArrow(event) {
  const step = STEPS[event.key];
  if (!step || event.target !== picture || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const frame = frameNow();
  state.byKeys = true;
  lookAt(neighbour(frame, state.cursor ?? startPoint(frame), ...step), true);
}

/** The middle of the grid box that an event of Plotly points at, or null. */
function pointOf(event) {
  const at = event.points.find((point) => point.data.type === "heatmap")?.pointNumber;
  if (!at) return null;
  const { x, y } = gridOf(frameNow());
  return [(x[at[1]] + x[at[1] + 1]) / 2, (y[at[0]] + y[at[0] + 1]) / 2];
}

function listenToPicture() {
  picture.on("plotly_hover", (event) => {
    const point = pointOf(event);
    if (point && !state.byKeys) lookAt(point, false);
  });
  picture.on("plotly_click", (event) => {
    const point = pointOf(event);
    if (point) lookAt(point, true);
    picture.focus({ preventScroll: true });
  });
}

/** After a redraw Plotly hovers again though the mouse rests: only a mouse that moves takes over from the keys. */
function onMouse(event) {
  if (event.movementX !== 0 || event.movementY !== 0) state.byKeys = false;
}

function onPictureFocus() {
  if (!state.cursor && picture.matches(":focus-visible")) lookAt(state.looked ?? startPoint(frameNow()), true);
}
