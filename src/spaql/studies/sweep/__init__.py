"""Sweeps: a study from a study file, run on any engine, with table, charts and page.

`spaql.sweep` is the entry.  The commands of `spaql sweep` read a folder at any moment.

study_file     the tables and keys of a study file
sweep_study    the groups of runs of a study file, and how they are run
status         progress of a folder
group_values   values of finished runs, by group
comparison_table  the table: intervals, and comparison with a baseline
score_charts   learning curves and means
sweep_report   the page, the figures, and a view in a terminal
dataset        all runs in one CSV or Parquet file
"""
