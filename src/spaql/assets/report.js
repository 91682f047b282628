/*
 * Draws the charts of a report and answers its controls.
 *
 * The words and tables of the page are static HTML; this script reads the JSON in #data and draws with Plotly, which is
 * loaded before it.  Three rules hold everywhere:
 *   - a string of the data is plain text: it reaches the page through textContent, and Plotly through plain();
 *   - all that can be seen is a function of `state`: handlers change it and call a draw function;
 *   - a chart is a "view" with draw(), so that a new theme, a new width or the printer redraws everything alike.
 */
(() => {
  "use strict";

  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const { problems, findings } = JSON.parse(byId("data").textContent);

  const FONT = getComputedStyle(root).getPropertyValue("--plain");
  const THEMES = {
    light: {
      name: "light", paper: "#ffffff", ink: "#1d1f21", quiet: "#565b61",
      line: "#e4e4e1", edge: "#85898e", empty: "#d9d9d9",
    },
    dark: {
      name: "dark", paper: "#16181b", ink: "#e8e6e3", quiet: "#a9adb3",
      line: "#30343a", edge: "#7d828a", empty: "#4a4e55",
    },
  };
  const THEME_NAMES = { auto: "automatic", light: "light", dark: "dark" };
  const CONFIG = {
    displaylogo: false,
    responsive: true,
    displayModeBar: matchMedia("(hover: none)").matches ? false : "hover", // without a mouse it would never go
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
    doubleClick: "reset",
    showTips: false,
  };
  const DASHED = "5px,3px";
  const DODGE = 0.02; // points at one x stand this share of the axis apart,
  const CROWDED = 0.6; // or of the gap to the next x where that is narrower
  const MARGIN = { l: 56, r: 28, t: CONFIG.displayModeBar ? 30 : 12, b: 48 }; // room for Plotly's buttons
  const LEGEND_ROW = 29; // pixels
  const POLICY_RED = "#e3120b";
  const PRINT_WIDTH = 640; // pixels: what A4 and Letter both have room for
  const FRAME_PAUSE = 150; // milliseconds between two frames of a replay
  const HINT = "Point at a cell, tap it, or move from cell to cell with the arrow keys.";

  const darkSystem = matchMedia("(prefers-color-scheme: dark)");
  const coarsePointer = matchMedia("(pointer: coarse)");
  const views = [];
  const state = {
    problem: 0,
    axis: "iterations",
    partition: 0,
    frame: 0,
    field: "q",
    cursor: null, // the point [state, action] that the arrow keys move, or null
    looked: null, // the point last pointed at or moved to, or null
    byKeys: false, // whether the arrow keys moved last, and not the mouse
    timer: null, // of the replay, or null
    printing: false,
  };

  // ---- Small helpers

  function make(tag, className = "", text = "") {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.textContent = text;
    return node;
  }

  /** Text for Plotly, which reads tags and entities in every string it shows. */
  function plain(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  const formats = new Map();

  function number(value, digits = 4) {
    if (value === null || value === undefined) return "none";
    if (!formats.has(digits)) formats.set(digits, new Intl.NumberFormat("en", { maximumSignificantDigits: digits }));
    return formats.get(digits).format(value);
  }

  /** "0.5 to 0.75", with as many decimals as tell the two ends apart. */
  function span(low, high) {
    const decimals = Math.min(15, Math.max(4, 1 + Math.ceil(-Math.log10(high - low))));
    const short = (value) => String(Number(value.toFixed(decimals)));
    return `${short(low)} to ${short(high)}`;
  }

  function count(n, noun) {
    return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  }

  function extent(values) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) {
      if (value === null || value === undefined) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (low > high) return [0, 1];
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  }

  function fade(colour, alpha) {
    const channel = (at) => parseInt(colour.slice(at, at + 2), 16);
    return `rgba(${channel(1)},${channel(3)},${channel(5)},${alpha})`;
  }

  const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);

  /** What `compute` returns for an object, computed once. */
  function remembered(compute) {
    const known = new WeakMap();
    return (key) => {
      if (!known.has(key)) known.set(key, compute(key));
      return known.get(key);
    };
  }

  function currentTheme() {
    if (state.printing) return THEMES.light;
    const chosen = root.dataset.theme;
    return THEMES[chosen === "auto" ? (darkSystem.matches ? "dark" : "light") : chosen];
  }

  // ---- The numbers behind a chart

  /** A <details> whose table is built when it is opened; `rows` gives the head and the body. */
  function numbersView(details, rows) {
    const fill = () => {
      details.querySelector(".scroll")?.remove();
      if (details.open) details.append(numbersTable(rows()));
    };
    details.addEventListener("toggle", fill);
    return { refresh: fill };
  }

  function numbersTable({ head, body }) {
    const table = make("table");
    const heads = table.createTHead().insertRow();
    for (const name of head) heads.append(Object.assign(make("th", "", name), { scope: "col" }));
    const rows = table.createTBody();
    for (const values of body) {
      const row = rows.insertRow();
      for (const value of values) row.insertCell().textContent = value ?? "";
    }
    const box = make("div", "scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "The numbers");
    box.append(table);
    return box;
  }

  function chartRows(chart) {
    const body = [];
    for (const { name, x, y, low, high } of chart.series) {
      x.forEach((at, i) => body.push([name, at, y[i], low?.[i], high?.[i]]));
    }
    for (const { name, y, low, high } of chart.levels) body.push([name, "all", y, low, high]);
    return { head: ["series", chart.x_label, chart.y_label, "low", "high"], body };
  }

  function mosaicRows(frame) {
    const body = frame.q.map((q, i) => [
      frame.low[i][0], frame.high[i][0], frame.low[i][1], frame.high[i][1], q, frame.visits[i], frame.depth[i],
    ]);
    return { head: ["state from", "state to", "action from", "action to", "Q", "visits", "depth"], body };
  }

  // ---- From a chart to Plotly's traces and layout

  const colourOf = (part, { name }) => part.look[name];

  /** The names of a category axis, in the order of their first appearance; null for a numeric axis. */
  function categoriesOf(chart) {
    return chart.x_scale === "category" ? [...new Set(chart.series.flatMap((series) => series.x))] : null;
  }

  /** A chart with numbers along x: names become places, and points of several series at one x stand side by side. */
  function placed(chart, categories) {
    const series = chart.series.map((one) => (categories ? byPlace(one, categories) : { ...one, at: one.x }));
    const beside = series.filter((one) => one.style === "points" && one.x.length);
    const every = sorted(beside.flatMap((one) => one.at));
    if (beside.reduce((total, one) => total + new Set(one.at).size, 0) === every.length) return series;
    const seen = chart.x_scale === "log" ? every.map(Math.log10) : every;
    const extent = categories ? categories.length : seen[seen.length - 1] - seen[0] || 1;
    const gap = Math.min(...seen.slice(1).map((value, i) => value - seen[i]), categories ? 1 : extent);
    const step = Math.min(DODGE * extent, (CROWDED * gap) / beside.length);
    beside.forEach((one, i) => {
      const shift = step * (i - (beside.length - 1) / 2);
      one.at = one.at.map((x) => (chart.x_scale === "log" ? x * 10 ** shift : x + shift));
    });
    return series;
  }

  /** A series over names, sorted by the order of the names on the axis, `at` being their places. */
  function byPlace(series, categories) {
    const places = series.x.map((name) => categories.indexOf(name));
    const order = places.map((_, i) => i).sort((i, j) => places[i] - places[j]);
    const pick = (values) => values && order.map((i) => values[i]);
    const [x, y, low, high] = [series.x, series.y, series.low, series.high].map(pick);
    return { ...series, at: pick(places), x, y, low, high };
  }

  function intervalText(series, i) {
    const value = number(series.y[i]);
    if (!series.low || series.low[i] === null) return value;
    return `${value} [${number(series.low[i])}, ${number(series.high[i])}]`;
  }

  function pointTexts(chart, series, unified) {
    return series.x.map((x, i) => {
      if (unified) return intervalText(series, i);
      const where = typeof x === "string" ? plain(x) : `${plain(chart.x_label)} ${number(x, 6)}`;
      return `${where}<br>${plain(series.name)}: ${intervalText(series, i)}`;
    });
  }

  /** The area between low and high: one closed outline for each stretch without gaps. */
  function bandTrace(series, common, colour) {
    const outline = { x: [], y: [] };
    let stretch = [];
    const close = () => {
      const back = [...stretch].reverse();
      outline.x.push(...stretch.map((i) => series.at[i]), ...back.map((i) => series.at[i]), null);
      outline.y.push(...stretch.map((i) => series.high[i]), ...back.map((i) => series.low[i]), null);
      stretch = [];
    };
    series.at.forEach((_, i) => {
      if (series.low[i] !== null && series.high[i] !== null) stretch.push(i);
      else if (stretch.length) close();
    });
    if (stretch.length) close();
    return {
      ...common, ...outline, mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: fade(colour, 0.2),
      hoverinfo: "skip", showlegend: false,
    };
  }

  function errorBars(series, colour) {
    const distance = (ends) => series.y.map((y, i) => (y === null || ends[i] === null ? null : Math.abs(ends[i] - y)));
    return {
      type: "data", symmetric: false, array: distance(series.high), arrayminus: distance(series.low),
      color: colour, thickness: 1.5, width: 4,
    };
  }

  /** A series as one trace, or as two where a line has a band. */
  function seriesTraces(series, trace, colour) {
    const { symbol, dash: usual } = series.look;
    if (series.style === "points") {
      const marker = { color: colour, size: 8, symbol };
      return [{ ...trace, mode: "markers", marker, ...(series.low && { error_y: errorBars(series, colour) }) }];
    }
    const dash = series.style === "dashed" ? DASHED : usual;
    const mode = series.y.length === 1 ? "lines+markers" : "lines"; // a line of one point cannot be seen
    const line = { ...trace, mode, line: { color: colour, width: 2, dash } };
    const { type, name, legendgroup } = trace;
    return series.low ? [bandTrace(series, { type, name, legendgroup }, colour), line] : [line];
  }

  function chartTraces(chart, theme, { categories, unified }) {
    const named = new Set();
    return placed(chart, categories).flatMap((series) => {
      const trace = {
        type: "scatter", x: series.at, y: series.y,
        name: plain(series.name), legendgroup: `series ${series.name}`,
        showlegend: series.name !== "" && !named.has(series.name),
        customdata: pointTexts(chart, series, unified),
        hovertemplate: unified ? "%{customdata}" : "%{customdata}<extra></extra>",
      };
      named.add(series.name);
      return seriesTraces(series, trace, colourOf(series, theme));
    });
  }

  function levelName(level) {
    const value = number(level.y);
    return level.name.includes(value) ? level.name : `${level.name} ${value}`;
  }

  function levelShapes(level, index, theme) {
    const colour = colourOf(level, theme);
    const common = { xref: "paper", x0: 0, x1: 1, legendgroup: `level ${index}`, layer: "below" };
    const line = {
      ...common, type: "line", y0: level.y, y1: level.y, layer: "above",
      line: { color: colour, width: 1.4, dash: DASHED }, name: plain(levelName(level)), showlegend: true,
    };
    if (level.low === null || level.high === null) return [line];
    const range = { type: "rect", y0: level.low, y1: level.high, fillcolor: fade(colour, 0.15), line: { width: 0 } };
    return [{ ...common, ...range }, line];
  }

  function axis(theme, title) {
    return {
      title: { text: title, font: { size: 13, color: theme.quiet }, standoff: 8 },
      automargin: true,
      color: theme.quiet,
      gridcolor: theme.line,
      linecolor: theme.edge,
      tickfont: { size: 12 },
      exponentformat: "none",
      separatethousands: true,
      zeroline: false,
      fixedrange: coarsePointer.matches,
    };
  }

  function baseLayout(theme) {
    const font = { family: FONT, size: 13, color: theme.ink };
    return {
      autosize: true,
      paper_bgcolor: theme.paper,
      plot_bgcolor: theme.paper,
      font,
      hoverlabel: { bgcolor: theme.paper, bordercolor: theme.edge, font, namelength: -1, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: theme.quiet, activecolor: theme.ink },
      dragmode: coarsePointer.matches ? false : "zoom", // on a touch screen a drag scrolls the page
    };
  }

  function xAxis(chart, theme, categories, width) {
    const slant = categories && crowded(categories, width) ? -40 : 0;
    const ticks = categories && {
      tickvals: categories.map((_, i) => i), ticktext: categories.map(plain), tickangle: slant,
      range: [-0.6, categories.length - 0.4],
    };
    return {
      ...axis(theme, plain(chart.x_label)),
      type: chart.x_scale === "log" ? "log" : "linear",
      showgrid: chart.x_scale === "log",
      showline: true,
      ticks: "outside",
      ticklen: 4,
      hoverformat: ",.6~r",
      ...ticks,
    };
  }

  /** From the lowest to the highest thing drawn, and a little more, so that no line lies on the frame. */
  function yRange(chart) {
    const values = [...chart.series, ...chart.levels].flatMap(({ y, low, high }) => [y, low, high].flat());
    const [low, high] = extent(values);
    return [low - 0.05 * (high - low), high + 0.05 * (high - low)];
  }

  function chartLayout(chart, theme, { categories, unified, revision, width }) {
    return {
      ...baseLayout(theme),
      margin: MARGIN,
      xaxis: xAxis(chart, theme, categories, width),
      yaxis: { ...axis(theme, plain(chart.y_label)), range: yRange(chart) },
      shapes: chart.levels.flatMap((level, index) => (level.y === null ? [] : levelShapes(level, index, theme))),
      showlegend: true,
      legend: {
        orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom",
        font: { size: 12.5 }, bgcolor: "rgba(0,0,0,0)",
      },
      hovermode: unified ? "x unified" : "closest",
      uirevision: revision,
    };
  }

  /** Rows that the legend will take, by the usual width of a letter. */
  function legendRows(chart, width) {
    const names = new Set([...chart.series.map((series) => series.name), ...chart.levels.map(levelName)]);
    const room = width - MARGIN.l - MARGIN.r;
    let [rows, used] = [1, 0];
    for (const name of names) {
      const wanted = 45 + 6.6 * name.length;
      if (used > 0 && used + wanted > room) [rows, used] = [rows + 1, 0];
      used += wanted;
    }
    return rows;
  }

  const longest = (names) => Math.max(...names.map((name) => name.length));

  /** Whether the names of a category axis do not fit beside each other. */
  function crowded(categories, width) {
    return 8 * longest(categories) > (width - MARGIN.l - MARGIN.r) / categories.length;
  }

  function chartHeight(chart, width) {
    const categories = categoriesOf(chart);
    const slanted = categories && crowded(categories, width) ? Math.min(160, 5 * longest(categories)) : 0;
    return Math.round(Math.min(340, Math.max(270, width * 0.6)) + LEGEND_ROW * legendRows(chart, width) + slanted);
  }

  // ---- Views

  /** Give a plot its size: the column's on screen, the paper's in print. */
  function fit(plot, height) {
    plot.style.width = state.printing ? `${PRINT_WIDTH}px` : "";
    plot.style.height = `${height(plot.clientWidth)}px`;
  }

  /** Redraw a view when the width of its plot changes. */
  function watchWidth(plot, view) {
    let width = null;
    new ResizeObserver(() => {
      const changed = width !== null && width !== plot.clientWidth;
      width = plot.clientWidth;
      if (changed && view.drawn && !state.printing) view.draw();
    }).observe(plot);
  }

  /** A chart in a <figure>: heading, note, plot and numbers. */
  function chartView(figure) {
    const title = make("h4");
    const note = make("p", "note");
    const plot = make("div", "plot");
    const details = make("details", "numbers");
    const caption = make("figcaption");
    caption.append(title, note);
    details.append(make("summary", "", "The numbers"));
    figure.append(caption, plot, details);
    plot.setAttribute("role", "group");

    const view = { figure, chart: null, drawn: false, revision: 0 };
    const numbers = numbersView(details, () => chartRows(view.chart));
    view.show = (chart) => {
      view.chart = chart;
      view.revision += 1;
      title.textContent = chart.title;
      note.textContent = chart.note;
      note.hidden = !chart.note;
      plot.setAttribute("aria-label", `Chart: ${chart.title}. The numbers follow it as a table.`);
      numbers.refresh();
    };
    view.draw = () => {
      const { chart } = view;
      if (!chart || figure.hidden) return Promise.resolve();
      view.drawn = true;
      fit(plot, (width) => chartHeight(chart, width));
      const theme = currentTheme();
      const categories = categoriesOf(chart);
      const unified = !categories && chart.series.some((series) => series.style !== "points");
      const setting = { categories, unified, revision: view.revision, width: plot.clientWidth };
      return Plotly.react(plot, chartTraces(chart, theme, setting), chartLayout(chart, theme, setting), CONFIG);
    };
    views.push(view);
    watchWidth(plot, view);
    return view;
  }

  function redraw() {
    return Promise.all(views.filter((view) => view.drawn).map((view) => view.draw()));
  }

  /** Draw every view now, also those the reader has not reached. */
  function drawAll() {
    return Promise.all(views.map((view) => view.draw()));
  }

  // ---- Partitions: geometry

  /** A frame on the grid of all edges of its cells: `owner[row][column]` is the cell there. */
  const gridOf = remembered((frame) => {
    const corners = [...frame.low, ...frame.high];
    const x = sorted(corners.map((corner) => corner[0]));
    const y = sorted(corners.map((corner) => corner[1]));
    const column = new Map(x.map((value, i) => [value, i]));
    const row = new Map(y.map((value, i) => [value, i]));
    const owner = y.slice(1).map(() => new Array(x.length - 1).fill(-1));
    frame.low.forEach((low, cell) => {
      const high = frame.high[cell];
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
    return [0, 1].map((side) => (frame.low[cell][side] + frame.high[cell][side]) / 2);
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
    const edges = side === 0 ? gridOf(frame).x : gridOf(frame).y;
    const border = forward ? frame.high[cell][side] : frame.low[cell][side];
    if (border === edges[forward ? edges.length - 1 : 0]) return point;
    const at = edges.indexOf(border);
    const probe = [...point];
    probe[side] = forward ? border : edges[at - 1];
    const next = cellAt(frame, probe);
    if (next < 0) return point;
    probe[side] = middle(frame, next)[side];
    return probe;
  }

  /** Left and lower border of every cell, and the border of all: every line once, in one trace with gaps. */
  const outlineOf = remembered((frame) => {
    const { x: across, y: up } = gridOf(frame);
    const [right, top] = [across[across.length - 1], up[up.length - 1]];
    const x = [across[0], right, right, null];
    const y = [top, top, up[0], null];
    frame.low.forEach((low, cell) => {
      const high = frame.high[cell];
      x.push(low[0], low[0], high[0], null);
      y.push(high[1], low[1], low[1], null);
    });
    return { x, y };
  });

  /** The cells played, as outlines along the states, broken where the action jumps. */
  const policyOf = remembered((frame) => {
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
      const [low, high] = [frame.low[cell][1], frame.high[cell][1]];
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
      `action ${span(low[1], high[1])}`,
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

  /** Ranges over all frames of a partition: fixed during a replay, so that frames can be compared. */
  const rangesOf = remembered(({ frames }) => {
    const corners = frames.flatMap((frame) => [...frame.low, ...frame.high]);
    const ranges = { x: extent(corners.map((corner) => corner[0])), y: extent(corners.map((corner) => corner[1])) };
    for (const [name, { values }] of Object.entries(FIELDS)) ranges[name] = extent(frames.flatMap(values));
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
    const [low, high] = [frame.low[cell], frame.high[cell]];
    return { x: [low[0], high[0], high[0], low[0], low[0]], y: [low[1], low[1], high[1], high[1], low[1]] };
  }

  function mosaicTraces(partition, frame, theme, narrow) {
    const { x, y } = gridOf(frame);
    const range = rangesOf(partition)[state.field];
    const selected = state.cursor ? boxOf(frame, cellAt(frame, state.cursor)) : { x: [null], y: [null] };
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

  function mosaicLayout(partition, theme) {
    const ranges = rangesOf(partition);
    const side = (title, range) => ({ ...axis(theme, title), range, showgrid: false, ticks: "outside", ticklen: 4 });
    return {
      ...baseLayout(theme),
      plot_bgcolor: theme.empty,
      margin: MARGIN,
      xaxis: side("state", ranges.x),
      yaxis: side("action", ranges.y),
      hovermode: "closest",
      uirevision: `${state.problem} ${state.partition}`, // a zoom stays over a replay
    };
  }

  const picture = byId("picture");
  const partitionNow = () => problems[state.problem].partitions[state.partition];
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
    const drawn = Plotly.react(picture, traces, mosaicLayout(partition, theme), CONFIG);
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
    const partition = problems[state.problem].partitions[index];
    Object.assign(state, { partition: index, frame: partition.frames.length - 1, cursor: null, looked: null });
    byId("partition-title").textContent = `How the partition grew: ${partition.label}`;
    byId("partition-note").textContent = partition.note;
    byId("partition-note").hidden = !partition.note;
    showMoment();
  }

  /** Fill the chooser of partitions, and keep to the label chosen before where the problem has it too. */
  function showPartitions() {
    const chooser = byId("partition");
    const label = chooser.selectedOptions[0]?.textContent;
    const { partitions } = problems[state.problem];
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

  // ---- One problem at a time

  function problemViews() {
    return { reward: chartView(byId("reward")), arms: chartView(byId("arms")), scaling: chartView(byId("scaling")) };
  }

  function showCurves(parts) {
    const { charts } = problems[state.problem];
    parts.reward.show(charts.reward[state.axis]);
    parts.arms.show(charts.arms[state.axis]);
  }

  function showProblem(parts) {
    const problem = problems[state.problem];
    byId("problem").value = problem.id;
    byId("name").textContent = problem.name;
    byId("summary").textContent = problem.summary;
    byId("scaling").hidden = !problem.charts.scaling;
    if (problem.charts.scaling) parts.scaling.show(problem.charts.scaling);
    showCurves(parts);
    showPartitions();
    return Promise.all([...Object.values(parts).map((view) => view.draw()), drawPicture()]);
  }

  function showAxis(parts) {
    document.querySelector(`input[name="axis"][value="${state.axis}"]`).checked = true;
    showCurves(parts);
    return Promise.all([parts.reward.draw(), parts.arms.draw()]);
  }

  /** Take problem and axis from an address such as #oil-laplace-10&steps; false where it names no problem. */
  function readAddress() {
    const [id, axisName] = location.hash.slice(1).split("&");
    const index = problems.findIndex((problem) => problem.id === id);
    if (index < 0) return false;
    state.problem = index;
    state.axis = axisName === "steps" ? "steps" : "iterations";
    return true;
  }

  function writeAddress() {
    try {
      history.replaceState(null, "", `#${problems[state.problem].id}&${state.axis}`);
    } catch {
      // A viewer that shows the page inside its own may forbid it; all else works.
    }
  }

  function listenToProblem(parts) {
    const choose = (index) => {
      state.problem = (index + problems.length) % problems.length;
      showProblem(parts);
      writeAddress();
    };
    byId("problem").addEventListener("change", (event) => choose(event.target.selectedIndex));
    byId("previous").addEventListener("click", () => choose(state.problem - 1));
    byId("next").addEventListener("click", () => choose(state.problem + 1));
    for (const radio of document.getElementsByName("axis")) {
      radio.addEventListener("change", () => {
        state.axis = radio.value;
        showAxis(parts);
        writeAddress();
      });
    }
    addEventListener("hashchange", () => {
      if (!readAddress()) return;
      showProblem(parts);
      showAxis(parts);
    });
  }

  function listenToPartition() {
    byId("partition").addEventListener("change", (event) => {
      showPartition(event.target.selectedIndex);
      drawPicture();
    });
    byId("colour").addEventListener("change", (event) => {
      state.field = event.target.value;
      drawPicture();
    });
    byId("moment").addEventListener("input", (event) => {
      setPlaying(false);
      goToFrame(Number(event.target.value));
    });
    byId("play").addEventListener("click", togglePlay);
    picture.addEventListener("keydown", onArrow);
    picture.addEventListener("mousemove", onMouse, { capture: true });
    picture.addEventListener("focus", onPictureFocus);
  }

  async function startProblems() {
    if (problems.length === 0) {
      byId("problems").hidden = true;
      return;
    }
    const named = readAddress();
    const parts = problemViews();
    views.push(mosaicView);
    document.querySelector(`input[name="axis"][value="${state.axis}"]`).checked = true;
    byId("colour").value = state.field; // a browser may restore what the form held before a reload
    const drawn = showProblem(parts);
    listenToProblem(parts);
    listenToPartition();
    await drawn;
    if (named && performance.getEntriesByType("navigation")[0]?.type === "navigate") byId("problems").scrollIntoView();
  }

  // ---- Findings, colours, print

  /** Findings are drawn when the reader comes near them. */
  function startFindings() {
    const waitingViews = new Map();
    const near = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        const view = waitingViews.get(target);
        if (!view.drawn) view.draw();
      }
    }, { rootMargin: "400px" });
    for (const figure of document.querySelectorAll("figure[data-finding]")) {
      const view = chartView(figure);
      view.show(findings[figure.dataset.finding]);
      waitingViews.set(figure, view);
      near.observe(figure);
    }
  }

  function startThemes() {
    const names = Object.keys(THEME_NAMES);
    byId("theme").addEventListener("click", (event) => {
      root.dataset.theme = names[(names.indexOf(root.dataset.theme) + 1) % names.length];
      event.target.textContent = `Colours: ${THEME_NAMES[root.dataset.theme]}`;
      redraw();
    });
    darkSystem.addEventListener("change", redraw);
  }

  function setPrinting(printing) {
    if (state.printing === printing) return;
    state.printing = printing;
    if (printing) drawAll();
    else redraw();
  }

  function startPrint() {
    addEventListener("beforeprint", () => setPrinting(true));
    addEventListener("afterprint", () => setPrinting(false));
    matchMedia("print").addEventListener("change", (event) => setPrinting(event.matches));
  }

  async function start() {
    startThemes();
    startPrint();
    startFindings();
    await startProblems();
    root.dataset.ready = "true";
  }

  start();
})();
