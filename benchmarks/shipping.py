"""What becomes of a trained agent: a policy as C, a page, a file."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import learning, timing
from benchmarks.partitions import along_policy, dense, large_agent
from benchmarks.timing import Bar, Part, ratio, seconds
from spaql.agents import SPAQL, Tessera, files
from spaql.export import to_c
from spaql.export.compiler import compile_policy, find_compiler
from spaql.partition.partition import Partition

SHIPPED = ("ambulance", "cartpole", "pendulum")
_SHIPPED_STATES = 1_000_000
_SHOWN_CELLS = 100_000
KEPT = (1000, 10, 50_000)  # cells; depth of a partition of 4^10 cells; steps of SPAQL
_MANY_CELLS = 100_000


def shipped(bar: Bar) -> list[dict[str, Any]]:
    """(k)."""
    rows = []
    budgets = {name: steps for name, _, steps in learning.CONTROL}
    for name in SHIPPED:
        bar(f"export of {name}")
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
            decide = compile_policy(policy)
            points = np.random.default_rng(0).random((_SHIPPED_STATES, policy.tree.states.dimensions))
            states, steps = policy.tree.states.from_unit(points), np.zeros(_SHIPPED_STATES, np.intc)
            work = partial(decide, states, steps)
            agent.predict(states[:10])
            row["ratio_to_predict"] = ratio(partial(_unprepared, work), partial(agent.predict, states))
            took = statistics.median(seconds(work) for _ in range(timing.REPEATS))
            row["ns_per_decision"] = 1e9 * took / _SHIPPED_STATES
        rows.append(row)
    return rows


def _unprepared(work: Callable[[], Any]) -> Callable[[], Any]:
    return work


def show(bar: Bar) -> dict[str, Any]:
    """(l)."""
    bar("show")
    agent = large_agent(_SHOWN_CELLS)
    with tempfile.TemporaryDirectory() as folder:
        path, page = agent.save(Path(folder) / "large.spaql"), Path(folder) / "large.html"
        call = [sys.executable, "-m", "spaql", "show", str(path), "--no-open"]
        took = [seconds(partial(subprocess.run, call, check=True, capture_output=True)) for _ in range(2)]
        return {"cells": len(agent.cells()), "seconds": took[-1], "megabytes": page.stat().st_size / 1e6}


def kept(bar: Bar) -> list[dict[str, Any]]:
    """(m)."""
    agents = [_with(along_policy(KEPT[0])), _with(dense(KEPT[1])), Tessera("cartpole").learn(total_timesteps=KEPT[2])]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.spaql"
        for agent in agents:
            bar(f"a file of {len(agent.cells()):,} cells")
            times = timing.REPEATS * (
                1 if len(agent.cells()) > _MANY_CELLS else 4
            )  # a short call is more often disturbed
            calls = partial(agent.save, path), partial(files.load, path)
            save, load = (min(seconds(call) for _ in range(times)) for call in calls)
            rows.append(
                {
                    "agent": type(agent).__name__,
                    "cells": len(agent.cells()),
                    "save_ms": 1e3 * save,
                    "load_ms": 1e3 * load,
                    "bytes_per_cell": path.stat().st_size / len(agent.cells()),
                }
            )
    return rows


def _with(partition: Partition) -> SPAQL:
    """An agent on oil that has learned this partition, and kept it."""
    agent = SPAQL("oil", rollouts=1).learn(iterations=1)
    agent._work, agent._kept = partition, partition.copy()
    return agent


def _told_export(figures: dict[str, Any]) -> list[str]:
    lines = ["policies as C, and the time per decision over that of our own predict on the same states"]
    for row in figures["export"]:
        lasts = "not measured: no C compiler"
        if row["ns_per_decision"] is not None:
            lasts = f"{row['ratio_to_predict']:.2f}   ({row['ns_per_decision']:.0f} ns)"
        lines.append(
            f"  {row['problem']:<24}{row['table_bytes']:6,} bytes of tables, {row['nodes']:,} comparisons, at most "
            f"{row['depth']} for a decision   {lasts}"
        )
    return lines


def _told_show(figures: dict[str, Any]) -> list[str]:
    shown = figures["show"]
    return [
        f"the page of an agent with {shown['cells']:,} cells: {shown['seconds']:.1f} s, {shown['megabytes']:.1f} MB"
    ]


def _told_files(figures: dict[str, Any]) -> list[str]:
    return [
        f"the file of {row['agent']} with {row['cells']:,} cells: saved in {row['save_ms']:.1f} ms, loaded in "
        f"{row['load_ms']:.1f} ms, {row['bytes_per_cell']:.0f} bytes per cell"
        for row in figures["files"]
    ]


PARTS = {
    "export": Part(lambda bar: {"export": shipped(bar)}, _told_export, lambda: len(SHIPPED)),
    "show": Part(lambda bar: {"show": show(bar)}, _told_show),
    "files": Part(lambda bar: {"files": kept(bar)}, _told_files, lambda: len(KEPT)),
}
