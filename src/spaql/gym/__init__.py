"""Gymnasium in and out: environments as problems, and problems as environments.

`problem.resolve_problem` takes whatever a user may call a problem; `problem.GymnasiumProblem` is an environment as one,
with `calls`, `callback` and `encoding` below it; `environments.ProblemEnvironment` is the way back, and `registration`
tells Gymnasium of ours.  `description` is for agent files.  The package imports `spaql.problems`, `spaql.partition` and
leaf modules only.
"""
