"""Identify the code that computes runs, so that results of two versions of an algorithm are never mixed.

The modules are those that `spaql.runner.execute` and the registered environments import, directly or through others; an
import inside a function is for something that runs do not need, such as a plot.  Of each module the syntax tree counts,
without docstrings and comments: a docstring can be reworded without invalidating a store.
"""

import ast
import hashlib
import importlib.metadata
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from spaql._version import __version__

_ROOT = Path(__file__).parents[1]
_ROOTS = ("spaql.runner.execute", "spaql.gym.registration")
_ENTRY_POINT = re.compile(r"spaql(\.\w+)+:\w+")  # as Gymnasium's registry has them
_PACKAGES = ("numba", "llvmlite", "numpy", "gymnasium")  # of others, which compute too


@cache
def code_version() -> str:
    """Return the version of the library and a hash of the code that computes runs, with what compiles it."""
    versions = [importlib.metadata.version(name) for name in _PACKAGES]
    digest = hashlib.sha256(" ".join(versions).encode())
    for name, tree in sorted(computing_modules().items()):
        tokens = [name]
        _append_tokens(tree, tokens)
        digest.update("\0".join(tokens).encode())
    return f"spaql {__version__}, {digest.hexdigest()[:12]}"


def computing_modules() -> dict[str, ast.Module]:
    """Return the syntax trees of the modules that compute runs, by name; the package itself only re-exports."""
    trees: dict[str, ast.Module] = {}
    names = list(_ROOTS)
    while names:
        name = names.pop()
        path = _ROOT.joinpath(*name.split(".")[1:])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name not in trees and name.startswith("spaql.") and file.is_file():
            trees[name] = ast.parse(file.read_bytes())
            names += [name.rpartition(".")[0], *_imports(trees[name])]
    return trees


def _imports(node: ast.AST) -> Iterator[str]:
    """Names that a module imports when it is loaded; of `from a import b` both a and a.b, as b may be a module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str) and _ENTRY_POINT.fullmatch(child.value):
            yield child.value.partition(":")[0]
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        elif not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from _imports(child)


def _append_tokens(node: Any, tokens: list[str]) -> None:
    """Append a syntax tree as text, without strings that stand alone; the same in every version of Python."""
    if isinstance(node, ast.AST):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        tokens.append(type(node).__name__)
        for name, value in ast.iter_fields(node):
            if value is not None and value != []:
                tokens.append(name)
                _append_tokens(value, tokens)
    elif isinstance(node, list):
        tokens.append("[")
        for item in node:
            _append_tokens(item, tokens)
        tokens.append("]")
    else:
        tokens.append(repr(node))
