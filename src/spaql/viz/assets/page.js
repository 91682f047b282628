/*
 * The page: the chooser of problems, the findings, and the start of it all.
 * Part of one program; see basics.js.
 */

const { problems, findings } = JSON.parse(byId("data").textContent);

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

async function start() {
  startThemes();
  startPrint();
  drawWhenNear("figure[data-finding]", (figure) => findings[figure.dataset.finding]);
  await startProblems();
  root.dataset.ready = "true";
}

start();
