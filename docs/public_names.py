"""Find the public names of the library: what the API reference documents, and what its docstrings are checked for.

Public is what a public module exports, and every class of the library that an exported function or method returns, or
that such a class has as a field.
"""

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

#: Modules whose `__all__` is public, in the order in which the name of an object is looked for
MODULES = ["spaql", "spaql.agents", "spaql.problems", "spaql.callbacks", "spaql.loggers", "spaql.stats", "spaql.errors"]

#: Classes that only the library works with, although something public returns them or has them as a field
INTERNAL_CLASSES = {"Frame", "Model", "Objective", "Playable", "Tuning", "World"}

#: Classes of results that no annotation names: a subclass, and items of sequences
MORE_RESULTS = [
    "spaql.agents.tessera.learned_model.Accuracy",
    "spaql.explain.rules.Condition",
    "spaql.explain.rules.Rule",
    "spaql.explain.short_rules.Comparison",
    "spaql.explain.short_rules.ShortRules",
]

#: Members that only the library uses, by the class that has them; subclasses of it have them too
INTERNAL_MEMBERS = {
    "Playable": {
        *("check", "close", "decode", "defer_interrupts", "encode", "flatten", "for_agent", "for_evaluation", "frame"),
        *(
            "maker",
            "max_copies",
            "moves",
            "read_observation",
            "unflatten",
            "warm_up_steps",
            "whole",
            "with_env",
            "world",
        ),
    },
    "GymnasiumProblem": {
        *("given_action_names", "given_names", "go_on", "progress", "recipe", "set_seed", "take_seed"),
        *("clip", "hidden", "model", "observe", "optimum"),  # of compiled problems only
    },
    "Agent": {"count_first_cells"},
    "Box": {"check_batch", "project"},
    "Checkpoint": {"begin", "call", "due", "end"},  # what each callback and logger does when it is called
    "Evaluate": {"begin", "call", "due", "end"},
    "Log": {"begin", "call", "due", "end", "follow"},
    "StopAfter": {"begin", "call", "due", "end"},
    "_FileLogger": {"close", "open", "write"},
    "LearnedModel": {"simulate"},
    "Observed": {"describe_change", "wrap"},
    "Table": {"html", "of_records"},
    "Tree": {"find_thresholds", "to_integers", "to_units"},
}


def is_ours(value: Any) -> bool:
    """Return whether something is a class of this library."""
    return inspect.isclass(value) and value.__module__.startswith("spaql.")


@cache
def find_exported() -> dict[str, Any]:
    """Return the exported classes and functions by their shortest public names."""
    exported: dict[int, tuple[str, Any]] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in module.__all__:
            value = getattr(module, attribute)
            if callable(value):
                exported.setdefault(id(value), (f"{name}.{attribute}", value))
    return dict(exported.values())


@cache
def find_public() -> dict[str, Any]:
    """Return all public classes and functions by their shortest public names."""
    more = {
        name: getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
        for name in MORE_RESULTS
    }
    public = find_exported() | more
    queue = list(public.values())
    known = set(map(id, queue))
    while queue:
        for cls in find_results(queue.pop()):
            if id(cls) not in known and cls.__name__ not in INTERNAL_CLASSES and not cls.__name__.startswith("_"):
                known.add(id(cls))
                queue.append(cls)
                public[f"{cls.__module__}.{cls.__qualname__}"] = cls
    return dict(sorted(public.items()))


def find_results(value: Any) -> Iterator[type[Any]]:
    """Yield the classes of this library that a function returns, or the methods and fields of a class."""
    if not inspect.isclass(value):
        yield from find_named(inspect.unwrap(value), "return")
        return
    for member in find_members(value).values():
        yield from find_named(get_function(member), "return")
    for base in value.__mro__:
        if is_ours(base):
            for name in inspect.get_annotations(base):
                if not name.startswith("_"):
                    yield from find_named(base, name)


def find_named(value: Any, name: str) -> Iterator[type[Any]]:
    """Yield the classes of this library that an annotation of a function or class names."""
    annotation = inspect.get_annotations(value).get(name, "") if hasattr(value, "__module__") else ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for word in re.findall(r"[\w.]+", text):
        path, _, last = word.rpartition(".")
        path = path if path.startswith("spaql") else find_imports(value.__module__).get(last, value.__module__)
        named = getattr(importlib.import_module(path), last, None) if path.startswith("spaql") else None
        if is_ours(named):
            yield named


@cache
def find_imports(module: str) -> dict[str, str]:
    """Return the names that a module imports from others, also for annotations alone, and these modules."""
    nodes = ast.walk(ast.parse(inspect.getsource(importlib.import_module(module))))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


def get_function(member: Any) -> Any:
    """Return the function behind a member of a class."""
    for name in ("fget", "func", "__func__"):
        member = getattr(member, name, member)
    return inspect.unwrap(member) if callable(member) else member


def find_members(cls: type[Any]) -> dict[str, Any]:
    """Return the public members of a class that this library defines, also in its bases, as they stand in the class."""
    members: dict[str, Any] = {}
    hidden: set[str] = set()
    for base in reversed([base for base in cls.__mro__ if is_ours(base)]):
        hidden |= INTERNAL_MEMBERS.get(base.__name__, set())
        fields = dict.fromkeys(inspect.get_annotations(base))
        members |= {name: value for name, value in (fields | vars(base)).items() if not name.startswith("_")}
    return {name: value for name, value in members.items() if name not in hidden}


def find_owner(cls: type[Any], name: str) -> type[Any]:
    """Return the class among a class and its bases that defines a member."""
    owners = (base for base in cls.__mro__ if name in vars(base) or name in inspect.get_annotations(base))
    return next(owners)


def is_method(member: Any) -> bool:
    """Return whether a member is called."""
    return inspect.isroutine(member) and not isinstance(member, cached_property)


def kind_of(member: Any) -> str:
    """Return the kind of a member that is not called."""
    return "property" if isinstance(member, property | cached_property) else "attribute"


def is_result(name: str) -> bool:
    """Return whether the library alone makes objects of a class: its constructor is of no interest."""
    value = find_public().get(name)
    exported = name in find_exported()
    return value is not None and inspect.isclass(value) and (not exported or dataclasses.is_dataclass(value))


def split_members(name: str) -> dict[str, Any]:
    """Return the members of a public class as the template of its page needs them.

    `attributes` (with the directive that documents each) and `methods` are those of the class itself, and of bases that
    are not public; `inherited` has for each public base the members that it documents.
    """
    public = find_public()
    cls, names = public[name], {id(value): each for each, value in public.items()}
    bases = [base for base in cls.__mro__[1:] if id(base) in names]
    inherited: dict[str, list[str]] = {}
    own: dict[str, Any] = {}
    for each, member in find_members(cls).items():
        owner = find_owner(cls, each)
        homes = [base for base in bases if issubclass(base, owner)]  # they have it too; the last one documents it
        if homes:
            inherited.setdefault(names[id(homes[-1])], []).append(each)
        else:
            own[each] = member
    documented = find_documented_attributes(cls)
    return {
        "attributes": {each: kind_of(own[each]) for each in own if not is_method(own[each]) and each not in documented},
        "methods": sorted(each for each in own if is_method(own[each])),
        "inherited": {base: sorted(each) for base, each in inherited.items()},
    }


def find_documented_attributes(cls: type[Any]) -> set[str]:
    """Return the attributes that the section Attributes of a class describes."""
    section = re.search(r"^Attributes\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", inspect.getdoc(cls) or "", re.S | re.M)
    lines = re.findall(r"^(\S[^:\n]*)", section[1], re.M) if section else []
    return {name.strip() for line in lines for name in line.split(",")}
