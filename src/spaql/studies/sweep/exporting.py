"""All runs of a study as one flat file, CSV or Parquet: a row each, finished or failed.

Columns: `id`, `problem`, `problem_label`, `algorithm`, `algorithm_label`, `argument_*` of the problem, `view_*` for how
agents see a Gymnasium environment, `parameter_*` of the algorithm, `seed`, `iterations`, `steps` (the budget), and
`episodes` asked for, then every number that a run leaves, `seconds`, `status` ("done" or "failed"), and of failures
`kind`, `message` and `attempts`.  Lists and tables are written as JSON.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from spaql.atomic_io import draft_file
from spaql.errors import OutputError
from spaql.runner.run_spec import Run
from spaql.runner.store import Store
from spaql.studies.sweep.gathered import Gathered, gather, parted
from spaql.studies.sweep.status import opened

KINDS = ("csv", "parquet")
_AT_ONCE = 10_000  # rows
_FIRST = ("id", "problem", "problem_label", "algorithm", "algorithm_label")
_SIZES = ("seed", "iterations", "steps", "episodes")
_LAST = ("seconds", "status", "kind", "message", "attempts")
_TYPES = {"seed": "uint64", "iterations": "int64", "steps": "int64", "episodes": "int64", "attempts": "int64"}
_TYPES |= dict.fromkeys((*_FIRST, "status", "kind", "message"), "string") | {"seconds": "float64"}


def export(folder: str | os.PathLike[str], kind: str = "csv", target: str | os.PathLike[str] | None = None) -> Path:
    """Write all runs of a folder's study into one file, whole or not at all.

    Parameters
    ----------
    folder
        Of `spaql sweep`, or any with a store of runs.
    kind
        "csv" or "parquet".
    target
        The file; None is `runs.csv` or `runs.parquet` in the folder.

    Returns
    -------
    Path
        The file written.
    """
    if kind not in KINDS:
        raise OutputError(f"export: {kind!r} is not one of {', '.join(KINDS)}")
    arrow = _arrow() if kind == "parquet" else None
    path = Path(folder) / f"runs.{kind}" if target is None else Path(target)
    known = _known(gather(folder, "seconds"))
    with opened(folder) as store, store.unchanged(), draft_file(path) as draft:
        types = _types(store, known)
        if arrow is None:
            _write_csv(draft, types, _rows(store, known))
        else:
            _write_parquet(arrow, draft, types, _rows(store, known))
    return path


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OutputError(
            "export to parquet needs the package pyarrow; pip install 'spaql[parquet]', or export to csv"
        ) from None
    return pyarrow


_Known = Mapping[str, Mapping[int, Mapping[str, Any]]]


def _known(gathered: Gathered) -> _Known:
    """What is said of each run beside its numbers, by kind and seed; of labels that share a run the first counts."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for group in gathered.groups:
        shared = _shared(group.run, group.problem, group.algorithm)
        found[group.run.kind] = dict.fromkeys(group.seeds, shared) | found.get(group.run.kind, {})
    return found


def _shared(run: Run, problem: str, algorithm: str) -> dict[str, Any]:
    """The columns that do not depend on the seed."""
    told = {
        "problem": run.problem,
        "problem_label": problem,
        "algorithm": run.algorithm,
        "algorithm_label": algorithm,
        "iterations": run.iterations if not run.budgets else None,
        "steps": run.budgets[-1] if run.budgets else None,
        "episodes": run.episodes,
    }
    for prefix, given in (("argument", run.arguments), ("view", run.environment), ("parameter", run.parameters)):
        told |= {f"{prefix}_{name}": _flat(value) for name, value in given.items()}
    return told


def _flat(value: Any) -> Any:
    return value if value is None or isinstance(value, str | bool | int | float) else json.dumps(value, default=str)


def _rows(store: Store, known: _Known) -> Iterator[dict[str, Any]]:
    """Every run of the study, the finished ones first."""
    for row in store.rows():
        kind, seed = parted(row.specification)
        shared = known.get(kind, {}).get(seed)
        if shared is not None:
            own = {"id": row.id, "seed": seed, "seconds": row.seconds, "status": "done"}
            yield {**shared, **row.scalars, **own}
    for key, (specification, failure) in store.failures().items():
        kind, seed = parted(specification)
        shared = known.get(kind, {}).get(seed)
        if shared is not None:
            yield {**shared, **asdict(failure), "id": key, "seed": seed, "status": "failed"}


def _types(store: Store, known: _Known) -> dict[str, str]:
    """All columns in their order, each with what it holds."""
    given: dict[str, set[type]] = {}
    for seeds in known.values():
        for name, value in next(iter(seeds.values())).items():  # they differ in their labels at most
            given.setdefault(name, set()).add(type(value))
    scalars: dict[str, set[type]] = {}
    for row in store.rows():
        for name, value in row.scalars.items():
            scalars.setdefault(name, set()).add(type(value))
    names = [name for prefix in ("argument_", "view_", "parameter_") for name in given if name.startswith(prefix)]
    kinds = given | scalars
    return {
        name: _TYPES.get(name) or _type(kinds.get(name, set()))
        for name in dict.fromkeys([*_FIRST, *names, *_SIZES, *scalars, *_LAST])
    }


def _type(found: set[type]) -> str:
    """What holds values of all these types."""
    kinds = found - {type(None)}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "int64"
    return "float64" if kinds <= {int, float} else "string"


def _write_csv(path: Path, types: Mapping[str, str], rows: Iterator[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(types)
        for row in rows:
            writer.writerow(["" if (value := row.get(name)) is None else value for name in types])


def _write_parquet(arrow: Any, path: Path, types: Mapping[str, str], rows: Iterator[dict[str, Any]]) -> None:
    made = {"string": arrow.string, "bool": arrow.bool_, "float64": arrow.float64, "int64": arrow.int64}
    made["uint64"] = arrow.uint64
    schema = arrow.schema([(name, made[kind]()) for name, kind in types.items()])

    def held(name: str, kind: str, some: list[dict[str, Any]]) -> Any:
        values = [row.get(name) for row in some]
        if kind == "string":
            values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        elif kind == "float64":
            values = [None if value is None else float(value) for value in values]
        return arrow.array(values, made[kind]())

    with arrow.parquet.ParquetWriter(str(path), schema) as writer:
        while some := list(islice(rows, _AT_ONCE)):
            columns = [held(name, kind, some) for name, kind in types.items()]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))
