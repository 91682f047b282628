/*
 * What all pages share: texts and numbers, light and dark, print, and the numbers behind a chart.
 *
 * The scripts of a page are one program: the page joins them in order inside one function, this one first.  The text
 * and tables of a page are static HTML; the scripts read the JSON in #data and draw.  Three rules hold everywhere:
 *   - a string of the data is plain text: it reaches the page through textContent;
 *   - all that can be seen is a function of some state: handlers change it and call a draw function;
 *   - what is drawn is a "view" in `views` with draw(), so that a new theme, a new width or the printer redraws
 *     everything alike.
 */

const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const page = JSON.parse(byId("data").textContent);
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
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const coarsePointer = matchMedia("(pointer: coarse)");
const views = [];
let printing = false;

// ---- Small things

function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.textContent = text;
  return node;
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
  if (printing) return THEMES.light;
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

// ---- Colours, print

function redraw() {
  return Promise.all(views.filter((view) => view.drawn).map((view) => view.draw()));
}

/** Draw every view now, also those the reader has not reached. */
function drawAll() {
  return Promise.all(views.map((view) => view.draw()));
}

/** Redraw a view when the width of its plot changes. */
function watchWidth(plot, view) {
  let width = null;
  new ResizeObserver(() => {
    const changed = width !== null && width !== plot.clientWidth;
    width = plot.clientWidth;
    if (changed && view.drawn && !printing) view.draw();
  }).observe(plot);
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

function setPrinting(now) {
  if (printing === now) return;
  printing = now;
  if (printing) drawAll();
  else redraw();
}

function startPrint() {
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
  matchMedia("print").addEventListener("change", (event) => setPrinting(event.matches));
}
