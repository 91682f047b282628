"""Sweeps: a study described in a small file, done on any engine, told as tables, figures and a page."""

from spaql.sweeps.description import Description, Group

__all__ = ["Description", "Group"]
