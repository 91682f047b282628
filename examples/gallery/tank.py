"""Keep a heated tank at its temperature through a dead time, against a PI controller with and without Smith predictor.

Run it with `python examples/gallery/tank.py`; it takes about a minute.
"""

import textwrap

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from comparison import REPORTED, compare, follow, play, run, save_picture, train, tune
from gymnasium import spaces

STEP, STEPS, DELAY = 20.0, 60, 3  # s between two decisions; 20 minutes; steps until the heat arrives: one minute
SET_POINT, AMBIENT, RISE = 60.0, 20.0, 80.0  # degrees C; degrees C; K above ambient after long heating at full power
TIME_CONSTANT = 150.0  # s
KEPT = float(np.exp(-STEP / TIME_CONSTANT))  # share of a deviation that is left after a step


class Tank(gymnasium.Env):
    """Twenty minutes; observed: the temperature (degrees C) and the powers of the last three steps, the newest first.

    The powers make it Markov: they are the heat that is on its way.  `past_inputs=False` leaves them out.
    """

    action_space = spaces.Box(0.0, 1.0, (1,), np.float64)  # share of the heating power

    def __init__(self, past_inputs=True):
        self.shown = DELAY if past_inputs else 0
        self.observation_space = spaces.Box(0.0, np.array([100.0] + [1.0] * self.shown), dtype=np.float64)

    def reset(self, *, seed=None, options=None):
        """Begin with the heater off and the tank too cold or too warm."""
        super().reset(seed=seed)
        self.temperature, self.powers, self.steps = self.np_random.uniform(20.0, 80.0), [0.0] * DELAY, 0
        return self._observe(), {}

    def step(self, action):
        """Set the power; now and then a batch of cold feed is added; the reward is minus the deviation, in K."""
        self.powers.insert(0, min(max(float(action[0]), 0.0), 1.0))
        self.temperature = heat(self.temperature, self.powers.pop()) + 0.1 * self.np_random.normal()
        added, drop = self.np_random.random(2)
        self.temperature -= 5.0 + 10.0 * drop if added < 0.05 else 0.0
        self.steps += 1
        return self._observe(), -abs(self.temperature - SET_POINT), False, self.steps == STEPS, {}

    def _observe(self):
        return np.array([self.temperature, *self.powers[: self.shown]])


def heat(temperature, power):
    """Return the temperature after a step in which this power arrives."""
    final = AMBIENT + RISE * power
    return final + (temperature - final) * KEPT


def make_pi(gain, integral_time, smith=False):
    """Control the temperature, or the one after the dead time as the exact model of the tank predicts it (Smith)."""

    def begin():
        total = 0.0

        def act(observation):
            nonlocal total
            temperature, *powers = observation.tolist()
            for power in reversed(powers if smith else []):
                temperature = heat(temperature, power)
            error = SET_POINT - temperature
            power = gain * error + total
            if 0.0 < power < 1.0 or power * error < 0.0:  # anti-windup
                total += gain * error * STEP / integral_time
            return [min(max(power, 0.0), 1.0)]

        return act

    return begin


PI = {"gain": [0.01, 0.015, 0.02, 0.03, 0.04], "integral_time": [75.0, 150.0, 300.0, 600.0]}
SMITH = {"gain": [0.04, 0.08, 0.16, 0.32, 0.64], "integral_time": [25.0, 50.0, 100.0, 200.0, 400.0], "smith": [True]}


def main(out=None, budget=10_000, agents=3, episodes=300):
    """Train, compare, diagnose and draw; returns the results."""
    env, names = Tank(), ["temperature", *(f"power {steps} back" for steps in range(1, DELAY + 1))]
    few, settings = min(20, episodes), {"horizon": STEPS, "action_names": ["power"]}
    trained = train(Tank(), budget, agents, names=names, **settings)
    policies = {"PI": tune(env, make_pi, PI, few), "PI with Smith predictor": tune(env, make_pi, SMITH, few)}
    [blind] = train(Tank(past_inputs=False), budget, 1, names=names[:1], **settings)
    without = {"Tessera without past inputs": lambda: lambda observation: blind.predict(observation[:1])[0]}
    result = compare("tank", env, policies | without, trained, unit="minus K steps", out=out, episodes=episodes)
    findings = {"with past inputs": trained[0].diagnose(), "without past inputs": blind.diagnose()}
    lines = [f"{label}: {' '.join(map(str, found)) or 'nothing found'}" for label, found in findings.items()]
    print(text := "\n".join(textwrap.fill(line, 88, subsequent_indent="    ") for line in lines))
    if out is not None:
        (out / "tank.log").write_text(text + "\n", encoding="utf-8")

    figure, (upper, lower) = plt.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    upper.axhline(SET_POINT, color="grey", linestyle=":")
    for label, policy in (policies | {"Tessera": follow(trained[0])}).items():
        episode, minutes = play(env, policy, REPORTED), STEP / 60.0 * np.arange(STEPS + 1)
        upper.plot(minutes, episode.observations[:, 0], label=label)
        lower.step(minutes[:-1], 100.0 * episode.actions[:, 0], where="post", label=label)
    upper.set(ylabel="temperature [°C]")
    lower.set(xlabel="time [min]", ylabel="heating power [%]")
    upper.legend()
    save_picture(figure, "tank", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
