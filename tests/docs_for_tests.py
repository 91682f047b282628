"""Read the pages of docs/ and run their code blocks and commands."""

import re
from pathlib import Path

import matplotlib

ROOT = Path(__file__).parents[1]
_CELL = re.compile(r"^```\{code-cell\}.*\n(?:---\n(?:.*\n)*?---\n|(?::.*\n)*)", flags=re.MULTILINE)  # with its options


def read_page(name):
    """Return the text of a page."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def find_pages():
    """Return the pages of docs, as paths from the root; not the tables in docs/study, which studies write."""
    paths = (path.relative_to(ROOT) for path in sorted((ROOT / "docs").rglob("*.md")))
    return [str(path) for path in paths if path.parts[1] not in ("study", "_build")]


def find_blocks(text, language="python"):
    """Return the code blocks of a language, in order; those of Python include the code cells of a notebook."""
    if language == "python":
        text = _CELL.sub("```python\n", text)
    return [part.split("```")[0] for part in text.split(f"```{language}\n")[1:]]


def find_commands(text, language=""):
    """Return the lines of the code blocks of a language, or all lines of the page that begin with `spaql`."""
    if language:
        return [line for block in find_blocks(text, language) for line in block.splitlines()]
    return [line for line in text.splitlines() if line.startswith("spaql ")]


def run_block(block, name, namespace):
    """Run a block of Python; tracebacks name the page."""
    exec(compile(block, name, "exec"), namespace)


def run_page(name):
    """Run every block of Python of a page, in order, in one namespace, and return the namespace."""
    matplotlib.use("Agg")
    namespace: dict[str, object] = {}
    for block in find_blocks(read_page(name)):
        run_block(block, name, namespace)
    return namespace
