"""Runs as data: an id that finds its run again, what a run returns, and the code that computes it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spaql
from spaql.errors import ParameterError, StoreError
from spaql.runner.code_version import code_version, computing_modules
from spaql.runner.execute import execute, grid
from spaql.runner.run_spec import Run, from_specification, seed_at, seeds_at
from spaql.runner.store import Store

OIL = {"survey": "laplace", "sharpness": 10}


def run(seed=0, **changes):
    settings = {"algorithm": "spaql", "parameters": {"scaling": 0.5}, "iterations": 20, "episodes": 10}
    settings |= changes
    return Run("oil", OIL, seed=seed, **settings)


def test_the_id_depends_on_everything_that_decides_the_numbers_and_on_nothing_else():
    same = [
        run(),
        Run("oil", dict(reversed(OIL.items())), "spaql", {"scaling": 0.5}, 0, 20, 10),
        Run("oil", OIL | {"sharpness": 10.0}, "spaql", {"scaling": 0.5}, 0, 20, 10),
    ]
    same[1].cost  # noqa: B018  (what was asked of it before must not matter)
    assert len({each.id for each in same}) == 1
    others = [
        run(seed=1),
        run(algorithm="aql"),
        run(parameters={"scaling": 0.25}),
        run(iterations=21),
        run(episodes=11),
        run(points=3),
        run(moments=3),
        run(moment_episodes=3),
        run(watch=(0,)),
        Run("oil", OIL | {"sharpness": 11}, "spaql", {"scaling": 0.5}, 0, 20, 10),
    ]
    assert len({each.id for each in [same[0], *others]}) == 1 + len(others)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), np.float64("-inf")])
def test_numbers_of_a_run_are_finite(value):
    with pytest.raises(ParameterError, match=r"^parameters\.scaling: expected a finite number, got -?(inf|nan)$"):
        run(parameters={"scaling": value}).id  # noqa: B018
    with pytest.raises(ParameterError, match=r"^environment\.bounds\.angle: expected a finite number"):
        run(environment={"bounds": {"angle": [0, value]}}).id  # noqa: B018


@pytest.mark.parametrize("algorithm", ["tessera", "spaql", "aql"])
def test_looking_on_changes_nothing(algorithm):
    which = {"algorithm": algorithm, "parameters": {} if algorithm == "tessera" else {"scaling": 0.5}}
    plain = execute(run(**which))
    watched = execute(run(**which, points=5, moments=6, moment_episodes=4, watch=(0,)))
    assert plain.scalars == watched.scalars
    returns = {"episode", "return_sum"}
    assert set(plain.arrays) == returns
    for name in returns:
        np.testing.assert_array_equal(plain.arrays[name], watched.arrays[name])
    curves = {*returns, "iteration", "training_score", "cells", "steps", "moment", "evaluation", "moment_cells"}
    assert set(watched.arrays) == {*curves, "frames", "policies"}


def test_a_run_is_what_the_agent_does():
    record = execute(run(seed=7, points=5, moments=4, moment_episodes=6))
    problem = spaql.problems.oil(**OIL)
    agent = spaql.SPAQL(problem, scaling=0.5, seed=7).learn(iterations=20)
    assert record.scalars["training_score"] == agent.selection_score
    assert record.scalars["evaluation"] == agent.evaluate(10).mean
    assert record.scalars["training_steps"] == 100
    np.testing.assert_array_equal(
        record.arrays["training_score"], agent.history["best"][record.arrays["iteration"] - 1]
    )
    for moment, fresh in zip(record.arrays["moment"], record.arrays["evaluation"], strict=True):
        then = spaql.SPAQL(problem, scaling=0.5, seed=7).learn(iterations=int(moment))
        assert fresh == then.evaluate(6).mean


@pytest.mark.parametrize(("iterations", "count"), [(5000, 80), (5000, 20), (60, 10), (3, 10), (1, 4), (10, 0)])
def test_grid(iterations, count):
    at = grid(iterations, count)
    if count == 0:
        assert at.size == 0
        return
    assert at[0] == 1
    assert at[-1] == iterations
    assert (np.diff(at) > 0).all()
    assert at.size <= count


def test_a_run_is_made_again_from_its_specification():
    first = run(seed=2**64 - 1, points=3, watch=(0,), environment={"bounds": {"seed": [0, 1]}})
    again = from_specification(first.specification)
    assert (again.id, again.specification, again.seed) == (first.id, first.specification, first.seed)
    assert again.watch == (0,)


def test_many_seeds_are_what_one_by_one_would_be():
    assert seeds_at(12, 3, "oil", 0.5) == [seed_at(3, "oil", 0.5, number) for number in range(12)]


def test_runs_of_one_kind_differ_in_their_seeds_only():
    first = run(parameters={"scaling": 0.5, "seed": 3}, watch=(0, 1))
    for seed in (0, 7, 2**64 - 1):
        other = first.with_seed(seed)
        assert other.id == run(seed=seed, parameters={"scaling": 0.5, "seed": 3}, watch=(0, 1)).id
        assert other.kind == first.kind
        assert other.cost == first.cost
    assert run(iterations=21).kind != run().kind
    seeds = [0, 7, 2**64 - 1]
    assert run().ids(seeds) == [run(seed=seed).id for seed in seeds]


def test_names_that_do_not_exist():
    with pytest.raises(ParameterError, match="gas"):
        execute(Run("gas", {}, "aql", {}, 0, 1, 2))
    with pytest.raises(ParameterError, match=r"problem 'nowhere:Gas-v0': there is no module 'nowhere' here; start in"):
        execute(Run("nowhere:Gas-v0", {}, "aql", {}, 0, 1, 2))
    with pytest.raises(ParameterError, match="algorithm: 'dqn' is not one of"):
        execute(run(algorithm="dqn"))


USES = """
import sys
import spaql
from spaql.agents import algorithms
from spaql.runner.execute import execute
from spaql.runner.run_spec import Run
for name, entry in algorithms().items():
    execute(Run(entry.home, {}, name, entry.example, 0, int(entry.learns), 2, points=1))
execute(Run("CartPole-v1", {"sutton_barto_reward": True}, "tessera", {}, 0, 0, 2, budgets=(2000,)))
execute(Run("spaql/Oil-v0", {}, "random", {}, 0, 0, 2))
print(*(m for m in sys.modules if m.startswith("spaql.")))
"""


@pytest.mark.compiled_only
def test_every_module_that_a_run_uses_is_part_of_the_code(tiny_plans_of_children):
    environ = os.environ | {"NUMBA_DISABLE_JIT": "1"}  # quicker: each kernel runs once or twice
    call = [sys.executable, "-W", "ignore", "-c", USES]
    used = subprocess.run(call, env=environ, capture_output=True, text=True, check=True).stdout.split()
    computing = set(computing_modules())
    assert set(used) - computing <= {"spaql._version"}
    assert "spaql.gym.environments" in computing
    assert not [name for name in computing if name.split(".")[1] in ("viz", "explain", "export", "studies", "cli")]


@pytest.fixture
def copy(tmp_path):
    """Files of the library, to be edited, and the version of that code."""
    root = tmp_path / "spaql"
    shutil.copytree(Path(spaql.__file__).parent, root, ignore=shutil.ignore_patterns("__pycache__"))

    def version():
        script = "from spaql.runner.code_version import code_version; print(code_version())"
        environ = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True).stdout

    return root, version


def test_docstrings_and_comments_are_not_code_and_everything_else_is(copy):
    root, version = copy
    before = version()
    assert before == f"{code_version()}\n"
    loggers, problem, chart = root / "agents/loggers.py", root / "gym/environments.py", root / "viz/charts.py"
    text = loggers.read_text()
    loggers.write_text("# A comment.\n" + text.replace(ast.get_docstring(ast.parse(text), clean=False), "Another."))
    chart.write_text(chart.read_text() + "\nANOTHER = 1\n")
    assert version() == before
    problem.write_text(problem.read_text() + "\nANOTHER = 1\n")
    assert version() != before


def test_runs_of_other_code_are_not_mixed(tmp_path):
    with Store(tmp_path / "runs.sqlite", code=code_version()):
        pass
    with pytest.raises(StoreError, match="was filled by other code"):
        Store(tmp_path / "runs.sqlite", code="spaql 9.9, 0123456789ab")
