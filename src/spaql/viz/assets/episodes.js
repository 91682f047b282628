/*
 * One episode over the pictures of a panel: its controls, its rewards, and its state in words.
 * Part of one program; see base.js.
 */

const PLAY_PAUSE = 60; // milliseconds between two steps of an episode
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** The controls of the episode, and the chart of its rewards. */
function episodeOf(panel) {
  const { agents, setting } = panel;
  const box = make("div", "episode");
  const longest = Math.max(...agents.map((agent) => agent.episode?.rewards.length ?? 0));
  const play = Object.assign(make("button", "", "Play"), { type: "button" });
  panel.time = slider("Time in the episode", {
    min: 0, max: longest, step: 1, value: 0, say: (value) => `step ${value} of ${longest}`,
    onInput: (value) => {
      stop(panel, play);
      goTo(panel, value);
    },
  });
  play.addEventListener("click", () => {
    if (panel.timer !== null) return stop(panel, play);
    if (setting.time >= longest) goTo(panel, 0);
    play.textContent = "Pause";
    panel.timer = setInterval(() => {
      goTo(panel, Math.min(longest, setting.time + 1));
      if (setting.time >= longest) stop(panel, play);
    }, PLAY_PAUSE);
    return undefined;
  });
  play.hidden = calm.matches; // the slider moves only when it is moved
  const follow = tickBox("follow the episode with the explanation and the slice", setting.follow, (value) => {
    setting.follow = value;
    goTo(panel, setting.time);
  });
  panel.moment = make("p", "reading");
  const line = make("div", "together");
  line.append(play, panel.time.box, follow);
  box.append(line, panel.moment);
  if (agents.every(({ episode }) => !episode || new Set(episode.rewards).size < 2)) return [box]; // a flat line
  const figure = make("figure", "below");
  panel.rewards = linesView(figure);
  panel.rewards.show({
    title: "Rewards of the episode", note: "", x_label: "step", y_label: "reward",
    series: agents.filter((agent) => agent.episode).map((agent, i) => ({
      name: agent.name, x: Array.from(agent.episode.rewards, (_, t) => t + 1), y: Array.from(agent.episode.rewards),
      look: { ...panel.page.palette[i], dash: "solid" },
    })),
  });
  return [box, figure];
}

function stop(panel, play) {
  clearInterval(panel.timer);
  panel.timer = null;
  play.textContent = "Play";
}

/** Move the episode, and with it the time step of a policy that changes, and the point where that is asked for. */
function goTo(panel, time) {
  const { setting, agents } = panel;
  setting.time = time;
  const leader = agents.find((agent) => agent.episode);
  if (Math.max(...agents.map((agent) => agent.steps)) > 1) setting.step = Math.min(time, leader.steps - 1);
  if (setting.follow) {
    const at = Math.min(time, leader.episode.rewards.length);
    setting.point = Array.from(leader.episode.points.subarray(at * leader.size, (at + 1) * leader.size));
    setting.cursor = null;
  }
  refresh(panel);
}

function momentText(agent, time) {
  const { rewards, points, terminated } = agent.episode;
  const at = Math.min(time, rewards.length);
  const total = rewards.subarray(0, at).reduce((sum, reward) => sum + reward, 0);
  const gained = at > 0 ? `reward ${number(rewards[at - 1])}, return so far ${number(total)}` : "the start";
  if (at === rewards.length) {
    return `${gained}; ${terminated ? "terminated" : "truncated"} after ${count(at, "step")}`;
  }
  const step = Math.min(at, agent.steps - 1);
  const cell = greedyAt(agent, step, toUnit(agent, points.subarray(at * agent.size, (at + 1) * agent.size)));
  return `${gained}; then: ${actionText(agent, cell)}`;
}
