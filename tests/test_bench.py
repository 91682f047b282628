"""The benchmark runs, and what it measures is what it says; its figures are not asserted, clocks are noisy."""

import json

import benchmarks as bench
import gymnasium
import numpy as np
import pytest
from benchmarks import cluster, outputs, partitions, planning, processes, stores, training

from spaql.agents import SPAQL, Tessera
from spaql.agents.tessera.planner import make_plan
from spaql.cli import main
from spaql.partition import kernels
from spaql.partition.rng import stream
from spaql.problems import PROBLEMS, oil
from spaql.problems.control import GYMNASIUM

pytestmark = [pytest.mark.tiny_planning, pytest.mark.usefixtures("tiny_plans_of_children")]
KEYS = {"ratio_to_simulation", "ratio_to_gymnasium", "compiled_to_gymnasium", "ratio_to_textbook", "growth"}
KEYS |= {"growth_local", "growth_dense", "bytes_per_cell", "predict_per_second", "threads", "memory", "export", "show"}
KEYS |= {"files", "cluster", "tables", "start", "sweeps", "planning"}
SWEEPS = {"runs", "ms_per_run", "throughput_to_bare", "megabytes", "store_ms_per_run", "finished", "resume_seconds"}


def test_paper_has_twelve_problems():
    names = [make().name for make, _ in training.PAPER]
    assert len(set(names)) == 12
    assert [iterations for _, iterations in training.PAPER] == [5000] * 6 + [2000] * 6


@pytest.mark.parametrize("cells", [100, 1000])
def test_partition_along_a_policy_has_the_asked_size(cells):
    partition = partitions.refine_policy(cells)
    assert cells - 3 <= len(partition) <= cells
    view = partition.view()
    near = np.abs(0.5 * (view.action_low + view.action_high) - 0.2 - 0.3 * (view.state_low + view.state_high)).ravel()
    assert view.depth[near < 0.02].mean() > view.depth[near > 0.3].mean() + 1


def test_dense_partition_is_even():
    assert (partitions.make_dense(3).view().depth == 3).all()


def test_learning_steps_keep_the_index_true():
    partition = partitions.refine_policy(300)
    partitions.learning_steps(partition.forest, 200, 1.0, stream(0, 0), np.zeros((1, 1)), np.zeros((1, 1)))
    view = partition.view()
    for x in np.linspace(0.0, 1.0, 65):
        cell = kernels.find_best(partition.forest, 0, np.array([[x]]), 0)
        inside = ((view.state_low <= x) & ((x < view.state_high) | (view.state_high == 1.0))).ravel()
        assert partition.forest.cells["q"][cell] == view.q[inside].max()


def test_simulation_plays_as_many_steps_as_training():
    problem = oil()
    agent = SPAQL(problem).learn(iterations=10)
    assert (
        training.make_simulation(problem, 10 * 21)() == agent.training_steps + agent.selection_steps - 100
    )  # the score of the untrained agent
    assert training.make_simulation(problem, 10)() == Tessera(problem).learn(iterations=10).training_steps


def test_planning_is_a_part_of_all_the_time():
    row = planning.measure_agent("cartpole", 2_000)
    assert (
        0.0 < row["planning_seconds"] < row["share_of_planning"] * (row["learning_seconds"] + row["planning_seconds"])
    )
    assert row["share_of_planning"] < 1.0
    assert planning.tessera.make_plan is make_plan


def test_without_a_compiler_exports_are_not_timed(monkeypatch):
    monkeypatch.setattr(training, "CONTROL", (("pendulum", "Pendulum-v1", 400),))
    monkeypatch.setattr(outputs, "EXPORTED", ("pendulum",))
    monkeypatch.setattr(outputs, "find_compiler", lambda: None)
    [row] = outputs.export(print)["export"]
    tree = Tessera("pendulum").learn(total_timesteps=400).tree()
    assert (row["nodes"], row["depth"]) == (len(tree.dims), tree.depth)
    assert row["table_bytes"] < row["file_bytes"]
    assert row["ns_per_decision"] is None
    assert row["ratio_to_predict"] is None


def test_control_is_that_of_the_study_and_of_gymnasium():
    assert {name: environment for name, environment, _ in training.CONTROL} == GYMNASIUM
    assert set(training.LOOPS) <= set(GYMNASIUM.values())
    assert set(processes.LARGE) <= set(GYMNASIUM)
    assert [steps for _, environment, steps in training.CONTROL if environment in training.LOOPS] == [
        50_000,
        20_000,
    ]


@pytest.mark.parametrize("name", ["cartpole", "pendulum", "mountaincar"])
def test_simulation_draws_from_all_actions(name):
    """Random actions end an episode of CartPole after about 22 steps; a constant one after 9."""
    problem = PROBLEMS[name]()
    steps = training.make_simulation(problem, 200)()
    lengths = {"cartpole": (19, 26), "pendulum": (200, 200), "mountaincar": (195, 200)}
    assert lengths[name][0] <= steps / 200 <= lengths[name][1]


@pytest.mark.parametrize("sampling", [True, False])
@pytest.mark.parametrize("environment", training.LOOPS)
def test_the_bare_loop_plays_all_steps_with_random_actions(environment, sampling, monkeypatch):
    played, resets = [], []

    class Watched(gymnasium.Wrapper):
        def step(self, action):
            played.append(action)
            return self.env.step(action)

        def reset(self, **options):
            resets.append(len(played))
            return self.env.reset(**options)

    make = gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda name: Watched(make(name)))
    loop = training.prepare_loop(environment, 450, sampling)
    assert (played, resets) == ([], [])
    assert loop() == len(played) == 450
    assert len(np.unique(np.array(played))) == (2 if environment == "CartPole-v1" else 450)
    assert resets[:1] == [0]
    assert resets[1:] == [200, 400] or environment == "CartPole-v1"
    assert len(resets) > 10 or environment == "Pendulum-v1"


def test_paces_are_per_step_and_in_turn(monkeypatch):
    clock, order = [0.0], []

    def ready(name, lasts, steps):
        def work():
            order.append(name)
            clock[0] += lasts
            return steps

        def prepared():
            clock[0] += 100.0  # counts for nothing
            return work

        return prepared

    monkeypatch.setattr(bench.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(bench, "REPEATS", 3)
    ours, bare, other = bench.measure_in_turn(ready("ours", 6.0, 2), ready("bare", 3.0, 3), ready("other", 8.0, 1))
    assert [bench.median_ratio(ours, baseline) for baseline in (bare, other)] == [3.0, 0.375]
    assert order == ["ours", "bare", "other"] * 3


def test_a_large_agent_has_the_asked_size_and_a_true_index():
    agent = partitions.make_large_agent(2000)
    assert 2000 - 15 <= len(agent.cells()) <= 2000
    policy = agent._policy()
    points = np.random.default_rng(0).random((200, 4))
    cells = policy.greedy(points, np.zeros(200, np.int64))
    low, high = policy.node_boxes()
    nodes = policy.forest.cells["node"][: len(policy)]
    q = policy.forest.cells["q"][: len(policy)]
    for point, cell in zip(points, cells, strict=True):
        inside = ((low[nodes] <= point) & (point < high[nodes])).all(axis=1)
        assert q[cell] == q[inside].max()


def test_showing_is_measured_as_a_whole_command(monkeypatch, capsys):
    monkeypatch.setattr(outputs, "_SHOWN_CELLS", 500)
    monkeypatch.setattr(outputs.subprocess, "run", lambda call, **options: main(call[3:]))
    figures = outputs.show(print)["show"]
    assert 450 < figures["cells"] <= 500
    assert figures["seconds"] > 0.0
    assert 0.05 < figures["megabytes"] < 1.0


@pytest.mark.compiled_only
def test_memory_is_that_of_the_process_itself(monkeypatch):
    """Not of this one, from which Linux would let it begin."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(processes, "LARGE", ("pendulum",))
    monkeypatch.setattr(processes, "_LARGE_STEPS", 1000)
    ballast = np.ones(6_250_000)
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # more than it needs, even without ballast
    figures = processes.memory(print)["memory"]
    assert ballast.nbytes == 50_000_000
    assert 50 < figures["one_iteration"] < figures["megabytes"]["pendulum"] < ours
    assert figures["steps"] == 1000


@pytest.mark.compiled_only
def test_whole_benchmark_on_a_small_scale(monkeypatch):
    control = (("cartpole", "CartPole-v1", 2000), ("pendulum", "Pendulum-v1", 1000))
    monkeypatch.setattr(training, "CONTROL", control)
    costs = {"scheduler_seconds_per_chunk": 0.0016, "client_seconds_per_run": 0.00025, "bytes_out_per_run": 300}
    costs |= {"client_seconds_per_chunk": 0.001, "bytes_back_per_run": 310}
    slow = {
        "memory": {"steps": 10, "one_iteration": 200.0, "megabytes": {"pendulum": 300.0}},
        "show": {"cells": 100_000, "seconds": 5.04, "megabytes": 7.96},
        "cluster": {"ratio_dask_to_processes": 0.94, "costs": costs, "limits": cluster.find_limits(costs)},
        "start": dict.fromkeys(["cold_seconds", "warm_seconds", "cold_ratio", "warm_ratio"], 0.0),
    }
    for name, value in slow.items():
        monkeypatch.setitem(bench.parts(), name, lambda report, name=name, value=value: {name: value})
    monkeypatch.setattr(outputs, "_EXPORTED_STATES", 1000)
    monkeypatch.setattr(bench, "REPEATS", 1)
    monkeypatch.setattr(stores, "RUNS", 40)
    monkeypatch.setattr(stores, "SHORT_RUNS", 20)
    monkeypatch.setattr(stores, "FINISHED", 300)
    monkeypatch.setattr(stores, "_ADDED", 200)
    monkeypatch.setattr(stores, "SHAPES", (4, 8))
    monkeypatch.setattr(outputs, "SAVED", (100, 3, 2000))
    monkeypatch.setattr(training, "AGENTS", 4)
    monkeypatch.setattr(partitions, "CELLS", (100, 1000))
    monkeypatch.setattr(partitions, "DENSE", (2, 3))
    monkeypatch.setattr(partitions, "_LEARNING_STEPS", 1000)
    monkeypatch.setattr(training, "PAPER", ((oil, 50),))
    monkeypatch.setattr(planning, "CASES", (("oil", 500),))
    figures = json.loads(json.dumps(bench.measure(progress_bar=False)))
    rows = [(row["problem"], row["algorithm"]) for row in figures["ratio_to_simulation"]]
    paper = [(oil().name, name) for name in ("tessera", "spaql", "aql", "ucb-q")]
    assert rows == [*paper, ("cartpole", "tessera"), ("pendulum", "tessera")]
    assert [row["environment"] for row in figures["ratio_to_gymnasium"]] == list(training.LOOPS)
    assert [row["problem"] for row in figures["compiled_to_gymnasium"]] == ["cartpole", "pendulum"]
    for row in figures["ratio_to_gymnasium"] + figures["compiled_to_gymnasium"] + figures["ratio_to_simulation"]:
        assert all(value > 0.0 for value in row.values() if isinstance(value, float))
    assert set(figures["ratio_to_textbook"]) == {"spaql", "aql"}
    assert figures["bytes_per_cell"] <= 64
    assert set(figures) == KEYS
    text = bench.describe(figures)
    assert [row["agent"] for row in figures["files"]] == ["SPAQL", "SPAQL", "Tessera"]
    assert [row["cells"] for row in figures["files"]][:2] == [100, 64]
    assert figures["cluster"]["limits"]["workers_kept_busy_with_runs_of_5_ms"] == pytest.approx(20.0)
    assert [row["problem"] for row in figures["export"]] == ["ambulance", "cartpole", "pendulum"]
    assert figures["export"][0]["table_bytes"] < 8_000
    assert figures["tables"]["runs"] == 40
    assert set(figures["tables"]) == {"runs", "status_seconds", "table_seconds", "4_groups", "8_groups"}
    assert set(figures["sweeps"]) == SWEEPS
    assert all(f"\n{name}: " in f"\n{text}" for name in figures)
    assert "\n  ratio_dask_to_processes: 0.94\n" in text
    assert "\n  Pendulum-v1 " in text
    assert bench.describe({"cluster": None}) == "cluster: \n  not measured\n"


def test_a_part_alone_gives_only_its_keys(monkeypatch, capsys):
    monkeypatch.setattr(partitions, "CELLS", (10, 100))
    monkeypatch.setattr(partitions, "DENSE", (1, 2))
    monkeypatch.setattr(partitions, "_LEARNING_STEPS", 10)
    assert main(["bench", "--only", "growth", "--json", "--quiet"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert list(figures) == ["growth", "growth_local", "growth_dense", "bytes_per_cell"]
    assert main(["bench", "--only", "growth"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split(":")[0] for line in out.splitlines() if line and not line.startswith(" ")]
    assert lines == ["growth", "growth_local", "growth_dense", "bytes_per_cell"]
    assert "1/1" in err


def test_an_unknown_part_is_one_sentence(capsys):
    assert main(["bench", "--only", "growth", "sweep"]) == 2
    said = capsys.readouterr().err
    begin = "spaql: --only: 'sweep' is not one of "
    assert said.startswith(begin)
    assert {"cluster", "ratio_to_simulation"} <= set(said.removeprefix(begin).strip().split(", "))  # in any order
    assert said.count("\n") == 1


def test_the_names_of_the_parts_are_listed(capsys):
    assert main(["bench", "--list"]) == 0
    assert set(capsys.readouterr().out.split()) == KEYS - {"growth_local", "growth_dense", "bytes_per_cell"}
