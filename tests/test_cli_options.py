"""Options made from the signature of a class: their types are those of its annotations."""

import sys

import pytest

from spaql.agents import resolve
from spaql.cli.options import Parser, add_signature, read_signature

TYPED = """
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Optional, Union

if TYPE_CHECKING:
    from nowhere import Schedule


class Typed:
    def __init__(
        self,
        env,
        free,
        rate: Optional[float] = None,
        kind: Literal["soft", "hard"] = "soft",
        level: Literal[1, 2, None] = None,
        policy: Union[str, type] = "mlp",
        schedule: Schedule = None,
        plain=None,
        count=3,
        either: int | str = 1,
        whole: int | float = 1,
        switch: bool | None = None,
        layers: Sequence[int] = (),
        names: list[str] | None = None,
        pair: tuple[float, float] | None = None,
        many: tuple[int, ...] = (),
        bins: int | Sequence[int] | None = None,
        sizes=(1, 2),
        seed: int = 0,
    ):
        pass

    def learn(self, total_timesteps):
        pass

    def predict(self, observation):
        return 0
"""


@pytest.fixture
def typed(tmp_path, monkeypatch):
    (tmp_path / "typed_module.py").write_text(TYPED)
    monkeypatch.syspath_prepend(tmp_path)
    yield resolve("typed_module:Typed")
    sys.modules.pop("typed_module")


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--rate", "0.5"], 0.5),
        (["--kind", "hard"], "hard"),
        (["--level", "2"], 2),
        (["--policy", "cnn"], "cnn"),
        (["--policy", "3"], "3"),
        (["--schedule", "linear"], "linear"),
        (["--schedule", "0.5"], 0.5),
        (["--plain", "7"], 7),
        (["--plain", "x"], "x"),
        (["--count", "4"], 4),
        (["--either", "4"], 4),
        (["--either", "x"], "x"),
        (["--whole", "1.5"], 1.5),
        (["--no-switch"], False),
        (["--layers", "64", "32"], [64, 32]),
        (["--names", "1", "b"], ["1", "b"]),
        (["--pair", "1", "2.5"], [1.0, 2.5]),
        (["--many", "1"], [1]),
        (["--bins", "8"], 8),
        (["--bins", "8", "8", "4"], [8, 8, 4]),
        (["--sizes", "1", "x"], [1, "x"]),
    ],
)
def test_options_have_the_types_of_annotations(typed, words, value):
    parser = Parser()
    add_signature(parser, "algorithm", typed.parameters, typed.cls)
    given = read_signature(parser.parse_args(["--free", "1", *words]), "algorithm")
    name = words[0].removeprefix("--").removeprefix("no-")
    assert given == {"free": 1, name: value}
    assert type(given[name]) is type(value)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--kind", "harder"], "invalid choice: 'harder'"),
        (["--level", "3"], "invalid choice: '3'"),
        (["--rate", "inf"], "expected a finite number, got 'inf'"),
        (["--plain", "nan"], "expected a finite number, got 'nan'"),
        (["--pair", "1"], "expected 2 arguments"),
        (["--count", "x"], "argument --count: expected a whole number, got 'x'"),
        (["--rate", "x"], "argument --rate: expected a number, got 'x'"),
    ],
)
def test_options_of_other_types_are_refused(typed, capsys, words, sentence):
    parser = Parser()
    add_signature(parser, "algorithm", typed.parameters, typed.cls)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--free", "1", *words])
    assert sentence in capsys.readouterr().err
