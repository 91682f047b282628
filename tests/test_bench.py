"""The benchmark runs, and what it measures is what it says; its figures are not asserted, clocks are noisy."""

import json

import numpy as np
import pytest

from spaql import bench, kernels
from spaql.agents import SPAQL, PublishedSPAQL
from spaql.problems import oil
from spaql.rng import stream


def test_paper_has_twelve_problems():
    names = [problem.name for problem, _ in bench.paper_problems()]
    assert len(set(names)) == 12
    assert [iterations for _, iterations in bench.paper_problems()] == [5000] * 6 + [2000] * 6


@pytest.mark.parametrize("cells", [100, 1000])
def test_partition_along_a_policy_has_the_asked_size(cells):
    partition = bench.along_policy(cells)
    assert cells - 3 <= len(partition) <= cells
    view = partition.view()
    near = np.abs(0.5 * (view.action_low + view.action_high) - 0.2 - 0.3 * (view.state_low + view.state_high)).ravel()
    assert view.depth[near < 0.02].mean() > view.depth[near > 0.3].mean() + 1


def test_dense_partition_is_even():
    assert (bench.dense(3).view().depth == 3).all()


def test_learning_steps_keep_the_index_true():
    partition = bench.along_policy(300)
    bench.learning_steps(partition.forest, 200, 1.0, stream(0, 0), np.zeros((1, 1)), np.zeros((1, 1)))
    view = partition.view()
    for x in np.linspace(0.0, 1.0, 65):
        cell = kernels.best(partition.forest, 0, np.array([[x]]), 0)
        inside = ((view.state_low <= x) & ((x < view.state_high) | (view.state_high == 1.0))).ravel()
        assert partition.forest.cells["q"][cell] == view.q[inside].max()


def test_simulation_plays_as_many_steps_as_training():
    problem = oil()
    agent = PublishedSPAQL(problem).learn(10)
    _, steps, _ = bench._simulation(problem, 10 * 21)()
    assert steps == agent.training_steps + agent.selection_steps - 100  # the score of the untrained agent
    assert bench._simulation(problem, 10)()[1] == SPAQL(problem).learn(10).training_steps


@pytest.mark.compiled_only
def test_whole_benchmark_on_a_small_scale(monkeypatch):
    monkeypatch.setattr(bench, "REPEATS", 1)
    monkeypatch.setattr(bench, "CELLS", (100, 1000))
    monkeypatch.setattr(bench, "DENSE", (2, 3))
    monkeypatch.setattr(bench, "_LEARNING_STEPS", 1000)
    monkeypatch.setattr(bench, "paper_problems", lambda: [(oil(), 50)])
    monkeypatch.setattr(
        bench, "start_times", lambda bar: dict.fromkeys(["help_seconds", "train_seconds", "first_use_seconds"], 0.0)
    )
    figures = json.loads(json.dumps(bench.measure(progress_bar=False)))
    assert [row["algorithm"] for row in figures["ratio_to_simulation"]] == ["spaql", "spaql-published", "aql"]
    assert set(figures["ratio_to_textbook"]) == {"spaql-published", "aql"}
    assert figures["bytes_per_cell"] <= 64
    assert "worst of 3" in bench.text(figures)
