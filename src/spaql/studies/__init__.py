"""Studies: many runs, their groups, table, charts and page."""
