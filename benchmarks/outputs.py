"""Outputs of a trained agent: its policy as C, its page, its file."""

import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks
from benchmarks import Report, measure_in_turn, measure_seconds, median_ratio, part, repeat, training
from benchmarks.partitions import make_dense, make_large_agent, refine_policy
from spaql.agents import SPAQL, Tessera
from spaql.agents import files as agent_files
from spaql.export import to_c
from spaql.export.compiler import compile_policy, find_compiler
from spaql.partition.partition import Partition

EXPORTED = ("ambulance", "cartpole", "pendulum")
_EXPORTED_STATES = 1_000_000
_SHOWN_CELLS = 100_000
SAVED = (1000, 10, 50_000)  # cells; depth of a partition of 4^10 cells; steps of Tessera
_MANY_CELLS = 100_000


@part
def export(report: Report) -> dict[str, Any]:
    """Policies as C: bytes of tables and file, comparisons, nanoseconds per decision, and their ratio to `predict`.

    The ratio is per state, on the same batch of random states; None without a C compiler.  The aims are 1.5, and 8,000
    bytes of tables for the ambulance.
    """
    rows = []
    budgets = {name: steps for name, _, steps in training.CONTROL}
    for name in EXPORTED:
        report(f"export of {name}")
        agent = Tessera(name).learn(total_timesteps=budgets.get(name, 10_000))
        policy = agent.to_policy()
        row: dict[str, Any] = {
            "problem": name,
            "table_bytes": to_c.count_bytes(policy),
            "file_bytes": len(to_c.make_source(policy, "policy", header=False)),
            "nodes": len(policy.tree.dims),
            "depth": policy.tree.depth,
            "ns_per_decision": None,
            "ratio_to_predict": None,
        }
        if find_compiler() is not None:
            points = np.random.default_rng(0).random((_EXPORTED_STATES, len(policy.observation)))
            states = policy.tree.states.from_unit(points)
            decide = partial(compile_policy(policy), states, np.zeros(_EXPORTED_STATES, np.intc))
            agent.predict(states[:10])
            calls = (repeat(work, _EXPORTED_STATES) for work in (decide, partial(agent.predict, states)))
            ours, theirs = measure_in_turn(*calls)
            row |= {"ns_per_decision": 1e9 * statistics.median(ours), "ratio_to_predict": median_ratio(ours, theirs)}
        rows.append(row)
    return {"export": rows}


@part
def show(report: Report) -> dict[str, Any]:
    """Seconds of `spaql show`, without the browser, for 100,000 cells over four numbers, and megabytes of the page.

    The aims are 10 and 15.
    """
    report("show")
    agent = make_large_agent(_SHOWN_CELLS)
    with tempfile.TemporaryDirectory() as folder:
        path, page = agent.save(Path(folder) / "large.spaql"), Path(folder) / "large.html"
        call = [sys.executable, "-m", "spaql", "show", str(path), "--no-open"]
        *_, seconds = (measure_seconds(partial(subprocess.run, call, check=True, capture_output=True)) for _ in "12")
        return {"show": {"cells": len(agent.cells()), "seconds": seconds, "megabytes": page.stat().st_size / 1e6}}


@part
def files(report: Report) -> dict[str, Any]:
    """Milliseconds to save and load an agent, the least of a few, and bytes of the file per cell.

    SPAQL with a thousand and with a million cells in its policy (it keeps two partitions), and Tessera on CartPole,
    whose file is mostly its replay buffer.  The aims, for partitions, are 5 ms for 1,000 cells, 2 s for a million, 80
    bytes.
    """
    agents = [_make_agent(refine_policy(SAVED[0])), _make_agent(make_dense(SAVED[1]))]
    agents += [Tessera("cartpole").learn(total_timesteps=SAVED[2])]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.spaql"
        for agent in agents:
            cells = len(agent.cells())
            report(f"file of {cells:,} cells")
            times = benchmarks.REPEATS * (1 if cells > _MANY_CELLS else 4)  # a short call is disturbed more often
            calls = partial(agent.save, path), partial(agent_files.load, path)
            save, load = (1e3 * min(measure_seconds(call) for _ in range(times)) for call in calls)
            row = {"agent": type(agent).__name__, "cells": cells, "save_ms": save, "load_ms": load}
            rows.append(row | {"bytes_per_cell": path.stat().st_size / cells})
    return {"files": rows}


def _make_agent(partition: Partition) -> Any:
    """Return an agent on oil that has learned this partition, and kept it."""
    agent = SPAQL("oil", rollouts=1).learn(iterations=1)
    agent._work, agent._kept = partition, partition.copy()
    return agent
