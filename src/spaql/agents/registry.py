"""The algorithms by name, each declared once, next to its class.

    @register("aql", label="AQL", colour="#D55E00", reference="Sinclair, Banerjee, Yu (2019)")
    class AQL(...): ...

The command line, studies, tables, charts and files read this registry; nothing else keeps a list of algorithms.  A name
of the form "my_module:MyAgent" is resolved by importing the module, see `resolve`.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from spaql.agents.base import Agent
from spaql.agents.foreign import ForeignAgent, wrap
from spaql.errors import ParameterError
from spaql.validation import import_module, show

C = TypeVar("C", bound=type[Any])


@dataclass(frozen=True)
class Entry:
    """An algorithm and what is known of it; `algorithms` and `resolve` return it.

    Examples
    --------
    >>> import spaql
    >>> entry = spaql.algorithms()["aql"]
    >>> entry.label, list(entry.parameters)
    ('AQL', ['scaling', 'rollouts'])
    >>> entry.make("oil", seed=1, scaling=0.2)
    AQL('oil laplace 10', scaling=0.2, rollouts=20, seed=1)
    """

    name: str  #: as the command line, files and studies write it
    label: str  #: as tables and captions write it
    cls: type[Any]  #: its class
    colour: str | None = None  #: of its lines in charts, "#rrggbb"; None leaves the choice to the chart
    reference: str = ""  #: the paper it comes from
    example: Mapping[str, Any] = field(default_factory=dict)  #: parameters without a default, for its `home`
    home: str = "ambulance"  #: a built-in problem that it can play

    @property
    def built_in(self) -> bool:
        """Whether its class is part of this package."""
        return self.cls.__module__.partition(".")[0] == "spaql"

    @property
    def path(self) -> str:
        """Its class as "module:Class", by which other processes find it."""
        return _path_of(self.cls)

    @property
    def foreign(self) -> bool:
        """Whether its class is no `Agent` and has to be wrapped as one."""
        return not issubclass(self.cls, Agent)

    @cached_property
    def _agent_class(self) -> type[Agent]:
        return wrap(self.cls, self.name) if self.foreign else self.cls

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Keywords of the constructor by name, without `seed`."""
        return {name: each for name, each in self._agent_class.keywords().items() if name != "seed"}

    def accepts(self, parameter: str) -> bool:
        """Return whether the algorithm has a parameter of this name.

        Parameters
        ----------
        parameter
            Its name.

        Returns
        -------
        bool
            False too for keywords that describe the environment.
        """
        return parameter != "seed" and self._agent_class.accepts(parameter)

    @property
    def required(self) -> list[str]:
        """Names of the parameters that have no default."""
        return [name for name, keyword in self.parameters.items() if keyword.default is inspect.Parameter.empty]

    @property
    def learns(self) -> bool:
        """Whether it learns at all; baselines do not."""
        return self._agent_class.learns

    def make(self, problem: Any, *, seed: int = 0, **parameters: Any) -> Agent:
        """Make an untrained agent; keywords that are not parameters describe the environment, see `Agent`.

        Parameters
        ----------
        problem, seed, **parameters
            As for the class.

        Returns
        -------
        Agent
            A new one.
        """
        return self._agent_class(problem, seed=seed, **parameters)


_ENTRIES: dict[str, Entry] = {}


def register(
    name: str,
    *,
    label: str,
    colour: str | None = None,
    reference: str = "",
    example: Mapping[str, Any] | None = None,
    home: str = "ambulance",
) -> Callable[[C], C]:
    """Declare the class below as the algorithm of this name.

    Parameters
    ----------
    name
        As the command line, files and studies write it.
    label
        As tables and captions write it.
    colour
        Of its lines in charts, "#rrggbb".
    reference
        The paper it comes from.
    example
        Parameters without a default, for its `home`.
    home
        A built-in problem that it can play.

    Returns
    -------
    callable
        A decorator that returns the class as it is.

    Raises
    ------
    ParameterError
        Where the name belongs to another class already.

    Examples
    --------
    >>> import spaql
    >>> @spaql.register("careful", label="Careful")
    ... class Careful(spaql.AQL):
    ...     def __init__(self, problem, *, scaling=0.01, **keywords):
    ...         super().__init__(problem, scaling=scaling, **keywords)
    >>> spaql.algorithms()["careful"].make("oil").scaling
    0.01
    """
    if colour is not None and not (isinstance(colour, str) and re.fullmatch("#[0-9a-fA-F]{6}", colour)):
        raise ParameterError(f'register: expected a colour such as "#D55E00" for {name!r}, got {show(colour)}')

    def declare(cls: C) -> C:
        taken = _ENTRIES[name].cls if name in _ENTRIES else cls
        if _path_of(taken) != _path_of(cls):  # the same class again where its module is reloaded
            raise ParameterError(f"register: {name!r} is {_path_of(taken)} already; choose another name")
        _ENTRIES[name] = Entry(name, label, cls, colour, reference, dict(example or {}), home)
        return cls

    return declare


def algorithms() -> dict[str, Entry]:
    """Return the registered algorithms by name.

    Returns
    -------
    dict of Entry
        Those of this package and those that `register` declared.

    Examples
    --------
    >>> import spaql
    >>> spaql.algorithms()["tessera"].cls
    <class 'spaql.agents.tessera.agent.Tessera'>
    """
    return dict(_ENTRIES)


def resolve(name: str) -> Entry:
    """Return the algorithm of a name.

    Parameters
    ----------
    name
        A registered name, or "module:Class" for a class of yours: an `Agent`, or any class with
        `learn(total_timesteps=)` and `predict(observation)`.

    Returns
    -------
    Entry
        The algorithm.

    Raises
    ------
    ParameterError
        Where nothing has that name, or the class lacks one of the two methods.

    Examples
    --------
    >>> from spaql.agents import resolve
    >>> resolve("spaql").reference
    'Araujo, Figueiredo, Ayala Botto: Single-partition adaptive Q-learning (2020)'
    """
    if name in _ENTRIES:
        return _ENTRIES[name]
    module, _, attribute = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if not module:
        raise ParameterError(
            f'algorithm: {name!r} is not one of {", ".join(_ENTRIES)}; a class of yours is written "module:Class"'
        )
    source = import_module(module, f"algorithm {name!r}")
    try:
        cls = getattr(source, attribute)
        issubclass(cls, object)  # a TypeError where it is no class
        inspect.signature(cls.learn).bind(None, total_timesteps=1)
        inspect.signature(cls.predict).bind(None, None)
    except (AttributeError, TypeError) as error:
        wanted = "a class with learn(total_timesteps=) and predict(observation)"
        raise ParameterError(f"algorithm {name!r}: expected {wanted}; {error}") from error
    registered = next((entry for entry in _ENTRIES.values() if entry.cls is cls), None)
    if registered is None:
        return Entry(name, getattr(cls, "label", cls.__name__), cls)
    return registered if registered.built_in else replace(registered, name=name)  # a name for other processes too


def name_of(agent: Agent) -> str:
    """Return the registered name of an agent's class, or "module:Class" for others."""
    if isinstance(agent, ForeignAgent):
        return agent.name
    return next((entry.name for entry in _ENTRIES.values() if entry.cls is type(agent)), _path_of(type(agent)))


def _path_of(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
