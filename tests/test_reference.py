"""The API reference: every public name has a page, and the examples of docstrings are run."""

import doctest
import inspect
import re
import sys

import matplotlib
import pytest
from numba.core import config

import spaql
from docs_for_tests import ROOT, run_page
from spaql.agents import registry

sys.path.insert(0, str(ROOT / "docs"))
import public_names

PAGES = sorted(path.name for path in (ROOT / "docs" / "reference").glob("*.md"))
NAMES = sorted(public_names.find_public())
SLOW = ("Tessera(", "spaql.sweep(", "spaql.tune(", "at_most=")  # examples that take too long with the JIT off

pytestmark = pytest.mark.full_planning


def find_documented():
    """Return the names on the pages of the reference."""
    names = set()
    for page in PAGES:
        text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
        for block in re.findall(r"```\{eval-rst\}\n(.*?)```", text, flags=re.DOTALL):
            module = re.search(r"^\.\. currentmodule:: (\S+)", block, flags=re.MULTILINE)
            entries = re.findall(r"^   ~?([\w.]+)$|^\.\. auto(?:exception|data):: (\S+)", block, flags=re.MULTILINE)
            names |= {f"{module[1]}.{summary or directive}" for summary, directive in entries if module}
    return names


def find_examples(name):
    """Return the examples of a public name and of its own methods, as doctests."""
    value = public_names.find_public()[name]
    objects = {name: value}
    if inspect.isclass(value):
        members = public_names.split_members(name)
        for member in (*members["methods"], *members["attributes"]):
            objects[f"{name}.{member}"] = inspect.getattr_static(value, member, None)
    parser = doctest.DocTestParser()
    for key, found in objects.items():
        text = inspect.getdoc(public_names.get_function(found)) or ""
        if ">>>" in text:
            yield parser.get_doctest(text, {}, key, None, None)


def test_every_public_name_is_in_the_reference():
    assert sorted(find_documented()) == sorted([*NAMES, "spaql.problems.PROBLEMS"])


def test_every_exported_name_is_public_or_a_module():
    names = {name.rpartition(".")[2] for name in NAMES}
    assert set(spaql.__all__) - names == {"__version__", "callbacks", "loggers", "problems"}


def test_a_class_that_a_method_returns_is_public():
    assert "spaql.explain.explanation.Explanation" in NAMES  # by an annotation that is not imported when it is run
    assert "spaql.problems.optimum.Optimum" in NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if any(find_examples(name))])
def test_examples_of_docstrings(name, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))  # an example registers an algorithm
    for example in find_examples(name):
        if config.DISABLE_JIT and any(call in example.docstring for call in SLOW):
            continue
        lines: list[str] = []
        assert doctest.DocTestRunner().run(example, out=lines.append).failed == 0, "".join(lines)


@pytest.mark.parametrize("page", [page for page in PAGES if page != "format.md"])
def test_blocks_of_pages_run(page):
    if config.DISABLE_JIT and "Tessera(" in (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8"):
        pytest.skip("Tessera plans too long with the JIT off")
    run_page(f"reference/{page}")


def test_check_of_docstrings_finds_what_is_missing(monkeypatch):
    pytest.importorskip("numpydoc", reason="make lint needs it, and no other test")
    import check_docstrings

    def double(number):
        """doubles a number"""
        return 2 * number

    class Result:
        """A result."""

        value = 3
        size = 2  #: of it

    monkeypatch.setattr(public_names, "is_ours", lambda value: value is Result)
    faults = list(check_docstrings.check_docstring("spaql.load", double, check_docstrings.find_checks()))
    codes = {fault.partition(":")[0] for fault in faults}
    assert codes == {"SS02", "SS03", "SS05", "PR01", "RT01", "no section Examples"}
    assert list(check_docstrings.check_attributes("Result", Result)) == ["no description of the attribute value"]
