"""Words of the study: its verdict, its method, the page and the text of the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spaql._version import __version__
from spaql.studies.paper.cells import Cell
from spaql.studies.paper.findings.base import Finding
from spaql.studies.paper.measured import Measured
from spaql.studies.paper.pictures import page_problem
from spaql.studies.paper.plan import BEYOND, BIAS_SCALING, LABELS, LEARNERS, Plan, Setting, full
from spaql.studies.paper.printed import ROLLOUTS
from spaql.studies.paper.tables import page_tables
from spaql.viz import report

TITLE = "Single-partition adaptive Q-learning: the paper's tables, and what is true"
_VERDICT = ("reproduction", "running-maximum", "ranking", "arms", "all-steps", "beyond")


def subtitle(plan: Plan) -> str:
    """The size of the study in one sentence."""
    sizes = {setting.problem: plan.agents[setting.problem] for setting in plan.settings}
    agents = " and ".join(f"{count} agents ({problem})" for problem, count in sizes.items())
    whole = replace(plan, seed=0) == full()
    problems = "1 problem" if len(plan.short) == 1 else f"{len(plan.short)} problems"
    problems += " and H = 50" if len(plan.settings) > len(plan.short) else ""
    return (
        f"{'The whole study' if whole else 'A part of the study'} of Araújo, Figueiredo and Ayala Botto (2020), run "
        f"anew: {problems}, {len(plan.scalings)} scalings, {agents} each, seed {plan.seed}; spaql {__version__}."
    )


def verdict(findings: Sequence[Finding]) -> list[str]:
    """The main findings, one sentence each."""
    by_id = {finding.id: finding for finding in findings}
    return [by_id[key].sentence for key in _VERDICT if key in by_id]


def method(plan: Plan) -> list[str]:
    """How it was done."""
    tuned = " and ".join(
        f"{count} per scaling ({problem})"
        for problem, count in plan.tuning_agents.items()
        if any(setting.problem == problem for setting in plan.settings)
    )
    trained = " or ".join(
        f"{iterations:,} ({problem})"
        for problem, iterations in sorted({(s.problem, s.iterations) for s in plan.settings}, reverse=True)
    )
    return [
        f"AQL and SPAQL are the published ones, with N = {ROLLOUTS} rollouts, trained for K = {trained} iterations. "
        f"{LABELS[BEYOND]} is the default agent of this library, with one episode per iteration and no rollouts. "
        "A run's seed is a hash of the study's seed and of its place in the study, so no two runs "
        "share random numbers; training, selection and evaluation draw from separate streams.",
        "Scored alike: for every scaling the agents' own final scores are averaged, and the best scaling is reported "
        "on the same agents, as in the paper. SPAQL's own score is the running maximum of its rollouts, AQL's is the "
        f"mean of the last {ROLLOUTS}.",
        f"Fresh: the returned policy of every agent plays {plan.episodes:,} new episodes. The scaling is the one with "
        f"the best mean fresh score of other agents, {tuned}, which are not reported.",
        f"The size of the running maximum's bias is measured at scaling {BIAS_SCALING:g}. H = 50 takes its scalings "
        "from H = 5. Exact optima come from dynamic programming with a certified tolerance. Environment steps: "
        "training and selection count; AQL's rollouts only draw its curve and change nothing, so they do not.",
        "Curves show the policy that an agent would return if it stopped there: own score (dashed) and score on "
        f"{plan.moment_episodes} fresh episodes per agent and moment (solid).",
    ]


def summary(setting: Setting, cells: Sequence[Cell]) -> str:
    """One problem in a sentence."""
    ours = {cell.algorithm: cell for cell in cells if cell.problem == setting.id}
    parts = [
        f"{LABELS[algorithm]} earns {ours[algorithm].fresh:.3f} on fresh episodes "
        f"({100 * ours[algorithm].fraction_of_optimum:.1f}% of the optimum, ξ = {ours[algorithm].fresh_scaling:g}); "
        f"scored as the paper scores it has {ours[algorithm].as_published:.3f} (ξ = {ours[algorithm].scaling:g})"
        for algorithm in LEARNERS
    ]
    text = f"The optimum is {ours['aql'].optimum:.3f}. " + ". ".join(parts) + ". The curves are those of the latter. "
    cell = ours[BEYOND]
    return text + f"{LABELS[BEYOND]} earns {cell.fresh:.3f} ({100 * cell.fraction_of_optimum:.1f}%)."


def content(measured: Measured, cells: Sequence[Cell], findings: Sequence[Finding]) -> dict[str, Any]:
    """What the report shows, as `spaql.viz.report.page` takes it."""
    plan = measured.plan
    return {
        "title": TITLE,
        "subtitle": subtitle(plan),
        "verdict": verdict(findings),
        "tables": page_tables(cells),
        "problems": [page_problem(measured, setting, summary(setting, cells)) for setting in plan.settings],
        "findings": [
            {
                "id": finding.id,
                "title": finding.title,
                "sentence": finding.sentence,
                "number": finding.number,
                "meaning": finding.meaning,
                "chart": finding.chart.to_dict(),
            }
            for finding in findings
        ],
        "method": method(plan),
    }


def page(measured: Measured, cells: Sequence[Cell], findings: Sequence[Finding]) -> str:
    """The report as one HTML file."""
    return report.page(content(measured, cells, findings))


def text(plan: Plan, findings: Sequence[Finding]) -> str:
    """The findings as Markdown, with their figures."""
    parts = ["# Findings\n", subtitle(plan) + "\n"]
    for finding in findings:
        parts += [
            f"## {finding.title}\n",
            finding.sentence + "\n",
            f"**{finding.number}**: {finding.meaning}.\n",
            f"![{finding.chart.title}](figures/finding-{finding.id}.svg)\n",
        ]
    parts += ["## Method\n", *(paragraph + "\n" for paragraph in method(plan))]
    return "\n".join(parts)
