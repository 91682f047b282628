"""What can be read from every agent's policy: cells, tree, picture, explanation, rules, exports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from spaql.agents.progress import announce_compilation
from spaql.errors import ParameterError
from spaql.partition.partition import Cells, Partition
from spaql.partition.spaces import Floats
from spaql.partition.tree import Tree, decision_tree
from spaql.problems.base import Playable
from spaql.problems.labels import make_labels
from spaql.validation import check_whole, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spaql.agents.base import Agent
    from spaql.explain.explanation import Explanation
    from spaql.explain.rules import Rules
    from spaql.explain.short_rules import ShortRules
    from spaql.export.policy import Policy

Names = Sequence[str] | None


class ReadablePolicy:
    """Base of `spaql.agents.Agent`: the methods that read its policy, which is a partition."""

    problem: Playable  #: what it learns on
    seed: int  #: of everything random about it
    time_variant: bool
    inherits_visits: bool

    @property
    def iterations(self) -> int:
        """Iterations learned so far."""
        raise NotImplementedError

    @property
    def training_steps(self) -> int:
        """Environment steps spent on learning."""
        raise NotImplementedError

    @property
    def bonus_scale(self) -> float | None:
        """What the bonus for exploration after v visits is over 1 / sqrt(v); None for agents without such a bonus."""
        return None

    def _require_training(self) -> None:
        raise NotImplementedError

    def _policy(self) -> Partition:
        """Return the partition that decides after all that was learned; a `ParameterError` where there is none."""
        remedy = "train an agent that has cells, such as Tessera"
        raise ParameterError(f"{type(self).__name__} has no partition to read; {remedy}")

    def _read_policy(self) -> Partition:
        """Return the partition to read and to play: that of `_policy`, or one that was restored."""
        return self._policy()

    @property
    def restored_from(self) -> int | None:
        """The `num_timesteps` of the policy that `Evaluate(restore_best=True)` restored; None without one."""
        return None

    def cells(self) -> Cells:
        """Return the policy's cells in the problem's units, read-only; none for an agent without a partition.

        `len` counts them; the paper calls them arms or balls.  Agents that extract their policy from what they have
        learned do so at the first call after learning.

        Returns
        -------
        Cells
            Arrays with a row for each cell.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
        >>> agent.cells()
        Cells(22, depth 2 to 3, Q 5.141 to 5.64)
        """
        states, actions = self.problem.states.dimensions, self.problem.actions.dimensions
        arrays: list[NDArray[Any]] = [np.empty((0, size)) for size in (states, states, actions, actions)]
        return Cells(*arrays, *(np.empty(0, kind) for kind in (np.float64, np.int32, np.int16, np.int16)))

    def tree(self) -> Tree:
        """Return the policy as a decision tree, which decides as `predict` does; see `spaql.partition.tree`.

        Returns
        -------
        Tree
            One root for each time step of a policy that changes with it.

        Raises
        ------
        NotTrainedError
            Before learning.
        ParameterError
            Where the agent has no partition.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
        >>> tree = agent.tree()
        >>> tree.depth, len(tree.actions)
        (2, 4)
        """
        self._require_training()
        return decision_tree(self._read_policy(), self.problem.decode, getattr(self.problem, "periodic", ()))

    def plot(
        self,
        dims: Sequence[int | str] | None = None,
        at: Mapping[int | str, float] | Sequence[float] | None = None,
        layer: str = "policy",
        step: int = 0,
        *,
        projection: bool = False,
        action_dim: int = 0,
        names: Names = None,
        actions: Names = None,
        ax: Axes | None = None,
    ) -> Figure | Any:
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
        ax
            Matplotlib axes to draw into, with a colour bar or a legend beside them.  Every view needs one only.

        Returns
        -------
        matplotlib.figure.Figure
            Which a notebook shows as a picture; with `ax`, these axes.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
        >>> figure = agent.plot()
        >>> [axes.get_xlabel() for axes in figure.axes]
        ['position', '']
        """
        from spaql.agents.inspection import view_policy  # here: it imports all of matplotlib

        view = view_policy(cast("Agent", self), names, actions)
        return view.plot(dims, at, layer, step, projection=projection, action_dim=action_dim, axes=ax)

    def explain(
        self, observation: Any, *, step: int = 0, runners_up: int = 3, names: Names = None, actions: Names = None
    ) -> Explanation:
        """Return why `predict` chooses its action for one observation, and what would change it.

        Parameters
        ----------
        observation
            One, as `predict` takes it, or a mapping from the names of the observed numbers to these.
        step
            Time step, for agents whose policy changes with it.
        runners_up
            How many other actions to list, at most.
        names, actions
            Names of the observed numbers, and of the discrete actions or the numbers of an action.

        Returns
        -------
        Explanation
            The cell that decides, what else could be done, and where the action changes; `print` shows it.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
        >>> explanation = agent.explain([0.5])
        >>> explanation.label
        'next position 0.6875'
        >>> explanation.to_dict() == agent.explain({"position": 0.5}).to_dict()
        True
        """
        from spaql.explain.explanation import explain

        tree, at, labels = self.tree(), self._check_step(step), make_labels(self.problem, names, actions)
        policy, most = self._read_policy(), check_whole(runners_up, "runners_up", 0)
        settings: dict[str, Any] = {"step": at, "scaling": self.bonus_scale, "runners_up": most}
        return explain(
            self.problem,
            policy,
            tree,
            labels,
            observation,
            **settings,
            alternatives=lambda point: self._alternatives(point, at or 0),
        )

    def _alternatives(self, point: Floats, step: int) -> tuple[Floats, Floats] | None:
        """Return actions that `explain` compares at a point of the unit cube `[states]`, and their Q `[k]`.

        Actions `[k, actions]` are in the unit cube, or numbers of discrete actions; the one played may be among them.
        None compares the cells of the policy.
        """
        return None

    def _weigh_rules(self) -> dict[str, Any]:
        """Return what tells `Rules` how often each rule decides: nothing where the visits of cells do."""
        return {}

    def _evaluate(self, points: Floats, steps: NDArray[Any], actions: Floats) -> Floats | None:
        """Return Q of actions `[k, actions]` in states `[n, states]` at time steps `[n]`, as `[n, k]`.

        States and actions are in the unit cube, or numbers of discrete actions.  None where Q is known for cells only.
        """
        return None

    def rules(
        self,
        *,
        at_most: int | None = None,
        max_loss: float | None = None,
        episodes: int | None = None,
        oblique: bool | None = None,
        seed: int | None = None,
        step: int = 0,
        names: Names = None,
        actions: Names = None,
        progress_bar: bool | None = None,
    ) -> Rules:
        """Return the policy as a list of rules, of which the first that matches decides.

        Without `at_most` the rules decide exactly as the policy.  With it they are few and approximate it.  They are
        chosen by episodes that count towards no budget and change nothing, and what they lose is measured in others.

        Parameters
        ----------
        at_most
            The number of rules, at most; None returns the exact rules.
        max_loss
            What short rules may lose, as a share of the policy's gain over random actions, 0.01 unless given: the
            shortest list within it is returned, or else, and it says so, the one that loses least.
        episodes
            New episodes in which the loss is measured, 200 unless given.
        oblique
            Whether short rules may compare a combination of two numbers, where that saves rules; True unless given.
        seed
            Of these episodes; None takes the agent's.  The same call returns the same rules.
        step, names, actions
            As in `explain`.
        progress_bar
            Whether to say that the search is under way; None does so on a terminal.

        Returns
        -------
        Rules
            With `at_most` a `spaql.explain.short_rules.ShortRules`.

        Examples
        --------
        >>> import spaql
        >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
        >>> print(agent.rules())
        if position < 0.25: next position 0.625      28%
        if position >= 0.75: next position 0.8125    25%
        if position < 0.5: next position 0.875       13%
        otherwise: next position 0.6875              34%
        >>> len(agent.rules(at_most=1, episodes=20))
        1
        """
        from spaql.explain.rules import Rules

        settings = {"max_loss": max_loss, "episodes": episodes, "oblique": oblique, "seed": seed}
        given = {name: value for name, value in settings.items() if value is not None}
        if at_most is not None:
            from spaql.agents.rule_search import check_settings, find_short_rules  # here: it is rarely needed

            usual = {"max_loss": 0.01, "episodes": 200, "oblique": True, "seed": self.seed}
            checked = check_settings(at_most, **usual | given)  # type: ignore[arg-type]
            self._check_step(step)
            labels = make_labels(self.problem, names, actions)
            return find_short_rules(cast("Agent", self), checked, labels, progress_bar)
        if given:
            raise ParameterError(f"{next(iter(given))}: for short rules only; give at_most, the number of rules")
        tree, at, labels = self.tree(), self._check_step(step), make_labels(self.problem, names, actions)
        policy = self._read_policy()
        with announce_compilation("rules", None):
            weights: dict[str, Any] = {"inherits": self.inherits_visits, "partition": policy, **self._weigh_rules()}
            return Rules(self.problem, tree, labels, step=at, **weights)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        names: Names = None,
        actions: Names = None,
        rules: ShortRules | None = None,
    ) -> Path:
        """Write the policy as a program that decides as `predict` does, without spaql; see `spaql.export`.

        Parameters
        ----------
        path
            The file; its suffix, one of `spaql.export.SUFFIXES`, says what it is.
        name
            Prefix of functions in C, such as `policy` for `policy_act`; None takes the file's own name.
        names, actions
            Names of the observed numbers and the actions, one for each, for readers of the file.
        rules
            Short rules of this agent, made with `oblique=False`, to write instead of its whole policy.

        Returns
        -------
        pathlib.Path
            The file that was written.

        Raises
        ------
        ParameterError
            On another suffix, or where the agent has no partition.
        OutputError
            Where the file cannot be written.

        Examples
        --------
        >>> import tempfile, spaql
        >>> agent = spaql.SPAQL("oil", seed=0).learn(iterations=50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = agent.export(f"{folder}/policy.py")
        ...     "def act(" in path.read_text()
        True
        """
        from spaql.export import export

        return export(self.to_policy(names=names, actions=actions, rules=rules), path, name=name)

    def to_policy(self, *, names: Names = None, actions: Names = None, rules: ShortRules | None = None) -> Policy:
        """Return what `export` writes: the decision tree, its labels and where it comes from.

        Parameters
        ----------
        names, actions, rules
            As in `export`.

        Returns
        -------
        Policy
            The policy, independent of the agent.
        """
        from spaql.agents.registry import name_of
        from spaql.export.policy import Policy

        labels = make_labels(self.problem, names, actions)
        tree = self.tree() if rules is None else _find_tree(rules)
        origin = f"{self.iterations:,} iterations, {self.training_steps:,} training steps, seed {self.seed}"
        if self.restored_from is not None:
            origin += f", restored from step {self.restored_from:,}"
        if rules is not None:
            origin += f"; approximated by {len(rules)} rules"
        return Policy(self.problem, tree, labels, name_of(cast("Agent", self)), origin, self.time_variant)

    def _check_step(self, step: Any) -> int | None:
        """Check a time step; return None where it makes no difference."""
        at = check_whole(step, "step", 0, self.problem.horizon - 1)
        if at and not self.time_variant:
            raise ParameterError(f"step: {type(self).__name__} decides alike in every step; leave it out")
        return at if self.time_variant else None


def _find_tree(rules: Any) -> Tree:
    """Return the tree of short rules that can be exported."""
    tree = getattr(rules, "tree", None)
    if not isinstance(tree, Tree):
        raise ParameterError(f"rules: expected those of rules(at_most=...), got {show(rules)}")
    if rules.features:
        what = "they compare a combination of two numbers, which exported files cannot"
        raise ParameterError(f"rules: {what}; make them with oblique=False, or use rules.json()")
    return tree
