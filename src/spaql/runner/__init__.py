"""Runs as data, carried out once each: specification, engines, store, folders."""
