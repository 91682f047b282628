"""Tuning: search for good parameters of an algorithm, and evaluate them on other seeds.

`spaql.tune` is the entry.  A tuning is a study (`spaql.studies.study`) whose stages are suggested by Optuna and raced.

optuna_study   Optuna: suggestions, its file, importance of parameters
racing         when a trial is behind the best
trials         trials and the result of a tuning
tuner          the study
tuning_report  tables and charts
"""
