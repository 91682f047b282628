"""Tuning: search for good parameters of an algorithm, and evaluate them on other seeds; `spaql.tune` is the entry."""
