"""Runs: one agent trained and evaluated on one problem, or many of them, each once, on one machine or a cluster.

`run_spec` says what a run is, `execute` performs one, and `run_many` many, on one of the `engines`, into a `store`;
`code_version` identifies the code that computes them.  `train_dir` and `summary` are the folder of `spaql train` and
what it reports.  Public seam: `Run`, `make_agent`, `execute`, `run_many`, `make_engine`, `Store`, `TrainDir`.
"""
