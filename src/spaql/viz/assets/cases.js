/*
 * Problems to go through one at a time: the chooser, their charts and their partitions.
 * Part of one program; see base.js.
 */

const caseViews = [];

/** The charts of the case by the unit of its axis; a last one without a neighbour is wide. */
function showCharts() {
  const charts = page.cases[state.case].charts[state.unit];
  const box = byId("case-charts");
  while (caseViews.length < charts.length) {
    const figure = make("figure", "chart");
    figure.id = `case-chart-${caseViews.length}`;
    box.append(figure);
    caseViews.push(chartView(figure));
  }
  caseViews.forEach((view, i) => {
    view.figure.hidden = i >= charts.length;
    view.figure.classList.toggle("wide", i % 2 === 0 && i === charts.length - 1);
    if (i < charts.length) view.show(charts[i]);
  });
  document.querySelector(`input[name="unit"][value="${state.unit}"]`).checked = true;
  return Promise.all(caseViews.map((view) => view.draw()));
}

function showCase() {
  const { id, title, summary } = page.cases[state.case];
  byId("case").value = id;
  byId("case-title").textContent = title;
  byId("case-summary").textContent = summary;
  showPartitions();
  return Promise.all([showCharts(), drawPicture()]);
}

/** The unit of the first choice; the keys of the data are sorted. */
const firstUnit = () => document.querySelector('input[name="unit"]').value;

/** Take case and unit from an address such as #oil-laplace-10&steps; false where it names no case. */
function readAddress() {
  const [id, unit] = decodeURIComponent(location.hash.slice(1)).split("&");
  const index = page.cases.findIndex((given) => given.id === id);
  if (index < 0) return false;
  const units = Object.keys(page.cases[index].charts);
  Object.assign(state, { case: index, unit: units.includes(unit) ? unit : firstUnit() });
  return true;
}

function writeAddress() {
  try {
    history.replaceState(null, "", `#${page.cases[state.case].id}&${state.unit}`);
  } catch {
    // A viewer that shows the page inside its own may forbid it; all else works.
  }
}

function listenToCase() {
  const choose = (index) => {
    state.case = (index + page.cases.length) % page.cases.length;
    showCase();
    writeAddress();
  };
  byId("case").addEventListener("change", (event) => choose(event.target.selectedIndex));
  byId("previous").addEventListener("click", () => choose(state.case - 1));
  byId("next").addEventListener("click", () => choose(state.case + 1));
  for (const radio of document.getElementsByName("unit")) {
    radio.addEventListener("change", () => {
      state.unit = radio.value;
      showCharts();
      writeAddress();
    });
  }
  addEventListener("hashchange", () => {
    if (readAddress()) showCase();
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

async function startCases() {
  state.unit = firstUnit();
  const named = readAddress();
  views.push(mosaicView);
  byId("colour").value = state.field; // a browser may restore what the form held before a reload
  const drawn = showCase();
  listenToCase();
  listenToPartition();
  await drawn;
  const box = byId("case").closest("section");
  if (named && performance.getEntriesByType("navigation")[0]?.type === "navigate") box.scrollIntoView();
}
