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
    """Base of every error that a user can mend."""


class ParameterError(SpaqlError, ValueError):
    """A parameter, observation or action is not allowed."""


class ProblemError(SpaqlError, ValueError):
    """A problem breaks the contract of `spaql.problems.base`."""


class EnvironmentFault(SpaqlError, ValueError):
    """A Gymnasium environment returned something that is not finite, or not of the shape it declares."""


class NotTrainedError(SpaqlError, RuntimeError):
    """An agent has not learned yet."""


class AgentFileError(SpaqlError, ValueError):
    """A file is not an agent file, is damaged, or was written by a newer version."""


class OutputError(SpaqlError, OSError):
    """A file or folder cannot be written."""


class StoreError(SpaqlError, OSError):
    """A store of finished runs cannot be used; nothing in it is lost."""


class NothingYetError(StoreError):
    """A store does not exist yet, or is still empty."""


class EngineError(SpaqlError, RuntimeError):
    """Workers cannot be started, or computers cannot be reached; finished runs are kept."""


class StudyError(SpaqlError, ValueError):
    """A study file, or a part of it, is invalid."""
