"""Studies: groups of runs, performed in stages, and reports of their results.

`study` has the one type, `Study`, and `run_study`, which performs a study in a folder and writes tables, figures and a
page.  `paper`, `ablation`, `families`, `family` and `control` (with `variants`) are studies of this library; `sweep`
and `tune` make a study of a user's file.  Imports everything but `cli`.
"""
