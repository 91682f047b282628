"""Runs: one agent trained and evaluated on one problem, or many of them, each once, on one machine or a cluster.

`run_spec` says what a run is (`Run`: everything that decides its numbers, and its id); `execute` trains and evaluates
one (`execute(run) -> Record`); `run_many` performs many on an engine and stores each record once; `store` keeps them;
`code_version` identifies the code that computes them; `engines` are the places where runs are performed; `train_dir`
and `summary` are the folder of `spaql train` and what it reports.

May import agents and everything below them; studies and the command line import it.  Public seam: `Run`, `make_agent`,
`execute`, `run_many`, `make_engine`, `Store`, `TrainDir`, `summarize`.
"""
