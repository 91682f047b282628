"""Where compiled code is kept: an edit that could change a kernel must change the folder."""

import tomllib
from pathlib import Path

import grimp

import spaql
from spaql.partition import jit as compiling

ROOT = Path(spaql.__file__).parent


def test_no_kernel_depends_on_a_room_that_is_left_out_of_the_hash():
    graph = grimp.build_graph("spaql")
    settings = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    for ignored in settings["tool"]["importlinter"]["contracts"][0]["ignore_imports"]:  # imported inside functions
        importer, imported = ignored.split(" -> ")
        graph.remove_import(importer=importer, imported=imported)
    marks = "@kernel", "numba.njit", "numba.cfunc"
    apart = {module for module in graph.modules if module.split(".")[1:2] and module.split(".")[1] in compiling.APART}
    holders = [
        module
        for module in graph.modules - apart
        if (path := ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")).exists()
        and any(mark in path.read_text() for mark in marks)
    ]
    assert len(holders) > 15
    for holder in holders:
        assert not graph.find_upstream_modules(holder) & apart, holder


def test_the_hash_follows_sources(tmp_path, monkeypatch):
    for name in ("kernels.py", "cli.py", "engines/base.py", "agents/base.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1")
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "compiling.py"))
    before = compiling._source_hash()
    for name in ("cli.py", "engines/base.py"):
        (tmp_path / name).write_text("2")
    assert compiling._source_hash() == before
    (tmp_path / "agents" / "base.py").write_text("2")
    assert compiling._source_hash() != before
