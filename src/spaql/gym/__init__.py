"""Gymnasium in and out: environments as problems, problems as environments."""
