"""Agents as pictures and pages need them: the policy view of `agent.plot`, and the page of `spaql show`.

Making a page plays two things on random numbers of their own: the probe of `agent.diagnose`, and one episode of the
greedy policy.  Where the environment cannot be played the page says so and is made without.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from spaql.agents.base import Agent, Names
from spaql.agents.evaluation import describe_record
from spaql.agents.registry import algorithms, name_of
from spaql.atomic_io import write_file
from spaql.errors import SpaqlError
from spaql.export import make_content
from spaql.gym.environments import open_environment
from spaql.partition.rng import Purpose
from spaql.problems.labels import make_labels
from spaql.viz.html import Download
from spaql.viz.inspector import Episode, Evaluation, RuleList, Subject, render_inspector
from spaql.viz.policy_plot import PolicyView
from spaql.viz.recording import play

_MOST_STEPS = 2000  # of the episode
_MOST_CELLS = 5000  # of a policy whose rules and programs are on the page
_MOST_RULES = 400
_LARGEST = 200_000  # bytes of a program on the page
_PROGRAMS = {
    "policy.py": "Python: a function act, no imports",
    "policy.c": "C99: a function policy_act, no libraries",
    "policy.json": "JSON: the decision tree, for readers in other languages",
}


def view_policy(agent: Agent, names: Names = None, actions: Names = None) -> PolicyView:
    """Return the view of an agent's policy; see `Agent.plot` for the names."""
    agent._require_training()
    entry = algorithms().get(name_of(agent))
    label = type(agent).__name__ if entry is None else entry.label
    labels = make_labels(agent.problem, names, actions)
    return PolicyView(agent.problem, agent._read_policy(), labels, label, agent.bonus_scale)


def make_page(agents: Sequence[Agent], *, seed: int = 0, names: Names = None, actions: Names = None) -> str:
    """Return the page of one trained agent, or of two side by side, to be written as UTF-8.

    `seed` is that of the episode; `names` and `actions` are as in `Agent.plot`.
    """
    return render_inspector([_inspect(agent, seed, names, actions) for agent in agents])


def write_page(agents: Sequence[Agent], path: str | os.PathLike[str], *, seed: int = 0) -> Path:
    """Write the page of one agent or two, whole or not at all, and return its path."""
    target = Path(path)
    write_file(target, make_page(agents, seed=seed).encode())
    return target


def page_beside(*agents: str | os.PathLike[str]) -> Path:
    """Return the usual path of a page: next to the first agent, named after the files or folders of all of them."""
    places = [Path(agent) for agent in agents]
    folder = places[0] if places[0].is_dir() else places[0].parent
    stems = [place.resolve().name if place.is_dir() else place.stem for place in places]
    return folder / ("-".join(stem or "agent" for stem in stems) + ".html")


def _inspect(agent: Agent, seed: int, names: Names, actions: Names) -> Subject:
    view = view_policy(agent, names, actions)
    warnings: list[str] = []
    episode, note = None, ""
    try:
        warnings = [str(warning) for warning in agent.diagnose()]
        episode = _play_episode(agent, seed)
    except Exception as error:  # whatever an environment may raise: the policy can be shown all the same
        first = (str(error).splitlines() or [""])[0]
        reason = first if isinstance(error, SpaqlError) else f"{type(error).__name__}: {first}"
        note = f"The environment could not be played ({reason}), so that the diagnosis may be incomplete and there is "
        note += "no episode."
    history, score, evaluation = agent.history, agent.selection_score, _describe_evaluation(agent)
    record = agent.recorded_evaluation
    rollouts = "training_return" in (history.dtype.names or ()) and agent.get_params().get("rollouts")
    rules, rules_note = _list_rules(agent, view, names, actions)
    return Subject(
        view=view,
        steps=agent.num_timesteps,
        evaluation=evaluation,
        recorded=None if record is None else Evaluation(**{name: record[name] for name in Evaluation._fields}),
        score="own rollouts" if rollouts else "training episodes",
        facts={
            "evaluation": evaluation,
            "training score": "none" if score is None or agent.restored_from else f"{score:.6g}",
            "iterations": f"{agent.iterations:,}",
            **({} if agent.restored_from is None else {"policy restored from step": f"{agent.restored_from:,}"}),
            "training steps": f"{agent.training_steps:,}",
            "selection steps": f"{agent.selection_steps:,}",
            "seed": str(agent.seed),
        },
        parameters={name: value for name, value in agent.get_params().items() if name != "seed"},
        history={name: history[name] for name in ("score", "cells", "splits")},
        warnings=warnings,
        episode=episode,
        note=note,
        model=None if agent.model is None else agent.model.table(names),
        rules=rules,
        rules_note=rules_note,
        programs=[] if len(view.partition) > _MOST_CELLS else _make_programs(agent, names, actions),
    )


def _list_rules(agent: Agent, view: PolicyView, names: Names, actions: Names) -> tuple[list[RuleList], str]:
    """Return the rules of every time step, and a sentence where some of them are left out."""
    count = len(view.partition)
    if count > _MOST_CELLS:
        return [], f"{view.title} has {count:,} cells, too many for a list of rules here; spaql rules prints one."
    lists: list[RuleList] = []
    step, total = 0, 0
    while step < view.partition.steps:
        rules = agent.rules(step=step, names=names, actions=actions)
        first, last = rules.steps if agent.time_variant else (0, view.partition.steps - 1)
        total += len(rules)
        if lists and total > _MOST_RULES:
            note = f"{view.title}: the rules of steps {first} to {view.partition.steps - 1} are left out; spaql rules "
            return lists, note + "--step prints them."
        span = "" if not agent.time_variant else f", step {first}" if first == last else f", steps {first} to {last}"
        table = rules.table(f"{view.title}{span}: {len(rules):,} rule{'' if len(rules) == 1 else 's'}")
        limits = [
            [(c["number"], *(c.get("fractions") or (c["low"], c["high"]))) for c in rule["conditions"]]
            for rule in rules.to_dict()["rules"]
        ]
        lists.append(RuleList(first, last, table, limits))
        step = last + 1
    return lists, ""


def _make_programs(agent: Agent, names: Names, actions: Names) -> list[Download]:
    """Return the exported policy in each language in which it is small enough for a page."""
    policy, programs = agent.to_policy(names=names, actions=actions), []
    for name, note in _PROGRAMS.items():
        content = make_content(policy, Path(name))
        program = Download(name, content.encode() if isinstance(content, str) else content, note)
        programs += [program] if len(program.content) <= _LARGEST else []
    return programs


def _play_episode(agent: Agent, seed: int) -> Episode:
    """Play an episode of the greedy policy, up to a length that can still be looked at."""
    points, rewards, terminated = [], [], False
    with closing(agent.problem.for_evaluation(0)) as problem:
        environment, _ = open_environment(problem, seed, Purpose.TRAINING_ENVIRONMENT)
        for observation, reward, terminated in play(agent, environment, seed):  # noqa: B007  (the last one counts)
            points.append(agent.problem.states.from_unit(agent.problem.encode(observation)[0][0]))
            if reward is not None:
                rewards.append(reward)
            if len(rewards) == _MOST_STEPS:
                break
    return Episode(np.array(points), np.array(rewards), terminated)


def _describe_evaluation(agent: Agent) -> str:
    """Return the recorded evaluation, and when it was, where the agent has learned since; nothing without one."""
    score = agent.recorded_evaluation
    return "" if score is None else describe_record(score, agent.iterations)
