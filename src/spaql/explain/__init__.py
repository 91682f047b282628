"""Explanations of single decisions, and whole policies as ordered rules.

    explanation       why a policy takes an action for one observation, and what would change it
    rules             the policy as rules of which the first that matches decides: text, Markdown, JSON
    decision_list     few boxes that decide as a decision tree does

Works on a problem, a partition and its decision tree; may import `problems`, `partition` and the leaf modules, and
knows no agent.  Public seam: `explanation.explain`, `explanation.make_observation`, `rules.Rules`.
"""
