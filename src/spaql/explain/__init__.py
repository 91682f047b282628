"""Explanations of single decisions, and whole policies as ordered rules, of a partition and its decision tree."""
