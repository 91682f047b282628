"""Errors that a user can mend, in one sentence each: what, where, what to do.

A traceback is for our own bugs; the command line prints these as a single line and exits with 2.
"""

__all__ = [
    "AgentFileError",
    "EngineError",
    "EnvironmentFault",
    "NotTrainedError",
    "NothingYetError",
    "OutputError",
    "ParameterError",
    "ProblemError",
    "SpaqlError",
    "StoreError",
    "StudyError",
]


class SpaqlError(Exception):
    """Base of every error that a user can mend.

    Examples
    --------
    >>> import spaql
    >>> try:
    ...     spaql.load("nowhere.spaql")
    ... except spaql.SpaqlError as error:
    ...     print(error)
    nowhere.spaql: there is no such file; agent.save writes one, and so does spaql train --out
    """


class ParameterError(SpaqlError, ValueError):
    """A parameter, observation or action is not allowed.

    Examples
    --------
    >>> import spaql
    >>> try:
    ...     spaql.AQL("oil", scaling=-1)
    ... except spaql.ParameterError as error:
    ...     print(error)
    scaling: expected a finite number of at least 0 and of at most 1e+100, got -1
    """


class ProblemError(SpaqlError, ValueError):
    """A problem breaks the contract of `spaql.problems.base`.

    Examples
    --------
    >>> import spaql
    >>> try:
    ...     spaql.optimum("cartpole")
    ... except spaql.ProblemError as error:
    ...     print(error)  # doctest: +ELLIPSIS
    problem 'cartpole' has no model, so its optimum cannot be computed; ...
    """


class EnvironmentFault(SpaqlError, ValueError):
    """A Gymnasium environment returned something that is not finite, or not of the shape it declares.

    Examples
    --------
    >>> import gymnasium, spaql
    >>> class Broken(gymnasium.Wrapper):
    ...     def step(self, action):
    ...         observation, _, *ended = super().step(action)
    ...         return observation, float("nan"), *ended
    >>> environment = Broken(gymnasium.make("spaql/Oil-v0"))
    >>> try:
    ...     agent = spaql.AQL(environment, rollouts=0, seed=0).learn(iterations=1)
    ... except spaql.EnvironmentFault as error:
    ...     print(error)  # doctest: +ELLIPSIS
    environment 'spaql/Oil-v0' gave the reward nan in step 1 of an episode, in iteration 1; ...
    """


class NotTrainedError(SpaqlError, RuntimeError):
    """An agent has not learned yet.

    Examples
    --------
    >>> import spaql
    >>> try:
    ...     spaql.AQL("oil").evaluate()
    ... except spaql.NotTrainedError as error:
    ...     print(error)
    AQL has not learned yet; call learn(total_timesteps) first
    """


class AgentFileError(SpaqlError, ValueError):
    """A file is not an agent file, is damaged, or was written by a newer version.

    Examples
    --------
    >>> import spaql
    >>> try:
    ...     spaql.load("nowhere.spaql")
    ... except spaql.AgentFileError as error:
    ...     print(error)
    nowhere.spaql: there is no such file; agent.save writes one, and so does spaql train --out
    """


class OutputError(SpaqlError, OSError):
    """A file or folder cannot be written.

    Examples
    --------
    >>> import tempfile, spaql
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     try:
    ...         path = spaql.Random("oil").save(f"{file.name}/agent")
    ...     except spaql.OutputError as error:
    ...         print("choose another" in str(error))
    True
    """


class StoreError(SpaqlError, OSError):
    """A store of finished runs cannot be used; nothing in it is lost.

    Examples
    --------
    >>> import spaql
    >>> try:  # doctest: +SKIP
    ...     spaql.sweep("study.toml", "results")
    ... except spaql.StoreError as error:
    ...     print(error)
    """


class NothingYetError(StoreError):
    """A store does not exist yet, or is still empty.

    Examples
    --------
    >>> import spaql
    >>> try:  # doctest: +SKIP
    ...     spaql.sweep("study.toml", "results")
    ... except spaql.NothingYetError as error:
    ...     print(error)
    """


class EngineError(SpaqlError, RuntimeError):
    """Workers cannot be started, or computers cannot be reached; finished runs are kept.

    Examples
    --------
    >>> import spaql
    >>> try:  # doctest: +SKIP
    ...     spaql.sweep("study.toml", "results", engine="dask", address="tcp://head:8786")
    ... except spaql.EngineError as error:
    ...     print(error)
    """


class StudyError(SpaqlError, ValueError):
    """A study file, or a part of it, is invalid.

    Examples
    --------
    >>> import spaql
    >>> try:
    ...     spaql.sweep({"seeds": 3}, "results")
    ... except spaql.StudyError as error:
    ...     print(error)
    study: problems is missing; add it
    """
