"""All runs of a study in one CSV or Parquet file, one row per finished or failed run.

Columns: `id`, `problem`, `problem_label`, `algorithm`, `algorithm_label`, `argument_*` of the problem, `view_*` for how
agents see a Gymnasium environment, `parameter_*` of the algorithm, `seed`, `iterations`, `steps` (the budget) and
`episodes`, then every number that runs record, `seconds`, `status` ("done" or "failed"), and for failures `kind`,
`message` and `attempts`.  Lists and tables are written as JSON.
"""

from __future__ import annotations

import csv
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any

from spaql.atomic_io import write_file
from spaql.errors import OutputError
from spaql.runner.store import Store
from spaql.studies.study import Group
from spaql.studies.sweep.group_values import read_values
from spaql.studies.sweep.status import open_store

FORMATS = ("csv", "parquet")
_BATCH = 10_000  # rows
_FIRST = dict.fromkeys(("id", "problem", "problem_label", "algorithm", "algorithm_label"), "string")
_SIZES = {"seed": "uint64", "iterations": "int64", "steps": "int64", "episodes": "int64"}
_LAST = {"seconds": "float64", "status": "string", "kind": "string", "message": "string", "attempts": "int64"}
_PREFIXES = ("argument_", "view_", "parameter_")
_Rows = Iterator[Mapping[str, Any]]


def export_runs(
    folder: str | os.PathLike[str], form: str = "csv", target: str | os.PathLike[str] | None = None
) -> Path:
    """Write all runs of a study into one file, by default `runs.csv` or `runs.parquet`, and return its path."""
    if form not in FORMATS:
        raise OutputError(f"export: {form!r} is not one of {', '.join(FORMATS)}")
    if form == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise OutputError(
                "export to parquet needs the package pyarrow; pip install 'spaql[parquet]', or export to csv"
            ) from None
    path = Path(folder) / f"runs.{form}" if target is None else Path(target)
    shared: dict[str, dict[str, Any]] = {}  # columns of each run but its numbers, by id
    for group in read_values(folder, "seconds").groups:
        columns = _shared_columns(group)
        for run_id, seed in zip(group.ids, group.seeds, strict=True):
            shared.setdefault(run_id, {**columns, "id": run_id, "seed": seed})  # several labels: the first one
    with open_store(folder) as store, store.snapshot():
        types = _column_types(store, shared)
        write = _write_csv if form == "csv" else _write_parquet
        write_file(path, lambda draft: write(draft, types, _rows(store, shared)))
    return path


def _shared_columns(group: Group) -> dict[str, Any]:
    """Return the columns that do not depend on the seed."""
    run = group.run
    columns = {
        "problem": run.problem,
        "problem_label": group.problem,
        "algorithm": run.algorithm,
        "algorithm_label": group.label,
        "iterations": None if run.budgets else run.iterations,
        "steps": run.budgets[-1] if run.budgets else None,
        "episodes": run.episodes,
    }
    for prefix, values in zip(_PREFIXES, (run.arguments, run.environment, run.parameters), strict=True):
        for name, value in values.items():
            plain = value is None or isinstance(value, str | bool | int | float)
            columns[f"{prefix}{name}"] = value if plain else json.dumps(value, default=str)
    return columns


def _rows(store: Store, shared: Mapping[str, Mapping[str, Any]]) -> _Rows:
    """Yield every run of the study, the finished ones first."""
    for row in store.rows():
        if row.id in shared:
            yield {**shared[row.id], **row.scalars, "seconds": row.seconds, "status": "done"}
    for run_id, (_, failure) in store.failures().items():
        if run_id in shared:
            yield {**shared[run_id], **asdict(failure), "status": "failed"}


def _column_types(store: Store, shared: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return all columns in order with the type of each."""
    found: dict[str, set[type]] = defaultdict(set)
    for record in chain(shared.values(), (row.scalars for row in store.rows())):
        for name, value in record.items():
            found[name].add(type(value))
    known = {name: _common_type(types - {type(None)}) for name, types in found.items()}
    settings = [name for prefix in _PREFIXES for name in known if name.startswith(prefix)]
    types = {**_FIRST, **{name: known[name] for name in settings}, **_SIZES}
    return {**types, **{name: kind for name, kind in known.items() if name not in types}, **_LAST}


def _common_type(types: set[type]) -> str:
    if types in ({bool}, {int}):
        return "bool" if types == {bool} else "int64"
    return "float64" if types <= {int, float} else "string"


def _write_csv(path: Path, types: Mapping[str, str], rows: _Rows) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(types), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(path: Path, types: Mapping[str, str], rows: _Rows) -> None:
    import pyarrow

    schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in types.items()])

    def convert(value: Any, kind: str) -> Any:
        if value is None or kind not in ("string", "float64"):
            return value
        return float(value) if kind == "float64" else value if isinstance(value, str) else json.dumps(value)

    with pyarrow.parquet.ParquetWriter(str(path), schema) as writer:
        while batch := list(islice(rows, _BATCH)):
            columns = [[convert(row.get(name), kind) for row in batch] for name, kind in types.items()]
            writer.write_table(pyarrow.table(columns, schema=schema))
