"""What can be read off a policy that is a partition: cells, decision tree, rules, explanations, plots, exports.

The methods here are those of every agent, so that an agent without a partition says so in one sentence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from spaql.agents import training
from spaql.errors import ParameterError
from spaql.partition.partition import Cells, Partition
from spaql.problems.base import Playable
from spaql.problems.labels import make_labels
from spaql.validation import check_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from spaql.explain.explanation import Explanation
    from spaql.explain.rules import Rules
    from spaql.export.policy import Policy
    from spaql.partition.tree import Tree


class Readable:
    """An agent as far as its policy can be read; `Agent` has the rest."""

    problem: Playable
    seed: int
    #: whether the policy changes with the time step
    time_variant: ClassVar[bool] = False

    def _policy(self) -> Partition:
        """Return the partition that decides; a `ParameterError` where there is none."""
        name = getattr(self, "cls", type(self)).__name__  # of the user's class in a `ForeignAgent`
        raise ParameterError(f"{name} has no partition to read; SPAQL, AQL and Tessera have one")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; see `Agent.get_params`."""
        raise NotImplementedError

    def _origin(self) -> str:
        """Return where the policy comes from, for readers of exported files."""
        raise NotImplementedError

    def _require_training(self) -> None:
        """Raise where nothing has been learned yet."""

    def cells(self) -> Cells:
        """Return the policy's cells in the problem's units, read-only; none for an agent without a partition.

        `len` counts them; the paper calls them arms or balls.  Agents that extract their policy from what they have
        learned do so at the first call after learning.
        """
        states, actions = self.problem.states.dimensions, self.problem.actions.dimensions
        low, high, action_low, action_high = (np.empty((0, size)) for size in (states, states, actions, actions))
        q, visits, depth, step = np.empty(0), np.empty(0, np.int32), np.empty(0, np.int16), np.empty(0, np.int16)
        return Cells(low, high, action_low, action_high, q, visits, depth, step)

    def tree(self) -> Tree:
        """Return the policy as a decision tree, which decides as `predict` does; see `spaql.partition.tree`."""
        from spaql.partition.tree import decision_tree

        self._require_training()
        return decision_tree(self._policy(), self.problem.decode, getattr(self.problem, "periodic", ()))

    def plot(
        self,
        dims: Sequence[int | str] | None = None,
        at: Mapping[int | str, float] | Sequence[float] | None = None,
        layer: str = "policy",
        step: int = 0,
        *,
        projection: bool = False,
        action_dim: int = 0,
        names: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> Figure:
        """Draw the policy over two observed dimensions; where there is only one, over states and actions.

        The views are those of `spaql show`; see `spaql.viz.policy_plot`.

        Parameters
        ----------
        dims
            The two observed dimensions across and upwards, by index or name; None takes those with most influence.
        at
            Values of the others, by index or name, or a whole state; None takes the median of the visits.
        layer
            What colours show: policy, q, visits, depth or uncertainty.
        step
            Time step of a policy that changes with it, from 0.
        projection
            Average over the other dimensions, weighted by visits, instead of fixing them.
        action_dim
            Dimension of the action to show, where it has several.
        names, actions
            Names of the observed dimensions, and of the actions or their dimensions, if not the usual.

        Examples
        --------
        >>> import spaql
        >>> spaql.Tessera("oil").learn(iterations=50).plot(layer="visits").axes[0].get_xlabel()
        'position'
        """
        from spaql.agents.inspection import view_policy  # here: it imports all of matplotlib

        agent: Any = self
        view = view_policy(agent, "plot", names, actions)
        return view.plot(dims, at, layer, step, projection=projection, action_dim=action_dim)

    def explain(
        self,
        observation: Any,
        *,
        step: int = 0,
        runners_up: int = 3,
        names: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> Explanation:
        """Return why `predict` chooses its action for one observation, and what would change it.

        Parameters
        ----------
        observation
            One, as `predict` takes it.
        step
            Time step, for agents whose policy changes with it.
        runners_up
            How many other actions to list, at most.
        names, actions
            Names of the observed numbers, and of the discrete actions or the numbers of an action.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.Tessera("oil", seed=0).learn(iterations=100)
        >>> why = agent.explain([0.0])
        >>> why.action == agent.predict([0.0])[0]
        array([ True])
        """
        from spaql.explain.explanation import explain

        tree, at = self.tree(), self._time(step)
        count = check_whole(runners_up, "runners_up", 0)
        scaling = self.get_params().get("scaling")
        called = {"names": names, "actions": actions}
        return explain(
            self.problem, self._policy(), tree, observation, step=at, scaling=scaling, runners_up=count, **called
        )

    def rules(
        self, *, step: int = 0, names: Sequence[str] | None = None, actions: Sequence[str] | None = None
    ) -> Rules:
        """Return the policy as a short list of rules, of which the first that fits decides.

        Parameters
        ----------
        step, names, actions
            As in `explain`.

        Examples
        --------
        >>> import spaql
        >>> rules = spaql.Tessera("oil", seed=0).learn(iterations=100).rules()
        >>> rules[-1].conditions  # the last rule fits always
        ()
        """
        from spaql.explain.rules import Rules

        tree, at, labels = self.tree(), self._time(step), make_labels(self.problem, names, actions)
        inherits = "scaling" in self.get_params()  # the published agents, who split as published
        with training.announce_compilation("rules", None):
            return Rules(self.problem, tree, labels, step=at, partition=self._policy(), inherits=inherits)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        names: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> Path:
        """Write the policy as a program that decides as `predict` does, without spaql; see `spaql.export`.

        Parameters
        ----------
        path
            The file; its suffix says what it is: .c or .h (C99), .py (plain Python), .json, or .onnx (needs the extra
            spaql[onnx]).
        name
            Prefix of functions in C, such as `policy` for `policy_act`; None takes the file's own name.
        names, actions
            Names of the observed numbers and the actions, one for each, for readers of the file.

        Examples
        --------
        >>> import spaql, tempfile
        >>> agent = spaql.Tessera("oil", seed=0).learn(iterations=50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     "policy_act" in agent.export(f"{folder}/policy.h").read_text()
        True
        """
        from spaql.export import export

        return export(self.to_policy(names=names, actions=actions), path, name=name)

    def to_policy(self, *, names: Sequence[str] | None = None, actions: Sequence[str] | None = None) -> Policy:
        """Return what `export` writes: the decision tree, its labels and where it comes from."""
        from spaql.agents.registry import name_of
        from spaql.export.policy import Policy

        return Policy(
            self.problem,
            self.tree(),
            make_labels(self.problem, names, actions),
            algorithm=name_of(self),  # type: ignore[arg-type]
            origin=self._origin(),
            time_variant=self.time_variant,
        )

    def _time(self, step: Any) -> int | None:
        """Check a time step; return None where it makes no difference."""
        at = check_whole(step, "step", 0, self.problem.horizon - 1)
        if at and not self.time_variant:
            raise ParameterError(f"step: {type(self).__name__} decides alike in every step; leave it out")
        return at if self.time_variant else None
