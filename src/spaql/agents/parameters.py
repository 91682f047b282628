"""Parameters of an agent: the keywords of its constructor, each stored as an attribute of the same name."""

import inspect
from typing import Any

OUTPUTS = ("verbose", "tensorboard_log")  # keywords of every agent that say nothing about what it learns


class Parameterised:
    """Base of classes whose constructor keywords can be listed and read back."""

    @classmethod
    def keywords(cls) -> dict[str, inspect.Parameter]:
        """Return the keywords of the constructor, with those that it passes on to its base classes.

        Returns
        -------
        dict of inspect.Parameter
            By name.
        """
        keywords: dict[str, inspect.Parameter] = {}
        for base in cls.__mro__:
            given = inspect.signature(base.__init__).parameters  # type: ignore[misc]
            own = {name: each for name, each in given.items() if each.kind is each.KEYWORD_ONLY}
            keywords |= {name: each for name, each in own.items() if name not in keywords and name not in OUTPUTS}
            if not any(each.kind is each.VAR_KEYWORD for each in given.values()):
                break
        return keywords

    @classmethod
    def accepts(cls, name: str) -> bool:
        """Return whether the constructor takes a keyword.

        Parameters
        ----------
        name
            Of the keyword.

        Returns
        -------
        bool
            False too for keywords that describe the environment.
        """
        return name in cls.keywords()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's keywords and their values, as scikit-learn does; `deep` makes no difference.

        Parameters
        ----------
        deep
            Ignored.

        Returns
        -------
        dict
            Values by name.

        Examples
        --------
        >>> import spaql
        >>> spaql.AQL("oil").get_params()
        {'scaling': 0.5, 'rollouts': 20, 'seed': 0}
        """
        return {name: getattr(self, name) for name in self.keywords()}
