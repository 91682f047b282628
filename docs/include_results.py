"""Copy results from docs/study and docs/gallery/results into README.md and the pages of docs: `make docs-results`.

A page has the results of a study between the lines `<!-- results: NAME -->` and `<!-- end of results -->`.  NAME is a
function below, or a problem of the gallery; everything between the two lines is replaced by what it returns.
`tests/test_readme.py` checks that the pages are up to date.
"""

import json
import re
import runpy
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spaql.studies.control import TASKS

DOCS = Path(__file__).parent
STUDY = DOCS / "study"
GALLERY = DOCS / "gallery"
BEGIN, END = "<!-- results: {name} -->\n", "<!-- end of results -->\n"
_BLOCK = re.compile(r"<!-- results: ([a-z_-]+) -->\n.*?<!-- end of results -->\n", flags=re.DOTALL)


def read_study(name: str) -> Any:
    """Return the data of a study."""
    return json.loads((STUDY / f"{name}.json").read_text(encoding="utf-8"))


def read_paragraphs(name: str) -> list[str]:
    """Return the paragraphs and tables of a study's Markdown file."""
    return (STUDY / f"{name}.md").read_text(encoding="utf-8").strip().split("\n\n")


def read_summary(name: str, subtitle: bool = False) -> list[str]:
    """Return the main statements of a study: they stand between its title, or subtitle, and its note."""
    paragraphs = read_paragraphs(name)
    first_table = next(at for at, part in enumerate(paragraphs) if at and part.startswith(("|", "##")))
    return paragraphs[1 + subtitle : first_table - 1]


def read_table(name: str, caption: str = "") -> str:
    """Return the table with a caption, or the first one."""
    paragraphs = read_paragraphs(name)
    first = paragraphs.index(f"## {caption}") if caption else 0
    return next(part for part in paragraphs[first:] if part.startswith("|"))


def read_finding(name: str) -> Any:
    """Return a finding of the paper's study."""
    return next(finding for finding in read_study("findings")["findings"] if finding["id"] == name)


def search(pattern: str, text: str) -> tuple[str, ...]:
    """Return the groups of a pattern that must occur."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"{pattern!r} does not occur in {text!r}")
    return match.groups()


def make_table(header: list[str], rows: list[list[str]], left: int = 1) -> str:
    """Return a table in Markdown whose first `left` columns are text."""
    rules = [":---" if at < left else "---:" for at in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rules, *rows))


def control() -> str:
    """Everything that the study of classic control found; its tables have captions one level down."""
    paragraphs = read_paragraphs("control")[1:]
    return "\n\n".join(part if part.startswith("|") else wrap(part.replace("## ", "### ", 1)) for part in paragraphs)


def control_summary() -> str:
    """One row for each environment, at all of its budget."""
    rows = {row["problem"]: row for row in read_study("control")["rows"] if row["agent"] == "tessera"}  # budgets rise
    lines = [
        [
            task.environment,
            f"{task.budget:,}",
            f"{rows[task.problem]['mean']:.1f}",
            f"{rows[task.problem]['cells']:.0f}",
            f"{task.goal:g}",
            task.cited,
        ]
        for task in TASKS
    ]
    return make_table(["environment", "steps", "Tessera", "leaves", "goal", "tuned networks, cited"], lines)


def read_shares() -> tuple[str, ...]:
    """Return mean shares of the optimum: SPAQL with AQL's steps, AQL, SPAQL as published, and Tessera."""
    pattern = r"SPAQL is at ([\d.]+%) .*AQL at ([\d.]+%) .*SPAQL is at ([\d.]+%)\. Tessera is at ([\d.]+%)"
    return search(pattern, read_finding("all-steps")["sentence"])


def paper_summary() -> str:
    """Averages over the paper's problems."""
    fewer, aql, published, ours = read_shares()
    pattern = r"and (\d+) cells on average \(SPAQL (\d+), AQL (\d+)\)"
    cells, spaql_cells, aql_cells = search(pattern, read_finding("tessera")["sentence"])
    rows = [
        ["SPAQL", "as many as AQL", fewer, ""],
        ["SPAQL", "as published, 21 times as many", published, spaql_cells],
        ["AQL", "as published", aql, aql_cells],
        ["Tessera", "as many as AQL", ours, cells],
    ]
    return make_table(["agent", "environment steps", "share of the optimum", "cells"], rows, left=2)


def tessera_summary() -> str:
    """The main statements on Tessera."""
    (family,) = (row for row in read_study("families")["rows"] if (row["agent"], row["problems"]) == ("tessera", "all"))
    statements = [
        *read_summary("ablation", subtitle=True),
        f"On {read_study('families')['problems']} random problems, on which nothing was chosen, it reaches "
        f"{100 * family['share']:.1f}% of the optimum on average; nine of ten agents reach "
        f"{100 * family['worst_decile']:.1f}%.",
        " ".join(["Classic control:", *read_summary("control")]).replace("control: Of", "control: of"),
    ]
    return "\n".join(wrap(f"- {statement}", "  ") for statement in statements)


def budgets() -> str:
    """Tessera, AQL and SPAQL on the paper's problems at parts of the budget."""
    return read_table("ablation", "At a tenth, a quarter and all of the budget, share of the optimum")


def mechanisms() -> str:
    """What disabling each mechanism costs."""
    return read_table("ablation", "Cost of disabling each mechanism")


def families() -> str:
    """Random problems of the second family."""
    return read_table("families")


def family() -> str:
    """What the study of the family found, and its summary and regret."""
    statements = "\n".join(wrap(f"- {statement}", "  ") for statement in read_summary("family", subtitle=True))
    tables = (read_table("family", caption) for caption in ("All problems", "Regret"))
    return "\n\n".join([statements, *tables])


def findings_table() -> str:
    """All agents on the paper's problems."""
    return read_table("tables", "Summary")


def all_steps() -> str:
    """Averages over the paper's problems, with the difference of SPAQL and AQL."""
    fewer, aql, published, ours = read_shares()
    finding = read_finding("all-steps")
    low, difference, high = (-finding[name] for name in ("high", "value", "low"))
    rows = [
        ["SPAQL", "as many as AQL", fewer],
        ["AQL", "as published", aql],
        ["difference", "", f"{difference:.1f}% [{low:.1f}, {high:.1f}]"],
        ["SPAQL", "as published, 21 times as many", published],
        ["Tessera", "as many as AQL", ours],
    ]
    return make_table(["agent", "environment steps", "share of the optimum"], rows, left=2)


def long_episodes() -> str:
    """Shares and cells with episodes of 50 steps."""
    sentence = read_finding("long-episodes")["sentence"]
    patterns = {
        "SPAQL": r"SPAQL reaches ([\d.]+%) of the optimum with ([\d,]+) cells",
        "AQL": r"AQL ([\d.]+%) with ([\d,]+) cells",
        "Tessera": r"Tessera reaches ([\d.]+%) with ([\d,]+) cells",
    }
    rows = [[name, *search(pattern, sentence)] for name, pattern in patterns.items()]
    return make_table(["agent", "share of the optimum", "cells"], rows)


def world_model() -> str:
    """Returns of policies of Pendulum in the environment and in the learned model."""
    rows = [
        [f"{row['steps']:,}", f"{row['simulated']:.0f}", f"{row['mean']:.0f} [{row['low']:.0f}, {row['high']:.0f}]"]
        for row in read_study("world-model")
    ]
    return make_table(["Pendulum-v1, steps", "return in the model", "evaluation"], rows, left=0)


def read_problems() -> dict[str, Any]:
    """Return the results of the gallery's problems by name."""
    paths = sorted((GALLERY / "results").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def read_heading(page: Path) -> tuple[str, str]:
    """Return the title of a page and the first sentence below it."""
    title, first, *_ = page.read_text(encoding="utf-8").split("\n\n")
    return title.removeprefix("# "), " ".join(first.split()).split(". ")[0].removesuffix(".") + "."


def gallery() -> str:
    """The problems of the gallery: a card for each, and the table of their results."""
    cards, rows = ["::::{grid} 1 2 2 3", ":gutter: 3", ""], []
    for name, result in read_problems().items():
        title, sentence = read_heading(GALLERY / f"{name}.md")
        cards += [f":::{{grid-item-card}} {title}", f":link: {name}", ":link-type: doc"]
        cards += [f":img-top: results/{name}.png", f":img-alt: Picture of {title}", "", sentence, ":::", ""]
        baseline = result["policies"][result["reference"]]
        [ours] = (row for label, row in result["policies"].items() if "mean of" in label)
        returns = [row["text"] for row in (ours, baseline, ours["difference"])]
        rows.append([f"[{title}]({name}.md)", result["verdict"], result["reference"], *returns, result["unit"]])
    header = ["problem", "verdict", "best rule of the field", "return of Tessera", "of the rule", "difference", "in"]
    return "\n".join([*cards, "::::", "", make_table(header, rows, left=3)])


def wrap(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of 120 characters."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


MAKERS: dict[str, Callable[[], str]] = {
    "control": control,
    "control-summary": control_summary,
    "paper-summary": paper_summary,
    "tessera-summary": tessera_summary,
    "budgets": budgets,
    "mechanisms": mechanisms,
    "families": families,
    "family": family,
    "findings-table": findings_table,
    "all-steps": all_steps,
    "long-episodes": long_episodes,
    "world-model": world_model,
    "gallery": gallery,
}


def update(page: str) -> str:
    """Return the text of a page with the results of the studies."""
    problems = read_problems()
    make_comparison = runpy.run_path(str(DOCS.parent / "examples" / "gallery" / "comparison.py"))["make_table"]

    def replace(block: re.Match[str]) -> str:
        name = block[1]
        if name in problems:
            return BEGIN.format(name=name) + f"\n{make_comparison(problems[name])}\n\n" + END
        return BEGIN.format(name=name) + f"\n{MAKERS[name]()}\n\n" + END

    return _BLOCK.sub(replace, page)


def find_pages() -> list[Path]:
    """Return the pages that may have results."""
    pages = (path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in ("study", "_build"))
    return [DOCS.parent / "README.md", *sorted(pages)]


def main() -> None:
    """Update all pages."""
    for path in find_pages():
        page = path.read_text(encoding="utf-8")
        if (new := update(page)) != page:
            path.write_text(new, encoding="utf-8")
            print(f"updated {path.name}")


if __name__ == "__main__":
    main()
