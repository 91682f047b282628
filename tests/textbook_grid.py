"""The algorithms on a fixed net written plainly from their papers: slow, and sharing no code with the library.

Each function plays `episodes` episodes of a plain problem (see `textbook`) and returns a `Table` and one dictionary per
episode.  States and actions are bins of the unit cube; the centre of a cell is played, ties go to the first action.
"""

import math
from itertools import product

from textbook import Stream


def find_bin(value, bins):
    """The last of the intervals [i / bins, (i + 1) / bins) that does not lie above the value."""
    return max(i for i in range(bins) if i == 0 or value >= i / bins)


class Table:
    """Q and visits by time step, state bins and action bins; `choices` is the number of discrete actions."""

    def __init__(self, problem, bins, steps, initial, choices=None):
        self.problem, self.bins = problem, bins[: problem.states]
        sides = [range(n) for n in bins[problem.states :]] if choices is None else [range(choices)]
        self.action_bins, self.choices = bins[problem.states :], choices
        self.actions = list(product(*sides))
        self.states = list(product(*(range(n) for n in self.bins)))
        keys = [(h, s, a) for h in range(steps) for s in self.states for a in self.actions]
        self.q = dict.fromkeys(keys, initial)
        self.n = dict.fromkeys(keys, 0)

    def place(self, x):
        return tuple(find_bin(v, n) for v, n in zip(self.problem.unit(x), self.bins, strict=True))

    def values(self, h, s):
        return [self.q[h, s, a] for a in self.actions]

    def best(self, h, s):
        return max(self.actions, key=lambda a: self.q[h, s, a])  # the first of equals

    def centre(self, a):
        if self.choices is not None:
            return (float(a[0]),)
        return tuple(0.5 * (i / n + (i + 1) / n) for i, n in zip(a, self.action_bins, strict=True))


def play(table, episodes, seed, choose, learn, value, *, per_step, ended, before=None, after=None):
    """Episodes of any of the algorithms; `ended(left)` is V of a state that ended the episode."""
    problem, agent, world = table.problem, Stream(seed, 0), Stream(seed, 1)
    history, steps = [], 0
    for k in range(episodes):
        level = before(k) if before else None
        state, total, values = problem.reset(world), 0.0, []
        for h in range(problem.horizon):
            now, following = (h, h + 1) if per_step else (0, 0)
            s = table.place(state)
            a = choose(now, s, level, agent)
            reward, state, over = problem.step(state, table.centre(a), world)
            steps += 1
            total += reward
            if over:
                v = ended(problem.horizon - 1 - h)
            elif per_step and h + 1 == problem.horizon:
                v = 0.0
            else:
                v = value(table.values(following, table.place(state)))
            values.append(v)
            table.n[now, s, a] += 1
            learn((now, s, a), reward, v)
            if over:
                break
        if after:
            after(total)
        history.append(
            {"score": total, "value_low": min(values), "value_high": max(values), "training_steps": steps}
            | ({} if level is None else {"temperature": level})
        )
    return history


def ucb_q(
    problem, *, episodes, bins, c, seed, bonus="hoeffding", p=0.05, T=100_000, rewards=(0, 1), slack=0.0, choices=None
):
    """UCB-Hoeffding and UCB-Bernstein (Jin et al., 2018), and with `slack` = 2 epsilon L NBQL (Song and Sun, 2019)."""
    H, (low, high) = float(problem.horizon), rewards
    table = Table(problem, bins, problem.horizon, H, choices)
    SA = len(table.states) * len(table.actions)
    iota = math.log(SA * T / p)
    mu, sigma, beta = (dict.fromkeys(table.q, 0.0) for _ in range(3))
    zero = -low / (high - low)

    def learn(key, reward, v):
        t = table.n[key]
        alpha = (H + 1.0) / (H + t)
        b = c * math.sqrt(H**3 * iota) / math.sqrt(t)
        if bonus == "bernstein":
            mu[key] += v
            sigma[key] += v * v
            W = max(0.0, sigma[key] / t - (mu[key] / t) * (mu[key] / t))
            least = c * math.sqrt(H * iota) * math.sqrt((W + H) / t) + c * math.sqrt(H**7 * SA) * iota / t
            now = min(least, b)
            b = (now - (1.0 - alpha) * beta[key]) / (2.0 * alpha)
            beta[key] = now
        r = (reward - low) * (1.0 / (high - low))
        table.q[key] = (1.0 - alpha) * table.q[key] + alpha * (r + v + (b + slack))

    history = play(
        table,
        episodes,
        seed,
        choose=lambda h, s, level, random: table.best(h, s),
        learn=learn,
        value=lambda q: min(H, max(q)),
        per_step=True,
        ended=lambda left: zero * left,
    )
    return table, history


def ucb_q_infinite(problem, *, episodes, bins, c, gamma, seed, epsilon=0.1, delta=0.05, rewards=(0, 1), choices=None):
    """Infinite-horizon Q-learning with UCB (Wang et al., 2020); the table's Q is Qhat."""
    low, high = rewards
    most = 1.0 / (1.0 - gamma)
    R = math.ceil(math.log(3.0 / (epsilon * (1.0 - gamma))) / (1.0 - gamma))
    M = max(math.ceil(2.0 * math.log2(1.0 / ((1.0 - gamma) * epsilon))), 10)
    epsilon_1 = epsilon / (24.0 * R * M * math.log(1.0 / (1.0 - gamma)))
    H = math.log(1.0 / ((1.0 - gamma) * epsilon_1)) / math.log(1.0 / gamma)
    table = Table(problem, bins, 1, most, choices)
    SA, q = len(table.states) * len(table.actions), dict(table.q)

    def learn(key, reward, v):
        t = table.n[key]
        alpha = (H + 1.0) / (H + t)
        b = c * most * math.sqrt(H) * math.sqrt(math.log(SA / delta * (t + 1.0) * (t + 2.0)) / t)
        r = (reward - low) * (1.0 / (high - low))
        q[key] = (1.0 - alpha) * q[key] + alpha * (r + gamma * v + b)
        table.q[key] = min(table.q[key], q[key])

    history = play(
        table,
        episodes,
        seed,
        choose=lambda h, s, level, random: table.best(h, s),
        learn=learn,
        value=max,
        per_step=False,
        ended=lambda left: -low / (high - low) * most,
    )
    return table, history


def mellowmax(q, omega):
    top = max(q)
    return top + math.log(sum(math.exp(omega * (v - top)) for v in q) / len(q)) / omega


def mellowmax_slope(q, omega):
    """beta of the mellowmax policy, by bisection of [0, omega]."""
    top, mean = max(q), mellowmax(q, omega)
    low, high = 0.0, omega
    for _ in range(50):
        middle = 0.5 * (low + high)
        if sum(math.exp(middle * (v - top)) * (v - mean) for v in q) < 0.0:
            low = middle
        else:
            high = middle
    return high


def softmax_sample(actions, preferences, slope, random):
    top = max(preferences)
    weights = [math.exp(slope * (v - top)) for v in preferences]
    pick = random.uniform() * sum(weights)
    total = 0.0
    for a, weight in zip(actions, weights, strict=True):
        total += weight
        if pick < total:
            return a
    return actions[-1]


def q_learning(
    problem,
    *,
    episodes,
    bins,
    seed,
    exploration="epsilon",
    schedule="linear",
    levels=(1.0, 0.05),
    decay=1000,
    heat=2.0,
    heat_decay=0.8,
    c=1.0,
    operator="max",
    omega=5.0,
    power=0.8,
    rate=None,
    initial=None,
    choices=None,
):
    """Watkins' Q-learning with the explorations and operators of `spaql.agents.exploration`."""
    H = problem.horizon
    gamma = 1.0 - 1.0 / H
    table = Table(problem, bins, 1, float(H) if initial is None else initial, choices)
    first, last = levels
    cycle = {"level": last, "heat": heat, "best": -math.inf}

    def find_level(k):
        progress = min(1.0, k / decay)
        if schedule == "linear":
            return first + (last - first) * progress
        if schedule == "exponential":
            return first * (last / first) ** progress
        return cycle["level"] if schedule == "cyclic" else first

    def finish(score):
        if score >= cycle["best"]:
            cycle["best"], cycle["level"] = score, last
            cycle["heat"] = cycle["heat"] ** heat_decay
        else:
            raised = cycle["level"] * cycle["heat"]
            cycle["level"] = last if raised > first else raised

    def choose(h, s, level, random):
        q = table.values(h, s)
        if exploration == "epsilon":
            if random.uniform() < level:
                return table.actions[int(random.uniform() * len(table.actions))]
            return table.best(h, s)
        if exploration == "mellowmax":
            return softmax_sample(table.actions, q, mellowmax_slope(q, omega), random)
        if exploration == "ucb-boltzmann":
            visits = [table.n[h, s, a] for a in table.actions]
            log = math.log(1.0 + sum(visits))
            q = [v + c * math.sqrt(log / (1.0 + n)) for v, n in zip(q, visits, strict=True)]
        return softmax_sample(table.actions, q, 1.0 / level, random)

    def learn(key, reward, v):
        alpha = 1.0 / float(table.n[key]) ** power if rate is None else rate
        table.q[key] = (1.0 - alpha) * table.q[key] + alpha * (reward + gamma * v)

    history = play(
        table,
        episodes,
        seed,
        choose=choose,
        learn=learn,
        value=max if operator == "max" else lambda q: mellowmax(q, omega),
        per_step=False,
        ended=lambda left: 0.0,
        before=find_level,
        after=finish,
    )
    return table, history
