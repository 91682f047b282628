/*
 * What decides at a state, in words: the cell, its value, its rivals, its borders and what is done beyond them.
 * Part of one program; see basics.js.
 */

const MOST_RIVALS = 5;

function rowOf(table, cells, head = false) {
  const row = table.insertRow();
  cells.forEach((text, i) => {
    const cell = make(head || i === 0 ? "th" : "td", "", text);
    if (head || i === 0) cell.scope = head ? "col" : "row";
    row.append(cell);
  });
}

function scrolling(table, label) {
  const box = make("div", "scroll");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  box.append(table);
  return box;
}

function borderText(agent, cell, border, edge) {
  if (border === null) return "end of the space";
  const same = border.cell === cell || actionText(agent, border.cell) === actionText(agent, cell);
  return `${number(border.distance, 3)} ${edge}: ${same ? "the same" : actionText(agent, border.cell)}`;
}

function bordersTable(agent, { cell, borders }) {
  const table = make("table");
  rowOf(table.createTHead(), ["", "here", "cell from", "to", "lower border", "upper border"], true);
  const body = table.createTBody();
  borders.forEach(({ here, low, high, below, above }, d) => {
    const ends = [number(here), number(low), number(high)];
    const beyond = [borderText(agent, cell, below, "below"), borderText(agent, cell, above, "above")];
    rowOf(body, [agent.states[d].name, ...ends, ...beyond]);
  });
  return scrolling(table, "The cell and its borders");
}

function rivalsList(agent, { cell, others }) {
  const list = make("ol", "rivals");
  for (const other of others.slice(0, MOST_RIVALS)) {
    const text = `${actionText(agent, other.cell)}: Q ${number(other.q)}, ${number(other.behind, 3)} behind`;
    list.append(make("li", "", `${text}, ${count(agent.cells.visits[other.cell], "visit")}`));
  }
  if (others.length > MOST_RIVALS) list.append(make("li", "", `and ${count(others.length - MOST_RIVALS, "other")}`));
  return list;
}

function rangeText(agent, cell) {
  const { actions, numbers } = agent;
  if (actions.finite) return "";
  const spans = Array.from({ length: numbers }, (_, i) => `${actions.names[i]} ${span(...actionSpan(agent, cell, i))}`);
  return `The middle of its cell's ${spans.join(", ")}.`;
}

/** Fill an element with what decides at values; the numbers themselves are in its data, for programs. */
function explain(element, agent, step, values) {
  const found = explanationOf(agent, step, values);
  const facts = [`Q ${number(found.q, 5)}`, count(found.visits, "visit"), `halved ${count(found.depth, "time")}`];
  if (found.bonus !== null) {
    facts.push(`bonus left ${number(found.bonus, 3)}`);
  }
  const parts = [
    make("p", "done", actionText(agent, found.cell)),
    make("p", "facts", `${facts.join(", ")}. ${rangeText(agent, found.cell)}`),
    make("h5", "", "Its cell, and what is done beyond its borders"),
    bordersTable(agent, found),
    make("h5", "", found.others.length ? "Runners-up" : "No other cell is relevant here."),
  ];
  if (found.others.length) parts.push(rivalsList(agent, found));
  element.replaceChildren(...parts);
  const beyond = found.borders.flatMap(({ below, above }) => [below, above]);
  Object.assign(element.dataset, {
    action: JSON.stringify(playedIn(agent, found.cell)),
    q: String(found.q),
    visits: String(found.visits),
    low: JSON.stringify(found.borders.map((border) => border.low)),
    high: JSON.stringify(found.borders.map((border) => border.high)),
    bonus: String(found.bonus),
    rivals: JSON.stringify(found.others.map((other) => other.q)),
    beyond: JSON.stringify(beyond.map((border) => border && playedIn(agent, border.cell))),
  });
}
