/*
 * Charts of the report: from plain data to Plotly, which is loaded before; text reaches Plotly through plain().
 * Part of one program; see basics.js.
 */

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
const PRINT_WIDTH = 640; // pixels: what A4 and Letter both have room for

/** Text for Plotly, which reads tags and entities in every string it shows. */
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
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
  plot.style.width = printing ? `${PRINT_WIDTH}px` : "";
  plot.style.height = `${height(plot.clientWidth)}px`;
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

/** Charts in the figures that a selector finds, each drawn when the reader comes near it; `chartOf` knows a figure's. */
function drawWhenNear(selector, chartOf) {
  const waiting = new Map();
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      const view = waiting.get(target);
      if (!view.drawn) view.draw();
    }
  }, { rootMargin: "400px" });
  for (const figure of document.querySelectorAll(selector)) {
    const view = chartView(figure);
    view.show(chartOf(figure));
    waiting.set(figure, view);
    near.observe(figure);
  }
}
