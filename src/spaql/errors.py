"""What may go wrong for a user, one sentence each: what, where, what to do.

A traceback is for our own bugs; the command line prints these as a single line and exits with 2.
"""

from __future__ import annotations


class SpaqlError(Exception):
    """Base of every error that a user can mend."""


class ParameterError(SpaqlError, ValueError):
    """A parameter, observation or action outside what is allowed."""


class ProblemError(SpaqlError, ValueError):
    """A problem that does not keep the contract of `spaql.problems.base`."""


class EnvironmentFault(SpaqlError, ValueError):
    """A Gymnasium environment gave what is not a finite number, or not of the shape that it promised."""


class NotTrainedError(SpaqlError, RuntimeError):
    """An agent was asked for what it has not learned yet."""


class AgentFileError(SpaqlError, ValueError):
    """A file that is no agent's, or a damaged or newer one."""


class OutputError(SpaqlError, OSError):
    """A file or folder that cannot be written."""


class StoreError(SpaqlError, OSError):
    """A store of finished runs that cannot be used; nothing in it is lost."""


class NothingYetError(StoreError):
    """A store that is not there, or that nobody has begun to fill."""


class EngineError(SpaqlError, RuntimeError):
    """Workers that cannot be had, or computers that cannot be reached; finished runs are kept."""


class StudyError(SpaqlError, ValueError):
    """A study file, or a part of it, that says what cannot be done."""
