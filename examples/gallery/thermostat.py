"""A room with a heat pump, a tariff with a cheap night and an expensive evening, and people at home at times.

Run it with `python examples/gallery/thermostat.py`; it takes about a minute.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from comparison import REPORTED, compare, follow, play, run, save_picture, train, tune
from gymnasium import spaces

HOURS = 0.25  # of a step
CAPACITY, LOSS = 3.0, 0.15  # kWh/K and kW/K: a time constant of 20 hours
POWER, EFFICIENCY = 6.0, 3.0  # kW of heat at most, and heat per electricity
COMFORT, DISCOMFORT = 20.0, 0.4  # degrees wanted while people are at home; EUR for each degree and hour below


def price(hour):
    """Return the price of electricity in EUR/kWh."""
    return 0.15 if hour < 6.0 or hour >= 22.0 else 0.45 if 17.0 <= hour < 21.0 else 0.30


def is_home(hour):
    """Return whether people are at home and awake."""
    return 6.0 <= hour < 9.0 or 16.0 <= hour < 23.0


class Room(gymnasium.Env):
    """A winter's day; observed: temperatures inside and outside in degrees Celsius, and the hour."""

    observation_space = spaces.Box(np.float32([10.0, -20.0, 0.0]), np.float32([30.0, 25.0, 24.0]))
    action_space = spaces.Box(0.0, 1.0, (1,), np.float32)  # share of the power

    def reset(self, *, seed=None, options=None):
        """Begin at midnight of a day between mild and frosty."""
        super().reset(seed=seed)
        self.steps = 0
        self.inside, self.outside = self.np_random.uniform(17.0, 21.0), self.np_random.uniform(-8.0, 8.0)
        return self._observe(), {}

    def step(self, action):
        """Heat for a quarter of an hour; the reward is minus the costs, in EUR."""
        hour, heat = HOURS * self.steps, POWER * float(np.clip(action[0], 0.0, 1.0))
        costs = {"energy": HOURS * price(hour) * heat / EFFICIENCY, "discomfort": 0.0}
        self.inside += HOURS * (heat - LOSS * (self.inside - self.outside)) / CAPACITY
        self.outside += 0.2 * np.sin(2.0 * np.pi * (hour - 9.0) / 24.0) + 0.2 * self.np_random.normal()
        if is_home(hour):
            costs["discomfort"] = HOURS * DISCOMFORT * max(0.0, COMFORT - self.inside)
        self.steps += 1
        over = self.steps == round(24.0 / HOURS)
        if over:  # heat that is left saves some of tomorrow's, at the price of the night
            costs["energy"] -= price(0.0) / EFFICIENCY * CAPACITY * (self.inside - COMFORT)
        return self._observe(), -sum(costs.values()), over, False, costs

    def _observe(self):
        return np.array([self.inside, self.outside, HOURS * self.steps], np.float32)


def set_point(hour, warm, cool, lead, boost):
    """Return what a timer asks for: warm at home and some hours before; more ahead of the expensive evening."""
    if 17.0 - 3.0 * boost <= hour < 17.0:
        return warm + boost
    return warm if is_home(hour) or is_home(hour + lead) else cool


def make_hysteresis(band, **timer):
    """Heat with full power from below the set point to above it."""

    def begin():
        on = False

        def act(observation):
            nonlocal on
            inside, _, hour = observation
            on = inside < set_point(hour, **timer) + (band if on else -band) / 2
            return [float(on)]

        return act

    return begin


def make_pid(gain, integral, derivative, **timer):
    """PID control to the set point; the integral stands still at the limits."""

    def begin():
        total, before = 0.0, None

        def act(observation):
            nonlocal total, before
            inside, _, hour = observation
            error, change = set_point(hour, **timer) - inside, 0.0 if before is None else (inside - before) / HOURS
            power, before = gain * (error + integral * total - derivative * change), inside
            if 0.0 < power < 1.0:
                total += HOURS * error
            return [min(max(power, 0.0), 1.0)]

        return act

    return begin


TIMER = {"warm": [20.0, 20.25, 20.5], "cool": [16.0, 18.0, 19.0], "lead": [2.0, 3.0, 4.0], "boost": [1.0, 2.0, 3.0]}
SETTINGS = {"horizon": 96, "names": ["inside", "outside", "hour"], "action_names": ["heating"]}


def main(out=None, budget=35_040, agents=3, episodes=200):
    """Train for a year of days, compare and draw; returns the results."""
    env, trained = Room(), train(Room(), budget, agents, **SETTINGS)
    pid = {"gain": [2.0, 4.0, 8.0], "integral": [0.0, 0.2], "derivative": [0.0, 0.2]}
    policies = {
        "hysteresis with timer": tune(env, make_hysteresis, {"band": [0.2, 0.4]} | TIMER, max(1, episodes // 30)),
        "PID with timer": tune(env, make_pid, pid | TIMER, max(1, episodes // 30)),
    }
    measures = ["energy", "discomfort"]
    settings = {"unit": "EUR per day", "out": out, "episodes": episodes, "measures": measures}
    result = compare("thermostat", env, policies, trained, **settings)

    figure, (top, bottom) = plt.subplots(2, figsize=(8, 5.5), sharex=True, layout="constrained")
    for label, policy in (policies | {"Tessera": follow(trained[0])}).items():
        episode = play(env, policy, REPORTED)
        top.plot(episode.observations[:, 2], episode.observations[:, 0], label=label)
        bottom.step(episode.observations[:-1, 2], POWER * episode.actions[:, 0], where="post", label=label)
    hours = np.arange(0.0, 24.0, HOURS)
    top.fill_between(hours, 17.0, COMFORT, where=[is_home(hour) for hour in hours], step="post", color="0.9")
    top.set(ylabel="inside [°C]", title="In grey: below 20 °C while people are at home")
    bottom.set(xlabel="hour", ylabel="heat [kW]", xlim=(0.0, 24.0), xticks=range(0, 25, 3))
    tariff = bottom.twinx()
    tariff.step(hours, [price(hour) for hour in hours], where="post", color="0.5", linestyle=":")
    tariff.set(ylabel="price [EUR/kWh], dotted", ylim=(0.0, 0.6))
    top.legend()
    save_picture(figure, "thermostat", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
