"""The history of learning: one row per iteration.  Its columns are part of the agent file (`docs/format.md`)."""

from __future__ import annotations

import numpy as np

ROW = np.dtype(
    [
        # mean return of the current policy in the agent's own rollouts, and of the policy that would be returned now;
        # without rollouts both are the return of the training episode
        ("score", np.float64),
        ("best", np.float64),
        ("temperature", np.float64),  # tau during the iteration
        ("heat", np.float64),  # u during the iteration
        ("value_low", np.float64),  # smallest and largest V(x') used in an update; for Tessera, of the last one
        ("value_high", np.float64),
        # cells of the policy that would be returned now; for Tessera, of the partition it learns with
        ("cells", np.int64),
        ("splits", np.int64),  # cells split in the iteration
        ("resets", np.int64),  # 1 where the agent went back to its best
        ("training_steps", np.int64),  # environment steps so far, spent on learning
        ("selection_steps", np.int64),  # ... on choosing which policy to keep
        ("monitoring_steps", np.int64),  # ... on the learning curve only
    ]
)
STEPS = ("training_steps", "selection_steps", "monitoring_steps")
