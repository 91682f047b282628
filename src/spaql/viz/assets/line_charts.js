/*
 * Charts of lines over one axis, as SVG: small enough for a page without Plotly.
 * Part of one program; see base.js.
 */

const SVG = new DOMParser().parseFromString("<svg></svg>", "text/html").body.firstChild.namespaceURI;
const DASHES = { solid: "", dash: "6 4", dot: "2 3", dashdot: "6 3 2 3" };

function shape(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function lineRows({ x_label: across, y_label: up, series }) {
  const ends = series.some(({ low }) => low) ? ["low", "high"] : [];
  const body = series.flatMap((part) =>
    part.x.map((at, i) => [part.name, at, part.y[i], ...ends.map((end) => part[end]?.[i])]));
  return { head: ["series", across, up, ...ends], body };
}

function drawLines(box, chart, marker) {
  const theme = currentTheme();
  const width = Math.max(240, box.clientWidth);
  const height = Math.round(Math.min(280, Math.max(190, width * 0.5)));
  const values = chart.series.flatMap(({ y, low = [], high = [] }) => [...y, ...low, ...high]);
  const [low, high] = extent(values);
  const [first, last] = extent(chart.series.flatMap((series) => series.x));
  const pad = 0.05 * (high - low);
  const frame = frameOf(width, height, { low: first, high: last }, { low: low - pad, high: high + pad });
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const type = { fill: theme.quiet, "font-size": 12, "font-family": FONT };
  const text = (x, y, anchor, words) => svg.append(shape("text", { x, y, "text-anchor": anchor, ...type }, words));
  const line = (x1, x2, y1, y2, stroke, width = 1) =>
    svg.append(shape("line", { x1, x2, y1, y2, stroke, "stroke-width": width }));
  const up = ticksOf(frame.y.low, frame.y.high, height / 55);
  for (const value of up.ticks) {
    const y = frame.py(value);
    line(frame.left, frame.right, y, y, theme.line);
    text(frame.left - 6, y + 4, "end", up.text(value));
  }
  const across = ticksOf(first, last, width / 110);
  for (const value of across.ticks) {
    const words = across.text(value);
    text(Math.min(frame.px(value), width - 3.6 * words.length), frame.bottom + 17, "middle", words);
  }
  line(frame.left, frame.right, frame.bottom, frame.bottom, theme.edge);
  text((frame.left + frame.right) / 2, height - 10, "middle", chart.x_label);
  for (const { x, y, low: lows, high: highs, points: apart, look } of chart.series) {
    if (apart) {
      x.forEach((at, i) => drawPoint(svg, frame.px(at), ...[y[i], lows[i], highs[i]].map(frame.py), theme.ink));
      continue;
    }
    const points = x.map((at, i) => (y[i] === null ? null : `${frame.px(at).toFixed(1)},${frame.py(y[i]).toFixed(1)}`));
    const path = shape("polyline", {
      points: points.filter((point) => point !== null).join(" "), fill: "none", stroke: look[theme.name],
      "stroke-width": 1.8, "stroke-linejoin": "round", "stroke-dasharray": DASHES[look.dash],
    });
    svg.append(path);
    if (x.length !== 1) continue;
    svg.append(shape("circle", { cx: frame.px(x[0]), cy: frame.py(y[0]), r: 4, fill: look[theme.name] }));
  }
  if (marker !== null) {
    line(frame.px(marker), frame.px(marker), frame.top, frame.bottom, theme.ink, 1.5);
  }
  box.replaceChildren(svg);
}

/** A diamond with its interval: an evaluation. */
function drawPoint(svg, x, y, low, high, ink) {
  const bar = { x1: x, x2: x, y1: low, y2: high, stroke: ink, "stroke-width": 2 };
  const size = 5;
  const points = [[x, y - size], [x + size, y], [x, y + size], [x - size, y]].map((at) => at.join(",")).join(" ");
  svg.append(shape("line", bar), shape("polygon", { points, fill: ink, class: "evaluation" }));
}

/** A chart in a <figure>: heading, note, lines, legend and numbers. */
function linesView(figure) {
  const title = make("h4");
  const note = make("p", "note");
  const box = make("div", "lines");
  const legend = make("ul", "keys");
  const details = make("details", "numbers");
  const caption = make("figcaption");
  caption.append(title, note);
  details.append(make("summary", "", "Show the numbers"));
  figure.append(caption, box, legend, details);
  box.setAttribute("role", "img");
  const view = { figure, chart: null, marker: null, drawn: false };
  const numbers = numbersView(details, () => lineRows(view.chart));
  view.show = (chart) => {
    view.chart = chart;
    title.textContent = chart.title;
    note.textContent = [chart.y_label, chart.note].filter(Boolean).join(". ");
    box.setAttribute("aria-label", `Chart: ${chart.title}, ${chart.y_label}. The numbers follow it as a table.`);
    numbers.refresh();
  };
  view.draw = () => {
    if (!view.chart || figure.hidden) return;
    view.drawn = true;
    drawLines(box, view.chart, view.marker);
    legend.hidden = view.chart.series.length < 2;
    legend.replaceChildren(...view.chart.series.map(({ name, look, points }) => {
      const item = make("li");
      const patch = make("span", points ? "diamond" : "swatch");
      if (!points) patch.style.background = look[currentTheme().name];
      item.append(patch, make("span", "", name));
      return item;
    }));
  };
  views.push(view);
  watchWidth(box, view);
  return view;
}
