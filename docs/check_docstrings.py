"""Check the docstrings of all public names by numpydoc: a part of `make lint`.

`[tool.numpydoc_validation]` in pyproject.toml lists the checks.  Beyond numpydoc, every public class and function needs
examples, and every attribute a description.
"""

import ast
import inspect
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import public_names
from numpydoc.validate import get_doc_object, validate
from public_names import (
    find_documented_attributes,
    find_members,
    find_owner,
    find_public,
    get_function,
    is_method,
    is_result,
)

CONFIG = Path(__file__).parents[1] / "pyproject.toml"

#: Methods with an example of their own; those of other methods would be repetitions
MAIN_METHODS = {
    "spaql.agents.Agent": {
        *("cells", "diagnose", "evaluate", "explain", "export", "get_params", "learn", "load", "plot", "predict"),
        *("record_evaluation", "rules", "save", "set_params", "tree"),
    },
    "spaql.Tessera": {"simulate"},
    "spaql.agents.tessera.learned_model.LearnedModel": {"predict"},
    "spaql.agents.history.History": {"progress"},
    "spaql.problems.optimum.Optimum": {"policy"},
}


def find_checks() -> set[str]:
    """Return the codes of the checks of numpydoc that are off."""
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["tool"]["numpydoc_validation"]["checks"]
    return set(config) - {"all"}


def find_docstrings() -> Iterator[tuple[str, Any]]:
    """Yield the names and objects that need a docstring: public classes and functions, and methods of these classes."""
    seen: set[tuple[type[Any], str]] = set()
    for name, value in find_public().items():
        yield name, value
        if not inspect.isclass(value):
            continue
        for member, found in find_members(value).items():
            owner = find_owner(value, member)
            if hasattr(get_function(found), "__code__") and (owner, member) not in seen:
                seen.add((owner, member))
                yield f"{name}.{member}", getattr(value, member)


def check_docstring(name: str, value: Any, off: set[str]) -> Iterator[str]:
    """Yield what is wrong with the docstring of a name."""
    document = get_doc_object(value)  # not by its name, which may be that of a module too
    off = off | ({"PR01"} if is_result(name) else set())  # the library makes these objects; their fields are checked
    off = off | (set() if is_method(value) or inspect.isclass(value) else {"RT01"})  # a property says what it is
    for code, message in validate(document)["errors"]:
        if code not in off:
            yield f"{code}: {message}"
    needs_example = name in find_public() or any(name == f"{cls}.{m}" for cls, ms in MAIN_METHODS.items() for m in ms)
    if needs_example and not document["Examples"]:
        yield "no section Examples"


@cache
def find_field_comments(cls: type[Any]) -> set[str]:
    """Return the attributes of a class that a comment `#:` describes."""
    source = textwrap.dedent(inspect.getsource(cls))
    lines, described = source.splitlines(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            after, before = lines[(node.end_lineno or 1) - 1], lines[node.lineno - 2]
            if "#:" in after or before.strip().startswith("#:"):
                described.add(getattr(target, "id", getattr(target, "attr", "")))
    return described


def check_attributes(name: str, cls: type[Any]) -> Iterator[str]:
    """Yield the attributes of a class without a description."""
    described = find_documented_attributes(cls)
    for base in cls.__mro__:
        if public_names.is_ours(base):
            described |= find_field_comments(base)
    parameters = {line.partition(":")[0].strip() for line in (inspect.getdoc(cls) or "").splitlines()}
    described |= {each for line in parameters for each in line.split(", ")}  # a parameter is an attribute as well
    for member, value in find_members(cls).items():
        if member not in described and not hasattr(get_function(value), "__code__"):
            yield f"no description of the attribute {member}"


def main() -> int:
    """Print what is wrong; return the exit code."""
    off, wrong, checked = find_checks(), 0, 0
    for name, value in find_docstrings():
        faults = list(check_docstring(name, value, off))
        if inspect.isclass(value):
            faults += check_attributes(name, value)
        for fault in faults:
            print(f"{name}: {fault}")
        wrong, checked = wrong + bool(faults), checked + 1
    print(f"{checked} docstrings checked; {wrong} with faults", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
