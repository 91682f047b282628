"""What the README shows works as it stands."""

import re
from pathlib import Path

import pytest
from numba.core import config

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_there_is_something_to_run():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_code_runs(block):
    if config.DISABLE_JIT:
        block = block.replace("5000", "20").replace("10_000", "20")
    names: dict[str, object] = {}
    exec(block, names)
    assert "problem" in names or "walk" in names


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(target):
    assert (Path(__file__).parent.parent / target).exists()
