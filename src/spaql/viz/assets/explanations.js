/*
 * The explanation of a state: the cell that decides, its value, its rivals, its borders and the actions beyond them.
 * Part of one program; see base.js.
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

function borderText(agent, cell, border) {
  if (border === null) return "end of the space";
  const same = border.cell === cell || actionText(agent, border.cell) === actionText(agent, cell);
  return `${same ? "same action" : actionText(agent, border.cell)}, ${number(border.distance, 3)} away`;
}

function bordersTable(agent, { cell, borders }) {
  const table = make("table");
  rowOf(table.createTHead(), ["", "here", "cell from", "to", "action below the cell", "action above the cell"], true);
  const body = table.createTBody();
  borders.forEach(({ here, low, high, below, above }, d) => {
    const ends = [number(here), number(low), number(high)];
    const beyond = [borderText(agent, cell, below), borderText(agent, cell, above)];
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
  const ranges = Array.from({ length: numbers }, (_, i) => actionSpan(agent, cell, i));
  if (actions.discrete || ranges.every(([low, high]) => low === high)) return "";
  const spans = ranges.map((range, i) => `${actions.names[i]} ${span(...range)}`);
  return `The middle of its cell's ${spans.join(", ")}.`;
}

/** Fill an element with the explanation of a state; the numbers themselves are in its data, for programs. */
function explain(element, agent, step, values) {
  const why = explanationOf(agent, step, values);
  const facts = [`Q ${number(why.q, 5)}`, count(why.visits, "visit"), `depth ${why.depth}`];
  if (why.bonus !== null) {
    facts.push(`bonus left ${number(why.bonus, 3)}`);
  }
  const parts = [
    make("p", "done", actionText(agent, why.cell)),
    make("p", "facts", `${facts.join(", ")}. ${rangeText(agent, why.cell)}`),
    make("h5", "", "Its cell, and the actions beyond its borders"),
    bordersTable(agent, why),
    make("h5", "", why.others.length ? "Runners-up" : "No other cell is relevant here."),
  ];
  if (why.others.length) parts.push(rivalsList(agent, why));
  element.replaceChildren(...parts);
  const beyond = why.borders.flatMap(({ below, above }) => [below, above]);
  Object.assign(element.dataset, {
    action: JSON.stringify(playedIn(agent, why.cell)),
    q: String(why.q),
    visits: String(why.visits),
    low: JSON.stringify(why.borders.map((border) => border.low)),
    high: JSON.stringify(why.borders.map((border) => border.high)),
    bonus: String(why.bonus),
    rivals: JSON.stringify(why.others.map((other) => other.q)),
    beyond: JSON.stringify(beyond.map((border) => border && playedIn(agent, border.cell))),
  });
}
