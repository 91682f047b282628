"""Explanations of single decisions, and whole policies as ordered rules.

Works on a problem, a partition and its decision tree; may import `problems`, `partition` and the leaf modules, and
knows no agent.  Public seam: `explanation.explain`, `explanation.make_observation`, `rules.Rules`.
"""
