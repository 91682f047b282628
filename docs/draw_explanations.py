"""Draw the pictures of the explanation pages, and write docs/study/world-model.json: `make docs-pictures`."""

import io
import json
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import spaql

HERE = Path(__file__).parent / "images"
STAGES = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200)  # training episodes of the frames
LOOKED_AT = (0, 3, 6, 9)  # frames of the strip
AHEAD = 60  # steps that the model predicts from one observation


def draw_partition() -> None:
    """SPAQL's partition of oil discovery while it learns: an animation, which plays twice, and four frames of it."""
    agent = spaql.SPAQL(spaql.problems.oil(survey="quadratic", sharpness=10), scaling=0.5, seed=0)
    frames = []
    for stage in STAGES:
        agent.learn(iterations=stage - agent.iterations)
        figure = Figure(figsize=(5.4, 4.2), layout="constrained")
        axes = figure.subplots()
        agent.plot(ax=axes)
        figure.suptitle(f"after {stage:,} training episode{'s' if stage > 1 else ''}", fontsize=10)
        frames.append(to_image(figure, 90))
    first, *others = (frame.quantize(64) for frame in frames)
    times = [900] * (len(frames) - 1) + [4000]
    first.save(HERE / "adaptive-partition.gif", save_all=True, append_images=others, duration=times, loop=1)
    width, height = frames[0].size
    strip = Image.new("RGB", (2 * width, 2 * height), "white")
    for at, number in enumerate(LOOKED_AT):
        strip.paste(frames[number], (at % 2 * width, at // 2 * height))
    strip.quantize(96).save(HERE / "adaptive-partition.png", optimize=True)
    print(f"partition: {len(agent.cells())} cells, {agent.num_timesteps:,} steps")


def draw_model() -> None:
    """What models of Pendulum predict far ahead, beside what happens, and returns in both."""
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = []
    for steps, colour in ((1_000, "tab:orange"), (5_000, "tab:blue")):
        agent = spaql.Tessera("Pendulum-v1", seed=0).learn(steps)
        errors = []
        for number in range(20):
            recorded, predicted = play_beside_model(agent, number)
            errors.append(np.abs(recorded - predicted)[:, 2])  # of the angular velocity
            if number == 0 and steps == 5_000:
                left.plot(recorded[:, 2], "black", label="environment")
                left.plot(predicted[:, 2], colour, linestyle="--", label="model, with the same actions")
        right.plot(np.median(errors, axis=0), colour, label=f"model after {steps:,} steps")
        simulated = np.mean([episode.rewards.sum() for episode in agent.simulate(200)])
        evaluation = agent.evaluate(200)
        low, high = evaluation.interval
        rows.append({"steps": steps, "simulated": simulated, "mean": evaluation.mean, "low": low, "high": high})
        print(f"after {steps:,} steps: {evaluation} in the environment, {simulated:.1f} in the model")
    left.set(xlabel="steps ahead", ylabel="angular velocity", title="One episode")
    right.set(xlabel="steps ahead", ylabel="median error, 20 episodes", title="Errors of predictions", yscale="log")
    right.set_ylim(1e-4, 10.0)
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    (HERE.parent / "study" / "world-model.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    to_image(figure, 100).quantize(96).save(HERE / "world-model.png", optimize=True)


def play_beside_model(agent: spaql.Tessera, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Observations `[AHEAD + 1, 3]` of an episode, and the model's predictions from the first one and the actions."""
    env = agent.problem.env
    observation, _ = env.reset(seed=1000 + number)
    recorded, predicted = [observation], [observation]
    for _ in range(AHEAD):
        action, _ = agent.predict(observation)
        predicted.append(agent.model.predict(predicted[-1], action).observation)
        observation, *_ = env.step(action)
        recorded.append(observation)
    return np.array(recorded), np.array(predicted)


def to_image(figure: Figure, dpi: int) -> Image.Image:
    """Return a figure as a picture."""
    file = io.BytesIO()
    figure.savefig(file, dpi=dpi)
    return Image.open(file).convert("RGB")


def main() -> None:
    """Draw all pictures."""
    matplotlib.use("Agg")
    draw_partition()
    draw_model()


if __name__ == "__main__":
    main()
