"""The cache of compiled code: an edit that could change a kernel must change its folder."""

import ast
import builtins
import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import spaql
from spaql.partition import jit

ROOT = Path(spaql.__file__).parent
HASHED = {path for path in ROOT.rglob("*.py") if b"@kernel(" in path.read_bytes() or b"@intrinsic" in path.read_bytes()}


def source_of(module):
    path = ROOT.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def is_kernel(node):
    names = {
        part.id for each in getattr(node, "decorator_list", ()) for part in ast.walk(each) if isinstance(part, ast.Name)
    }
    return isinstance(node, ast.FunctionDef) and "kernel" in names


def imported_names(tree):
    """Names that a file imports from spaql: name -> the module that it comes from."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("spaql")]
    return {alias.asname or alias.name: node.module for node in froms for alias in node.names}


def test_kernels_read_only_names_of_hashed_files():
    """Constants and callees of a kernel stand in its own file or are imported from another file with kernels."""
    kernels = 0
    for path in HASHED:
        tree = ast.parse(path.read_text())
        imported = imported_names(tree)
        for node in filter(is_kernel, ast.walk(tree)):
            kernels += 1
            body = [part for statement in node.body for part in ast.walk(statement)]
            read = {part.id for part in body if isinstance(part, ast.Name)} - set(dir(builtins))
            outside = {name for name in read & imported.keys() if source_of(imported[name]) not in HASHED}
            assert not outside, (path.name, node.name, outside)
    assert kernels > 100


def test_the_hash_follows_files_with_kernels_and_no_others(tmp_path, monkeypatch):
    texts = {"kernels.py": "@kernel()\ndef f(): 1", "agents/base.py": "@intrinsic\ndef g(): 1", "cli.py": "1"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "partition" / "jit.py"))
    hashes = [jit._source_hash()]
    for name, text in texts.items():
        (tmp_path / name).write_text(text + "2")
        hashes.append(jit._source_hash())
    assert hashes[0] != hashes[1] != hashes[2] == hashes[3]


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray


class Nested(NamedTuple):
    pair: Pair
    matrix: np.ndarray


@jit.by_reference
class Referenced(Nested):
    """A structure that kernels take by its place in memory."""


@jit.kernel()
def read_parts(several):
    total = 0.0
    for each in several:
        arrays = jit.unreferenced(each)
        total = 10.0 * total + each.pair.right[0] + arrays.matrix[1, 0] + each.matrix.shape[1]
    return total


def make_referenced(number):
    pair = Pair(np.zeros(3), np.array([number, 9.0]))
    return Referenced(pair, np.arange(12.0).reshape(3, 4)[:, ::2])  # with gaps


def test_kernels_read_structures_by_reference():
    assert read_parts((make_referenced(1.0), make_referenced(2.0))) == 10.0 * 7.0 + 8.0


@pytest.mark.compiled_only
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: one._replace(matrix=one.matrix.copy())])
def test_a_copy_has_an_address_of_its_own(duplicate):
    original = make_referenced(1.0)
    assert read_parts((original,)) == 7.0
    other = duplicate(original)
    assert other.address != original.address
    original.pair.right[0] = original.matrix[1, 0] = -100.0
    assert other.matrix[1, 0] == 4.0
    if duplicate is copy.deepcopy:
        assert read_parts((other,)) == 7.0


@jit.kernel()
def double(number):
    return 2 * number


@jit.kernel()
def double_constants(n):
    return double(0) + double(1) + double(n)


@pytest.mark.compiled_only
def test_callees_are_compiled_once_for_all_constants():
    assert double_constants(3) == 8
    loaded = double_constants.stats.cache_hits  # by an earlier run of this test: then nothing was compiled
    assert len(double.callee.signatures) == (0 if loaded else 1)
    assert not double.signatures
    assert double(2.5) == 5.0


PAST_THE_END = """
import numpy as np
from spaql.partition import jit

@jit.kernel()
def read(numbers, place):
    return numbers[place]

print(jit.CACHE.name)
read(np.zeros(3), 3)
"""


@pytest.mark.compiled_only
def test_checked_kernels_check_indices_and_have_a_cache_of_their_own(tmp_path):
    (tmp_path / "reading.py").write_text(PAST_THE_END)
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    folders = []
    for checked in ("", "1"):
        environment = os.environ | path | {"SPAQL_CHECKED": checked}
        words = [sys.executable, tmp_path / "reading.py"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
        assert ("IndexError: index is out of bounds" in done.stderr) == bool(checked), done.stderr
        folders.append(done.stdout)
    assert folders[0] != folders[1]
