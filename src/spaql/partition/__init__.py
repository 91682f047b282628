"""Cells, the trees they are filed in, and every kernel on them; spaces, random streams and compilation."""
