/*
 * The explanation of a state: the rule and the cell that decide, its rivals, its borders and the actions beyond them.
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

/** Where a border is, and below it what is done beyond it. */
function fillBorder(box, agent, cell, border, where) {
  if (border === null) {
    box.textContent = "end of range";
    return;
  }
  const same = border.cell === cell || actionText(agent, border.cell) === actionText(agent, cell);
  box.append(make("span", "where", `${where} `));
  box.append(same ? make("span", "", "same action") : make("strong", "", actionText(agent, border.cell)));
}

function bordersTable(agent, { cell, borders }) {
  const table = make("table");
  rowOf(table.createTHead(), ["", "here", "below the cell", "above the cell"], true);
  const body = table.createTBody();
  borders.forEach(({ here, low, high, below, above }, d) => {
    rowOf(body, [agent.states[d].name, number(here), "", ""]);
    const [before, after] = [...body.lastElementChild.cells].slice(-2);
    fillBorder(before, agent, cell, below, `< ${number(low)}`);
    fillBorder(after, agent, cell, above, `≥ ${number(high)}`);
  });
  return scrolling(table, "The cell and its borders");
}

// ---- Rules

/** The list of rules for a time step, the first rule of it that matches, and its row; null without rules. */
function ruleAt(agent, step, values) {
  const list = agent.rules.find(({ first, last }) => first <= step && step <= last);
  if (!list) return null;
  const unit = toUnit(agent, values);
  const matches = (limits) => limits.every(([d, low, high]) => {
    const at = agent.states[d].periodic ? unit[d] : values[d];
    if (low !== null && high !== null && low > high) return at >= low || at < high; // around the end of a period
    return (low === null || at >= low) && (high === null || at < high);
  });
  const place = list.limits.findIndex(matches);
  return { place, count: list.limits.length, row: list.rows[place] };
}

/** Give every list of rules the rows of its table, which the page holds in the same order. */
function findRuleRows(agents) {
  const bodies = document.querySelectorAll("#rules tbody");
  agents.flatMap((agent) => agent.rules).forEach((list, i) => { list.rows = [...bodies[i].rows]; });
}

/** A sentence with the rule that decides, which is marked in the list. */
function ruleText(agent, rule) {
  for (const row of agent.rules.flatMap((list) => list.rows)) row.removeAttribute("aria-current");
  rule.row.setAttribute("aria-current", "true");
  const conditions = rule.row.cells[1].textContent;
  const words = make("p", "rule");
  const link = Object.assign(make("a", "", `Rule ${rule.place + 1} of ${rule.count}`), { href: "#rules" });
  const last = rule.count > 1 ? "none above it matches" : "there is no other";
  words.append(link, ` decides: ${conditions === "otherwise" ? last : `if ${conditions}`}.`);
  return words;
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
function explain(element, agent, step, values, title) {
  const why = explanationOf(agent, step, values);
  const rule = ruleAt(agent, step, values);
  const facts = [`Q ${number(why.q, 5)}`, count(why.visits, "visit"), `depth ${why.depth}`];
  if (why.bonus !== null) {
    facts.push(`bonus left ${number(why.bonus, 3)}`);
  }
  const parts = [
    make("p", "note", title),
    make("p", "done", actionText(agent, why.cell)),
    ...(rule ? [ruleText(agent, rule)] : []),
    make("p", "facts", `${facts.join(", ")}. ${rangeText(agent, why.cell)}`),
    make("h5", "", "What would change it"),
    bordersTable(agent, why),
  ];
  if (why.others.length) parts.push(make("h5", "", "Runners-up"), rivalsList(agent, why));
  else parts.push(make("p", "note", "No other cell is relevant here."));
  element.replaceChildren(...parts);
  const beyond = why.borders.flatMap(({ below, above }) => [below, above]);
  Object.assign(element.dataset, {
    cell: String(why.cell),
    rule: String(rule ? rule.place : null),
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
