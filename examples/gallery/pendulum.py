"""Pendulum-v1 in forty lines: swing up and balance, against energy pumping with PD control at the top.

Run it with `python examples/gallery/pendulum.py`; it takes about a minute.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from comparison import REPORTED, compare, follow, play, run, save_picture, train, tune


def make_controller(pump, angle, stiffness, damping):
    """Pump energy in until upright is near, then PD control; torque in N m, angles in rad."""

    def act(observation):
        cosine, sine, speed = observation
        theta, missing = np.arctan2(sine, cosine), 5.0 - (speed**2 / 6.0 + 5.0 * cosine)  # energy in J
        torque = -stiffness * theta - damping * speed if abs(theta) < angle else pump * missing * np.sign(speed or 1.0)
        return np.clip([torque], -2.0, 2.0)

    return lambda: act


GRID = {"pump": [0.3, 1.0, 3.0], "angle": [0.2, 0.4, 0.8], "stiffness": [8.0, 16.0, 32.0], "damping": [2.0, 4.0, 8.0]}


def main(out=None, budget=20_000, agents=3, episodes=200):
    """Train, compare and draw; returns the results."""
    env, trained = gymnasium.make("Pendulum-v1"), train("Pendulum-v1", budget, agents)
    policies = {"swing-up and PD": tune(env, make_controller, GRID, max(1, episodes // 20))}
    settings = {"unit": "minus costs", "out": out, "episodes": episodes, "most_rules": 30}
    result = compare("pendulum", env, policies, trained, **settings)

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    trained[0].plot(ax=right)
    for label, policy in (policies | {"Tessera": follow(trained[0])}).items():
        episode = play(env, policy, REPORTED)
        angles = np.arctan2(episode.observations[:, 1], episode.observations[:, 0])
        left.plot(0.05 * np.arange(len(angles)), np.degrees(np.unwrap(angles)), label=label)
    left.set(xlabel="time [s]", ylabel="angle from upright [degrees]")
    left.legend()
    save_picture(figure, "pendulum", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
