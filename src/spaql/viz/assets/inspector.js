/*
 * The page of an agent, or of two: panels, charts, and the start of it all.
 * Part of one program; see base.js.
 */

/** Whether two agents have the same observations and actions, so that one set of controls serves both. */
function alike(one, other) {
  const names = ({ states, actions: { names: moves, discrete }, numbers }) =>
    JSON.stringify([states.map(({ name }) => name), moves, discrete, numbers]);
  return names(one) === names(other);
}

function start() {
  const agents = page.agents.map((given, key) => ({ ...agentOf(given), key }));
  findRuleRows(agents);
  startThemes();
  startPrint();
  const linked = agents.length > 1 && alike(...agents);
  for (const group of linked ? [agents] : agents.map((agent) => [agent])) {
    const box = make("section", "of-agents");
    if (!linked && agents.length > 1) box.append(make("h3", "", group[0].name));
    byId("panels").append(box);
    const panel = panelOf(page, group);
    box.append(panel.element);
    refresh(panel); // now that it has its width
  }
  for (const chart of page.training) {
    const view = linesView(make("figure", "chart"));
    byId("charts").append(view.figure);
    const series = chart.series.map((part) => ({ ...part, look: { ...page.palette[part.of], dash: "solid" } }));
    view.show({ ...chart, series });
    view.draw();
  }
  root.dataset.ready = "true";
}

start();
