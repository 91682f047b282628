/*
 * Charts of a page: the figures in its data, drawn by Plotly in the theme's colours and to the width of their column.
 * Part of one program; see base.js.
 */

const CONFIG = {
  displaylogo: false,
  responsive: true,
  displayModeBar: matchMedia("(hover: none)").matches ? false : "hover", // without a mouse it would never go
  modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  doubleClick: "reset",
  showTips: false,
};
const MARGIN = { l: 56, r: 28, t: CONFIG.displayModeBar ? 30 : 12, b: 48 }; // room for Plotly's buttons
const LEGEND_ROW = 29; // pixels
const PRINT_WIDTH = 640; // pixels: what A4 and Letter both have room for

/** A copy with the colours of the theme: in the dark, each colour is exchanged for its lighter one. */
function recolour(value, key = "") {
  if (currentTheme().name === "light") return value;
  if (typeof value === "string" && (key === "color" || key === "fillcolor")) {
    return (page.dark[value.slice(0, 7)] ?? value.slice(0, 7)) + value.slice(7);
  }
  if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((item) => recolour(item)) : value;
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, recolour(item, name)]));
}

/** What all charts have in common, in the colours of the theme. */
function templateOf({ paper, ink, quiet, line, edge }) {
  const axis = {
    automargin: true, color: quiet, gridcolor: line, linecolor: edge, zeroline: false, exponentformat: "none",
    separatethousands: true, tickfont: { size: 12 }, title: { font: { size: 13, color: quiet }, standoff: 8 },
  };
  const font = { family: FONT, size: 13, color: ink };
  return {
    layout: {
      paper_bgcolor: paper, plot_bgcolor: paper, font, showlegend: true,
      xaxis: { ...axis, showline: true, ticks: "outside", ticklen: 4 },
      yaxis: axis,
      legend: {
        orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom",
        font: { size: 12.5 }, bgcolor: "rgba(0,0,0,0)",
      },
      hoverlabel: { bgcolor: paper, bordercolor: edge, font, namelength: -1, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: ink },
    },
  };
}

/** What every layout gets that depends on the reader's screen. */
function screenLayout(revision) {
  const fixedrange = coarsePointer.matches;
  return {
    template: templateOf(currentTheme()),
    autosize: true,
    margin: MARGIN,
    dragmode: fixedrange ? false : "zoom", // on a touch screen a drag scrolls the page
    uirevision: revision,
    axis: { fixedrange },
  };
}

function chartLayout({ layout }, width, revision) {
  const { axis, ...screen } = screenLayout(revision);
  const names = layout.xaxis.ticktext;
  return {
    ...screen,
    ...layout,
    shapes: recolour(layout.shapes),
    xaxis: { ...layout.xaxis, ...axis, ...(names && { tickangle: crowded(names, width) ? -40 : 0 }) },
    yaxis: { ...layout.yaxis, ...axis },
  };
}

const longest = (names) => Math.max(...names.map((name) => name.length));

/** Whether the names of a category axis do not fit beside each other. */
function crowded(names, width) {
  return 8 * longest(names) > (width - MARGIN.l - MARGIN.r) / names.length;
}

/** Rows that the legend will take, by the usual width of a letter. */
function legendRows({ data, layout }, width) {
  const names = [...data, ...layout.shapes].filter((part) => part.showlegend).map((part) => part.name);
  const room = width - MARGIN.l - MARGIN.r;
  let [rows, used] = [1, 0];
  for (const name of names) {
    const wanted = 45 + 6.6 * name.length;
    if (used > 0 && used + wanted > room) [rows, used] = [rows + 1, 0];
    used += wanted;
  }
  return rows;
}

function chartHeight(chart, width) {
  const names = chart.layout.xaxis.ticktext;
  const slanted = names && crowded(names, width) ? Math.min(160, 5 * longest(names)) : 0;
  return Math.round(Math.min(340, Math.max(270, width * 0.6)) + LEGEND_ROW * legendRows(chart, width) + slanted);
}

/** Give a plot its size: the column's on screen, the paper's in print. */
function fit(plot, height) {
  plot.style.width = printing ? `${PRINT_WIDTH}px` : "";
  plot.style.height = `${height(plot.clientWidth)}px`;
}

/** The numbers of a figure: its traces, whose meta is the name and whose customdata are the label of x
    and the ends of the interval. */
function figureRows({ columns, data, levels }) {
  const body = data.filter((trace) => trace.customdata).flatMap(({ meta, y, customdata }) =>
    customdata.map(([at, low, high], i) => [meta, at, y[i], low, high]));
  for (const [name, y, low, high] of levels) body.push([name, "all", y, low, high]);
  return { head: columns, body };
}

/** A chart in a <figure>: heading, note, plot and numbers. */
function chartView(figure) {
  const title = make(figure.closest("article, #case-charts") ? "h4" : "h3");
  const heading = figure.closest("article, section")?.querySelector("h2, h3"); // is not repeated
  const note = make("p", "note");
  const plot = make("div", "plot");
  const details = make("details", "numbers");
  const caption = make("figcaption");
  caption.append(title, note);
  details.append(make("summary", "", "Show the numbers"));
  figure.append(caption, plot, details);
  plot.setAttribute("role", "group");

  const view = { figure, chart: null, drawn: false, revision: 0 };
  const numbers = numbersView(details, () => figureRows(view.chart));
  view.show = (chart) => {
    view.chart = chart;
    view.revision += 1;
    title.textContent = chart.title;
    title.hidden = chart.title === heading?.textContent;
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
    return Plotly.react(plot, recolour(chart.data), chartLayout(chart, plot.clientWidth, view.revision), CONFIG);
  };
  views.push(view);
  watchWidth(plot, view);
  return view;
}

/** The charts of the sections, each drawn when the reader comes near it. */
function drawWhenNear() {
  const waiting = new Map();
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      const view = waiting.get(target);
      if (!view.drawn) view.draw();
    }
  }, { rootMargin: "400px" });
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const view = chartView(figure);
    view.show(page.charts[Number(figure.dataset.chart)]);
    waiting.set(figure, view);
    near.observe(figure);
  }
}
