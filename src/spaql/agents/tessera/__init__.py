"""Tessera, the agent that goes past the paper."""
