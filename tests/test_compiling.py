"""The cache of compiled code: an edit that could change a kernel must change its folder."""

import ast
import builtins
from pathlib import Path

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
