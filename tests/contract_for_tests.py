"""A small problem and checks that the tests of problems share."""

import pytest
from numba.core import config

import spaql
from spaql.agents import resolve
from spaql.errors import SpaqlError

SLOW = config.DISABLE_JIT


def assert_refused(kind, call, *mentions):
    """The one line that a wrong call is answered with; it mentions all of these."""
    with pytest.raises(SpaqlError) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is kind
    assert message
    assert "\n" not in message
    for text in mentions:
        assert text in message
    return message


MAKERS = {
    "Tessera": lambda *given, **more: spaql.Tessera(*given, **more),
    "published": lambda *given, **more: spaql.SPAQL(*given, **more),
    "AQL": spaql.AQL,
    "Random": spaql.Random,
    "NoMovement": resolve("no-movement").make,
    "Mean": resolve("mean").make,
    "Median": resolve("median").make,
}
