"""Cell arrays and every kernel on them: compilation, random streams, spaces, partitions, decision trees.

A partition covers the state-action space with cells; a decision tree is its greedy policy.  This package imports only
`spaql.errors` and `spaql.validation`, and knows no problem and no agent.  Its seam: `spaces.Box` and `spaces.Discrete`;
`partition.Partition` (`reserve`, `copy`, `view`, `greedy`, `arrays`, `restore`) and its read-only `Cells`; the kernels
`find_best`, `sample_cell`, `draw_action`, `update_cell`, `split_cell`, `split_side`, `find_cell`, `copy_forest`;
`tree.decision_tree`; `rng.stream`, `uniform`, `normal`, `gamma`; and `jit.kernel`, which compiles and caches.
"""
