"""Decisions explained, and policies as rules."""
