"""Sweeps: a study from a study file, run on any engine, with table, charts and page.

`spaql.sweep` is the entry.  The commands of `spaql sweep` read a folder at any moment, also those of other studies.
"""
