"""Infuse a drug so that its level stays in the therapeutic window, in patients who clear it at different rates.

Run it with `python examples/gallery/dosing.py`; it takes about a minute.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from comparison import REPORTED, compare, follow, play, run, save_picture, train, tune
from gymnasium import spaces

STEP, STEPS = 6.0, 20  # h between two levels; five days
LOW, HIGH = 10.0, 15.0  # mg/L, the therapeutic window
VOLUME = 35.0  # L in which the drug is distributed
CLEARANCE, SPREAD = 2.8, 0.5  # L/h of the median patient; standard deviation of its logarithm
MOST = 150.0  # mg/h that the pump gives
ASSAY = 0.03  # relative error of a measured level


class Infusion(gymnasium.Env):
    """A patient for five days; observed: the level now and before the last step (mg/L), and the last rate (mg/h).

    Nobody knows the patient's clearance, but these three numbers give a hint of it.
    """

    observation_space = spaces.Box(np.zeros(3), np.array([80.0, 80.0, MOST]), dtype=np.float64)
    action_space = spaces.Box(0.0, MOST, (1,), np.float64)  # rate of the infusion, mg/h

    def reset(self, *, seed=None, options=None):
        """Admit a patient who has none of the drug yet."""
        super().reset(seed=seed)
        self.clearance = CLEARANCE * float(np.exp(SPREAD * self.np_random.normal()))
        self.level, self.measured, self.steps = 0.0, 0.0, 0
        return np.zeros(3), {}

    def step(self, action):
        """Infuse for six hours (one compartment); the reward is the hours in the window less twice those above it."""
        rate = min(max(float(action[0]), 0.0), MOST)
        start, final, decay = self.level, rate / self.clearance, self.clearance / VOLUME
        self.level = final + (start - final) * float(np.exp(-decay * STEP))
        above, over_low = (count_hours_above(limit, start, self.level, final, decay) for limit in (HIGH, LOW))
        before, self.measured = self.measured, self.level * float(np.exp(ASSAY * self.np_random.normal()))
        self.steps += 1
        hours = {"hours in the window": over_low - above, "hours above": above}
        observation = np.array([self.measured, before, rate])
        return observation, over_low - 3.0 * above, False, self.steps == STEPS, hours


def count_hours_above(limit, start, end, final, decay):
    """Return the hours of a step above a limit, while the level goes from start to end on its way to final."""
    if (start > limit) == (end > limit):
        return STEP if start > limit else 0.0
    crossing = float(np.log((start - final) / (limit - final))) / decay
    return crossing if start > limit else STEP - crossing


def make_fixed(loading, maintenance):
    """Give every patient one rate in the first six hours, and another from then on."""

    def begin():
        rates = iter([loading])
        return lambda observation: [next(rates, maintenance)]

    return begin


def make_proportional(gain, target):
    """Infuse in proportion to what the level is below a target."""
    return lambda: lambda observation: [min(max(gain * (target - float(observation[0])), 0.0), MOST)]


def make_monitored(loading, target):
    """Estimate the patient's clearance from the drug that went in and is left, and infuse what leads to a target."""

    def begin():
        estimates = []

        def act(observation):
            level, before, rate = observation.tolist()
            if level == 0.0:
                return [loading]
            estimates.append(2.0 * (rate - VOLUME * (level - before) / STEP) / (level + before))
            clearance = min(max(float(np.median(estimates)), 0.3), 20.0)
            kept = float(np.exp(-clearance / VOLUME * STEP))
            return [min(max(clearance * (target - level * kept) / (1.0 - kept), 0.0), MOST)]

        return act

    return begin


FIXED = {"loading": [50, 60, 70, 80, 90, 100], "maintenance": [15, 20, 25, 30, 35, 40]}
PROPORTIONAL = {"gain": [2, 3, 4, 5, 6, 7, 8, 10, 12], "target": [14, 15, 16, 17, 18, 19, 20, 22, 24]}

MONITORED = {"loading": [70, 80, 90, 100, 110, 120], "target": [11.0, 11.5, 12.0, 12.5, 13.0]}


def main(out=None, budget=20_000, agents=3, episodes=300):
    """Train, compare and draw; returns the results."""
    env, few = Infusion(), min(100, episodes)
    names = {"names": ["level", "level before", "last rate"], "action_names": ["rate"]}
    trained = train(Infusion(), budget, agents, horizon=STEPS, **names)
    policies = {
        "fixed rates": tune(env, make_fixed, FIXED, few),
        "proportional": tune(env, make_proportional, PROPORTIONAL, few),
        "estimated clearance": tune(env, make_monitored, MONITORED, few),
    }
    unit, measures = "hours", ["hours in the window", "hours above"]
    result = compare("dosing", env, policies, trained, unit=unit, out=out, episodes=episodes, measures=measures)

    figure, axes = plt.subplots(4, 2, figsize=(9, 8), sharex="col", sharey="col", layout="constrained")
    for row, (label, policy) in zip(axes, (policies | {"Tessera": follow(trained[0])}).items(), strict=True):
        row[0].axhspan(LOW, HIGH, color="C2", alpha=0.2)
        for patient in range(12):
            episode = play(env, policy, REPORTED + patient)
            hours, colour = STEP * np.arange(STEPS + 1), plt.cm.viridis(patient / 11)
            row[0].plot(hours, episode.observations[:, 0], color=colour, linewidth=0.9)
            row[1].step(hours[:-1], episode.actions[:, 0], where="post", color=colour, linewidth=0.9)
        row[0].set(ylabel=f"{label}\nlevel [mg/L]", ylim=(0.0, 20.0))
        row[1].set(ylabel="rate [mg/h]")
    axes[3, 0].set(xlabel="time [h]")
    axes[3, 1].set(xlabel="time [h]")
    save_picture(figure, "dosing", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
