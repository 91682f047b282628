"""Compare policies of one problem in the same new episodes; every script of the gallery ends with it.

A policy is a function without arguments that begins an episode: it returns `act(observation) -> action`, so a
controller may remember what it needs.  Episode k of every policy has the seed `REPORTED` + k, so their returns are
pairs, as far as the environment draws the same random numbers whatever is played.  Rules of the field are tuned on the
seeds from `TUNING` on; agents train on other random numbers.

    env = Room()
    pid = tune(env, make_pid, {"gain": [1, 2, 4], "integral": [0, 0.1]})
    agents = train(Room(), budget=20_000, agents=3)
    comparison = compare("thermostat", env, {"PID": pid}, agents, unit="EUR per day", out=out)
"""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

import spaql
from spaql.export.to_c import count_bytes
from spaql.stats import mean_interval

Policy = Callable[[], Callable[[Any], Any]]
REPORTED, TUNING = 3_000_000, 2_000_000  # first seeds of the episodes
RESULTS = Path(__file__).parents[2] / "docs" / "gallery" / "results"


class Episode(NamedTuple):
    """One episode of a policy."""

    observations: np.ndarray  # [steps + 1, ...]
    actions: np.ndarray  # [steps, ...]
    rewards: np.ndarray  # [steps]
    infos: list[dict[str, Any]]  # of each step


def play(env: Any, policy: Policy, seed: int) -> Episode:
    """Play one episode."""
    act, over = policy(), False
    observation, _ = env.reset(seed=seed)
    observations, actions, rewards, infos = [np.array(observation)], [], [], []
    while not over:
        action = act(observation)
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        observations.append(np.array(observation))
        actions.append(np.array(action))
        rewards.append(float(reward))
        infos.append(info)
    return Episode(np.array(observations), np.array(actions), np.array(rewards), infos)


def score(env: Any, policy: Policy, seeds: Iterable[int], measures: Iterable[str] = ()) -> np.ndarray:
    """Return the return of each episode, and sums over it of numbers in `info`: `[1 + measures, episodes]`."""
    episodes = (play(env, policy, seed) for seed in seeds)
    rows = [[e.rewards.sum(), *(sum(info[name] for info in e.infos) for name in measures)] for e in episodes]
    return np.array(rows, dtype=float).T


def tune(env: Any, make: Callable[..., Policy], grid: Mapping[str, Iterable[Any]], episodes: int = 30) -> Policy:
    """Return the policy `make(**parameters)` with the best mean return of a grid; it has these as `parameters`."""
    candidates = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    seeds = range(TUNING, TUNING + episodes)
    best = max(candidates, key=lambda parameters: score(env, make(**parameters), seeds)[0].mean())
    policy = make(**best)
    policy.parameters = best  # type: ignore[attr-defined]
    return policy


def train(problem: Any, budget: int, agents: int = 3, **environment: Any) -> list[spaql.Tessera]:
    """Train agents with the seeds 0, 1, ... and the usual hyperparameters, each for `budget` environment steps."""
    return [spaql.Tessera(problem, seed=seed, **environment).learn(budget) for seed in range(agents)]


def follow(agent: Any) -> Policy:
    """Return the policy of an agent; where it compares the time step, it counts the steps."""

    def begin() -> Callable[[Any], Any]:
        state = None

        def act(observation: Any) -> Any:
            nonlocal state
            action, state = agent.predict(observation, state)
            return action

        return act

    return begin


def compare(
    name: str,
    env: Any,
    baselines: Mapping[str, Policy],
    agents: list[spaql.Tessera],
    *,
    unit: str,
    out: Path | None,
    episodes: int = 300,
    measures: Iterable[str] = (),
    optimum: Policy | None = None,
    most_rules: int = 12,
) -> dict[str, Any]:
    """Play all policies, print the table, and write NAME.json, NAME.txt (rules) and NAME.c of the first agent.

    The rules of a policy that changes with the time step are those of the first step.

    Parameters
    ----------
    unit
        Of the return, in which more is better.
    out
        Folder for the files; None writes none.
    measures
        Numbers of `info` whose sums over an episode are reported too.
    optimum
        The optimal policy, where it is known; it is reported, but not what the agents are compared with.
    most_rules
        More rules are approximated by so many, whose loss NAME.txt states.
    """
    seeds, names = range(REPORTED, REPORTED + episodes), list(measures)
    played = {label: score(env, policy, seeds, names) for label, policy in baselines.items()}
    ours = np.array([score(env, follow(agent), seeds, names) for agent in agents])  # [agents, 1 + measures, episodes]
    reference = max(played, key=lambda label: played[label][0].mean())
    worst = int(ours[:, 0].mean(axis=1).argmin())
    best = {} if optimum is None else {"exact optimum": score(env, optimum, seeds, names)}
    rows = played | best | {f"Tessera, mean of {len(agents)} agents": ours.mean(axis=0)}
    rows["Tessera, worst agent"] = ours[worst]
    result = {
        "name": name,
        "unit": unit,
        "episodes": episodes,
        "measures": names,
        "training_steps": [agent.num_timesteps for agent in agents],
        "leaves": [len(agent.cells()) for agent in agents],
        "table_bytes": [count_bytes(agent.to_policy()) for agent in agents],
        "reference": reference,
        "tuned": {label: getattr(policy, "parameters", {}) for label, policy in baselines.items()},
        "agents": [_estimate(values[0]) for values in ours],
        "policies": {
            label: _estimate(values[0])
            | {"difference": None if label == reference else _estimate(values[0] - played[reference][0])}
            | {"measures": {key: _estimate(row) for key, row in zip(names, values[1:], strict=True)}}
            for label, values in rows.items()
        },
    }
    result["verdict"] = judge(result)
    print(make_table(result))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        rules = agents[0].rules()
        if len(rules) > most_rules and not agents[0].time_variant:
            rules = agents[0].rules(at_most=most_rules, oblique=False, episodes=max(2, min(episodes, 100)))
        (out / f"{name}.txt").write_text(f"{rules}\n", encoding="utf-8")
        agents[0].export(out / f"{name}.c")
    return result


def _estimate(values: np.ndarray) -> dict[str, float]:
    """Return the mean of values and its 95% interval; with its text."""
    estimate = mean_interval(values)
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "text": str(estimate)}


def judge(result: Mapping[str, Any]) -> str:
    """Return whether the agents' mean is above the best baseline's: better, worse, or no difference."""
    difference = next(row for label, row in result["policies"].items() if "mean of" in label)["difference"]
    if difference["low"] > 0:
        return "better"
    return "worse" if difference["high"] < 0 else "no difference"


def make_table(result: Mapping[str, Any]) -> str:
    """Return the results as a table in Markdown, with its notes."""
    header = ["policy", f"return, {result['unit']}", f"less that of {result['reference']}", *result["measures"]]
    rows = [
        [label, row["text"], row["difference"]["text"] if row["difference"] else ""]
        + [row["measures"][name]["text"] for name in result["measures"]]
        for label, row in result["policies"].items()
    ]
    rules = [":---", *["---:"] * (len(header) - 1)]
    lines = [f"| {' | '.join(row)} |" for row in (header, rules, *rows)]
    steps, leaves, size = (
        _span(result[key], unit)
        for key, unit in (("training_steps", "steps"), ("leaves", "leaves"), ("table_bytes", "bytes"))
    )
    tuned = [
        f"{label}: {', '.join(f'{name} {value:.4g}' for name, value in parameters.items())}."
        for label, parameters in result["tuned"].items()
        if parameters
    ]
    note = (
        f"{result['episodes']:,} new episodes, the same for all policies; 95% intervals of the mean over episodes. "
        f"Each agent learned from {steps}, and has {leaves}; in C, its tables take {size}."
    )
    return "\n".join(
        [*lines, "", " ".join([note, *(["Tuned beforehand, not on these episodes:", *tuned] if tuned else [])])]
    )


def _span(numbers: list[int], unit: str) -> str:
    """Return numbers as text: one, or the least and the largest."""
    least, most = min(numbers), max(numbers)
    return f"{least:,} {unit}" if least == most else f"{least:,} to {most:,} {unit}"


def save_picture(figure: Any, name: str, out: Path | None) -> None:
    """Write a matplotlib figure as NAME.png, of at most 96 colours, so that it stays small."""
    if out is not None:
        figure.savefig(out / f"{name}.png", dpi=110)
        with Image.open(out / f"{name}.png") as picture:
            small = picture.convert("RGB").quantize(96)
        small.save(out / f"{name}.png", optimize=True)


def run(main: Callable[..., Any], description: str | None) -> None:
    """Call `main(out=...)` with the folder that the command line names."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results (docs/gallery/results)")
    main(out=parser.parse_args().out)
