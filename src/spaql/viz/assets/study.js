/*
 * The page of a study: sections of words, tables and charts.
 * Part of one program; see basics.js.
 */

function start() {
  const { charts } = JSON.parse(byId("data").textContent);
  startThemes();
  startPrint();
  drawWhenNear("figure[data-chart]", (figure) => charts[Number(figure.dataset.chart)]);
  root.dataset.ready = "true";
}

start();
