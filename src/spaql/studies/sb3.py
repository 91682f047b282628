"""DQN, PPO and SAC of Stable-Baselines3 with their default settings, at the budgets of `spaql control`.

Each agent is trained on the environment of Gymnasium and scored on fresh episodes; DQN where actions are numbered, SAC
where they are not, PPO on all.  Results are kept after every agent in `sb3.json` of the study's folder, so that a study
that was stopped goes on: a row is found again by all that it depends on, `_PLACE`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from tqdm import tqdm

from spaql.agents.training import shown
from spaql.atomic_io import check_folder, write_files
from spaql.errors import ParameterError, StoreError
from spaql.runner.run_spec import seed_at
from spaql.studies.control import Task

NAME = "sb3.json"
_PLACE = ("agent", "problem", "seed", "budget", "episodes", "version")
_SEEDS = 2**31  # Stable-Baselines3 takes no larger ones


def package() -> Any:
    """Stable-Baselines3, or a sentence about how to install it."""
    try:
        import stable_baselines3
    except ImportError:
        raise ParameterError(
            "--with-sb3: Stable-Baselines3 is missing; install it with: pip install 'spaql[sb3]'"
        ) from None
    return stable_baselines3


def measure(
    folder: str | os.PathLike[str],
    tasks: Sequence[Task],
    *,
    agents: int,
    episodes: int,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> list[dict[str, Any]]:
    """A row for each agent: those that the folder has, and the missing ones run now.

    Parameters
    ----------
    folder
        Of the study; no other process may use it.
    tasks
        What to learn, and for how many steps.
    agents, episodes
        How many of each kind on each task, and how many fresh episodes score one.
    seed
        Of the study.
    progress_bar
        None shows it on a terminal.

    Returns
    -------
    rows
        `agent`, `problem`, `seed`, `budget`, `episodes` and `version` of Stable-Baselines3; the `mean` return, and the
        environment `steps` that were played, which for PPO are whole batches.
    """
    version = str(package().__version__)
    path = check_folder(folder) / NAME
    rows = {_place(row): row for row in _kept(path)}
    wanted = {_place(row): (name, task, row) for name, task, row in _wanted(tasks, agents, episodes, seed, version)}
    todo = [each for place, each in wanted.items() if place not in rows]
    before = len(wanted) - len(todo)
    about = {"unit": "agent", "desc": "Stable-Baselines3", "disable": not shown(progress_bar)}
    with tqdm(total=len(wanted), initial=before, **about) as bar:
        for name, task, row in todo:
            bar.set_postfix_str(f"{name} on {task.environment}")
            rows[_place(row)] = row | _scored(name, task, row["seed"], episodes)
            write_files(path.parent, {NAME: json.dumps(list(rows.values()), indent=1, allow_nan=False) + "\n"})
            bar.update()
    return [rows[place] for place in wanted]


def _wanted(
    tasks: Sequence[Task], agents: int, episodes: int, seed: int, version: str
) -> Iterator[tuple[str, Task, dict[str, Any]]]:
    """Who learns what, and the row of each without its result."""
    for task in tasks:
        with closing(gymnasium.make(task.environment)) as environment:
            numbered = isinstance(environment.action_space, gymnasium.spaces.Discrete)
        for name in ("DQN", "PPO") if numbered else ("SAC", "PPO"):
            for agent in range(agents):
                own = seed_at(seed, "control", name, task.problem, agent) % _SEEDS
                values = f"{name} (SB3)", task.problem, own, task.budget, episodes, version
                yield name, task, dict(zip(_PLACE, values, strict=True))


def _scored(name: str, task: Task, seed: int, episodes: int) -> dict[str, Any]:
    """What an agent reached, and the steps that it learned from."""
    from stable_baselines3.common.evaluation import evaluate_policy

    make = partial(gymnasium.make, task.environment)
    with _one_thread(), closing(make()) as env, closing(make()) as fresh:
        model = getattr(package(), name)("MlpPolicy", env, seed=seed, device="cpu")
        model.learn(task.budget)
        fresh.reset(seed=seed_at(seed, "fresh") % _SEEDS)
        returns, _ = evaluate_policy(model, fresh, n_eval_episodes=episodes, return_episode_rewards=True, warn=False)
    return {"mean": float(np.mean(returns)), "steps": int(model.num_timesteps)}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Their networks are small: several threads would wait for each other, and their number would change results."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _PLACE)


def _kept(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none where there is no file."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        for row in rows:
            hash(_place(row))
            if not math.isfinite(row["mean"]):
                raise ValueError("a score that is no number")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be read: {error.strerror}; choose another folder") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(f"{str(path)!r} is damaged; restore a copy of it, or move it away to start anew") from None
    return list(rows)
