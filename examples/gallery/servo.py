"""Turn a shaft to a position with a DC motor of limited voltage, against PID and LQR; then measure the policy in C.

Run it with `python examples/gallery/servo.py`; it takes about a minute.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from comparison import REPORTED, compare, follow, play, run, save_picture, train, tune
from gymnasium import spaces

STEP, STEPS = 0.02, 100  # s between two decisions; two seconds
VOLTS, TOP_SPEED, TIME_CONSTANT = 12.0, 20.0, 1.0  # V; rad/s at 12 V without friction; s
FRICTION = 1.0  # V that dry friction takes
STOP = 2.0 * np.pi  # rad, where the shaft hits a mechanical stop
PULL, GAIN = STEP / TIME_CONSTANT, TOP_SPEED / VOLTS


class Servo(gymnasium.Env):
    """Two seconds from anywhere within half a turn; observed: position error (rad) and speed (rad/s)."""

    observation_space = spaces.Box(np.array([-STOP, -TOP_SPEED]), np.array([STOP, TOP_SPEED]), dtype=np.float64)
    action_space = spaces.Box(-VOLTS, VOLTS, (1,), np.float64)  # voltage

    def reset(self, *, seed=None, options=None):
        """Begin at rest."""
        super().reset(seed=seed)
        self.error, self.speed, self.steps = self.np_random.uniform(-np.pi, np.pi), 0.0, 0
        return np.array([self.error, self.speed]), {}

    def step(self, action):
        """Hold a voltage for a step; the reward is minus the squared error, and a little of the squared voltage."""
        voltage = limit(action[0])
        speed = self.speed + PULL * (GAIN * voltage - self.speed)
        self.speed = float(np.copysign(max(abs(speed) - PULL * GAIN * FRICTION, 0.0), speed))
        self.error += STEP * self.speed
        if abs(self.error) > STOP:
            self.error, self.speed = float(np.copysign(STOP, self.error)), 0.0
        self.steps += 1
        final = abs(self.error) if self.steps == STEPS else 0.0
        cost = self.error**2 + 1e-4 * voltage**2
        return np.array([self.error, self.speed]), -cost, False, self.steps == STEPS, {"error at the end, rad": final}


def limit(voltage):
    """Return a voltage that the supply has."""
    return min(max(float(voltage), -VOLTS), VOLTS)


def make_pid(proportional, integral, derivative):
    """Control by the error, its integral, which stops at the limits, and the measured speed."""

    def begin():
        total = 0.0

        def act(observation):
            nonlocal total
            error, speed = observation.tolist()
            voltage = -proportional * error - derivative * speed - integral * total
            if abs(voltage) < VOLTS:
                total += STEP * error
            return [limit(voltage)]

        return act

    return begin


def make_lqr(voltage_cost):
    """Feed error and speed back, with the gains of LQR for a motor without limits and friction (Riccati)."""
    a, b = np.array([[1.0, STEP * (1.0 - PULL)], [0.0, 1.0 - PULL]]), np.array([[STEP * PULL * GAIN], [PULL * GAIN]])
    cost = value = np.diag([1.0, 0.0])
    for _ in range(1000):
        gains = np.linalg.solve(voltage_cost + b.T @ value @ b, b.T @ value @ a)
        value = cost + a.T @ value @ (a - b @ gains)
    first, second = gains[0].tolist()
    return lambda: lambda observation: [limit(-first * observation[0] - second * observation[1])]


PID = {"proportional": [20, 30, 40, 60, 80], "integral": [0, 10, 30], "derivative": [2, 4, 6, 8, 12]}
LQR = {"voltage_cost": [1e-5, 3e-5, 1e-4, 2e-4, 3e-4, 4e-4, 6e-4, 1e-3, 3e-3, 1e-2]}


def measure_in_c(agent):
    """Compile the policy without a C library, look for symbols that it needs, and time its decisions."""
    compiler, program = shutil.which("cc"), Path(__file__).with_name("servo_timing.c")
    if compiler is None:
        return "no C compiler"
    with tempfile.TemporaryDirectory() as folder:

        def call(*command):
            return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

        agent.export(Path(folder) / "policy.c")
        call(compiler, "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-c", "policy.c")
        missing = call("nm", "--undefined-only", "policy.o") or "none"
        text, data, bss, *_ = call("size", "policy.o").splitlines()[1].split()
        call(compiler, "-std=c99", "-O2", str(program), "policy.o", "-o", "timing")
        size = f"code and tables: {text} bytes; variables: {int(data) + int(bss)} bytes"
        return f"symbols that policy.o needs: {missing}\n{size}\n{call('./timing')}"


def main(out=None, budget=20_000, agents=3, episodes=300):
    """Train, compare, measure and draw; returns the results."""
    env, names = Servo(), {"names": ["error", "speed"], "action_names": ["voltage"]}
    trained, few = train(Servo(), budget, agents, horizon=STEPS, **names), min(20, episodes)
    policies = {"PID": tune(env, make_pid, PID, few), "LQR": tune(env, make_lqr, LQR, few)}
    unit, measures = "rad² steps", ["error at the end, rad"]
    result = compare("servo", env, policies, trained, unit=unit, out=out, episodes=episodes, measures=measures)
    print(measured := measure_in_c(trained[0]))
    if out is not None:
        (out / "servo.log").write_text(measured + "\n", encoding="utf-8")

    figure, axes = plt.subplot_mosaic("AC;BC", figsize=(10, 4.5), layout="constrained")
    trained[0].plot(ax=axes["C"])
    axes["C"].set(xlim=(-np.pi, np.pi), ylim=(-10.0, 10.0))
    for label, policy in (policies | {"Tessera": follow(trained[0])}).items():
        episode = play(env, policy, REPORTED + 1)
        axes["A"].plot(STEP * np.arange(STEPS + 1), episode.observations[:, 0], label=label)
        axes["B"].step(STEP * np.arange(STEPS), episode.actions[:, 0], where="post", label=label)
    axes["A"].set(ylabel="error [rad]")
    axes["B"].set(xlabel="time [s]", ylabel="voltage [V]")
    axes["A"].legend()
    save_picture(figure, "servo", out)
    return result


if __name__ == "__main__":
    run(main, __doc__)
