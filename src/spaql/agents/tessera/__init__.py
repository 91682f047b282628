"""Tessera: learn a model of the environment, plan in it, return a tree that people can read."""
