"""All runs of a study in one CSV or Parquet file, one row per finished or failed run.

Columns: `id`, `problem`, `problem_label`, `algorithm`, `algorithm_label`, `argument_*` of the problem, `view_*` for how
agents see a Gymnasium environment, `parameter_*` of the algorithm, `seed`, `iterations`, `steps` (the budget) and
`episodes`, then every number that runs record, `seconds`, `status` ("done" or "failed"), and for failures `kind`,
`message` and `attempts`.  Lists and tables are written as JSON.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spaql.atomic_io import write_file
from spaql.errors import OutputError
from spaql.formatting import Table
from spaql.runner.store import STORE, Store
from spaql.studies.study import Group
from spaql.studies.sweep.group_values import read_values

FORMATS = ("csv", "parquet")
_FIRST = dict.fromkeys(("id", "problem", "problem_label", "algorithm", "algorithm_label"), "string")
_PREFIXES = ("argument_", "view_", "parameter_")
_SIZES = {"seed": "uint64", "iterations": "int64", "steps": "int64", "episodes": "int64"}
_LAST = {"seconds": "float64", "status": "string", "kind": "string", "message": "string", "attempts": "int64"}


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
            advice = "pip install 'spaql[parquet]', or export to csv"
            raise OutputError(f"export to parquet needs the package pyarrow; {advice}") from None
    path = Path(folder) / f"runs.{form}" if target is None else Path(target)
    settings: dict[str, dict[str, Any]] = {}  # columns of each run but its numbers, by id
    for group in read_values(folder, "seconds").groups:
        shared = _describe(group)
        for run_id, seed in zip(group.ids, group.seeds, strict=True):
            settings.setdefault(run_id, {**shared, "id": run_id, "seed": seed})  # several labels: the first
    with Store.open_readonly(Path(folder) / STORE) as store, store.snapshot():
        numbers = {row.id: {**row.scalars, "seconds": row.seconds, "status": "done"} for row in store.rows()}
        failures = {run_id: {**asdict(failed), "status": "failed"} for run_id, (_, failed) in store.failures().items()}
    rows = [settings[run_id] | columns for run_id, columns in (numbers | failures).items() if run_id in settings]
    names = dict.fromkeys(name for part in (settings, numbers) for row in part.values() for name in row)
    before = [name for prefix in _PREFIXES for name in names if name.startswith(prefix)]
    after = [name for name in names if name not in {*_FIRST, *before, *_SIZES, *_LAST}]
    columns = {name: [row.get(name) for row in rows] for name in (*_FIRST, *before, *_SIZES, *after, *_LAST)}
    if form == "parquet":
        write_file(path, lambda draft: _write_parquet(draft, columns))
    else:
        write_file(path, Table(list(columns), list(zip(*columns.values(), strict=True))).csv())
    return path


def _describe(group: Group) -> dict[str, Any]:
    """Return the columns that do not depend on the seed."""
    run = group.run
    columns: dict[str, Any] = {"problem": run.problem, "problem_label": group.problem}
    columns |= {"algorithm": run.algorithm, "algorithm_label": group.label, "episodes": run.episodes}
    columns |= {"steps": run.budgets[-1]} if run.budgets else {"iterations": run.iterations}
    for prefix, values in zip(_PREFIXES, (run.arguments, run.environment, run.parameters), strict=True):
        for name, value in values.items():
            plain = value is None or isinstance(value, str | bool | int | float)
            columns[f"{prefix}{name}"] = value if plain else json.dumps(value, default=str)
    return columns


def _write_parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    import pyarrow

    known, arrays = {**_FIRST, **_SIZES, **_LAST}, {}
    for name, values in columns.items():
        types = set(map(type, values)) - {type(None)}
        kind = known.get(name) or ("float64" if types <= {int, float} else "string")
        if name not in known and types in ({bool}, {int}):
            kind = "bool" if types == {bool} else "int64"
        if kind in ("string", "float64"):
            convert: Any = float if kind == "float64" else lambda v: v if isinstance(v, str) else json.dumps(v)
            values = [None if value is None else convert(value) for value in values]
        arrays[name] = pyarrow.array(values, kind)
    pyarrow.parquet.write_table(pyarrow.table(arrays), str(path))
