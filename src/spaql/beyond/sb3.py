"""DQN, PPO and SAC of Stable-Baselines3 with their default settings, at the budgets of `spaql control`.

Each agent is trained on the environment of Gymnasium and scored on 200 fresh episodes; DQN where actions are numbered,
SAC where they are not, PPO on all.  Results are kept after every agent in `sb3.json` of the study's folder, so that a
study that was stopped goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from tqdm import tqdm

from spaql.beyond.control import Task
from spaql.errors import ParameterError
from spaql.output import check_folder
from spaql.training import shown

NAME = "sb3.json"
_EPISODES = 200
_EVALUATION_SEED = 1_000_000


def measured(
    folder: str | os.PathLike[str], tasks: Sequence[Task], *, seeds: int, progress_bar: bool | None = None
) -> list[dict[str, Any]]:
    """Rows `agent`, `problem`, `seed`, `mean`, `steps`: those of the folder, and the missing ones run now."""
    try:
        import stable_baselines3 as sb3
        from stable_baselines3.common.evaluation import evaluate_policy
    except ModuleNotFoundError:
        raise ParameterError("--with-sb3: Stable-Baselines3 is not installed; install spaql[sb3]") from None
    path = check_folder(folder) / NAME
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    done = {(row["agent"], row["problem"], row["seed"]) for row in rows}
    wanted = [(name, task, seed) for task in tasks for name in _names(task) for seed in range(seeds)]
    todo = [each for each in wanted if (f"{each[0]} (SB3)", each[1].problem, each[2]) not in done]
    with tqdm(todo, unit="agent", desc="Stable-Baselines3", disable=not shown(progress_bar)) as bar:
        for name, task, seed in bar:
            bar.set_postfix_str(f"{name} on {task.environment}")
            model = getattr(sb3, name)("MlpPolicy", gymnasium.make(task.environment), seed=seed, device="cpu")
            model.learn(task.budget)
            fresh = gymnasium.make(task.environment)
            fresh.reset(seed=_EVALUATION_SEED + seed)
            returns, _ = evaluate_policy(
                model, fresh, n_eval_episodes=_EPISODES, return_episode_rewards=True, warn=False
            )
            rows.append(
                {
                    "agent": f"{name} (SB3)",
                    "problem": task.problem,
                    "seed": seed,
                    "mean": float(np.mean(returns)),
                    "steps": task.budget,
                }
            )
            _keep(path, rows)
    return rows


def _names(task: Task) -> tuple[str, ...]:
    numbered = isinstance(gymnasium.make(task.environment).action_space, gymnasium.spaces.Discrete)
    return ("DQN", "PPO") if numbered else ("SAC", "PPO")


def _keep(path: Path, rows: list[dict[str, Any]]) -> None:
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(rows, indent=1) + "\n")
    os.replace(draft, path)
