"""Pages of docs/ as tests run them: their blocks, and the commands in these."""

from pathlib import Path

import matplotlib

ROOT = Path(__file__).parents[1]


def page(name):
    """The text of a page."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(text, language="python"):
    """The blocks of a language, in order."""
    return [part.split("```")[0] for part in text.split(f"```{language}\n")[1:]]


def commands(text, language=""):
    """Lines of shell in the blocks of a language, or those of spaql on the whole page."""
    if language:
        return [line for block in blocks(text, language) for line in block.splitlines()]
    return [line for line in text.splitlines() if line.startswith("spaql ")]


def run(block, name, namespace):
    """A block of Python, as part of a page."""
    exec(compile(block, name, "exec"), namespace)


def performed(name):
    """Run every block of Python of a page, in order, in one namespace, which is returned."""
    matplotlib.use("Agg")
    namespace: dict[str, object] = {}
    for block in blocks(page(name)):
        run(block, name, namespace)
    return namespace
