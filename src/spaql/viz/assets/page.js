/*
 * The page of a study: sections of text, tables and charts, and problems to go through one at a time.
 * Part of one program; see base.js.
 */

async function start() {
  startThemes();
  startPrint();
  drawWhenNear();
  if (page.cases.length > 0) await startCases();
  root.dataset.ready = "true";
}

start();
