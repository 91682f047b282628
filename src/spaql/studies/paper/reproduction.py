"""The study `spaql paper`: the runs of a plan, and their tables, figures, findings and page."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import fill

from spaql._version import __version__
from spaql.agents.registry import resolve
from spaql.atomic_io import FIGURES
from spaql.formatting import Table
from spaql.runner.code_version import code_version
from spaql.studies.paper.findings import FINDINGS, Finding, make_findings
from spaql.studies.paper.measurements import Measurements
from spaql.studies.paper.panels import cells_chart, make_sheets, reward_chart, scaling_chart
from spaql.studies.paper.plan import BIAS_SCALING, COMPARED, LEARNERS, SETTINGS, Plan, Setting, full
from spaql.studies.paper.printed import ROLLOUTS
from spaql.studies.paper.tables import TERMINAL, make_brief_table, make_tables
from spaql.studies.study import Report, Results, Stage, Study
from spaql.viz.charts import Chart
from spaql.viz.html import Case, Section, render_page

TITLE = "Single-partition adaptive Q-learning: the paper's tables, and what is true"
_VERDICT = ("reproduction", "running-maximum", "ranking", "cells", "all-steps", "tessera")


class Paper(Study):
    """The paper's study, of the size of a plan: `spaql.studies.paper.plan.full` or `quick`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        names = [setting.id for setting in SETTINGS]
        names += [f"{p}-{kind}" for p in ("oil", "ambulance") for kind in ("steps", "scaling", "scaling-evaluation")]
        names += [f"finding-{key}" for key in FINDINGS]
        self.known_files = [f"{FIGURES}/{name}.{kind}" for name in names for kind in ("png", "svg")]

    def stages(self, results: Results) -> Iterator[Stage]:
        """All agents; the chosen ones again, with curves; the best ones again, with partitions."""
        plan, measurements = self.plan, Measurements(self.plan, results)
        # Each problem will have one or two chosen groups of each algorithm, and a portrait of each algorithm.
        curves = [plan.curves(setting, name, plan.scalings[0]) for setting in plan.settings for name in LEARNERS]
        portraits = [*curves, *(plan.tessera(setting) for setting in plan.settings)]
        last = sum(group.run.cost for group in portraits)
        yield Stage(plan.first(), later=last + sum(len(group.seeds) * group.run.cost for group in curves))
        yield Stage(measurements.chosen_groups, later=last)
        yield Stage([measurements.portrait(setting, name) for setting in plan.settings for name in COMPARED])

    def report(self, results: Results) -> Report:
        """Tables, findings, figures and page."""
        measured = Measurements(self.plan, results)
        findings, tables, subtitle = make_findings(measured), make_tables(measured.rows), describe(self.plan)
        records = list(measured.rows.values())
        latex = "\n\n".join(replace(table, caption=table.caption.split(". ")[-1]).tex().strip() for table in tables)
        data = {"study": subtitle, "code": code_version(), "findings": [finding.to_dict() for finding in findings]}
        lines = [line for table in tables for line in table.select(*TERMINAL).rows]
        words = [f"{finding.title}: {finding.number}\n{fill(finding.sentence, 120)}" for finding in findings]
        terminal = "\n\n".join([Table(TERMINAL, lines, left=2, sections=True).text(), *words])
        title, tables_shown = "The paper's tables, and what is true", [make_brief_table(measured.rows), *tables]
        figures = make_sheets(measured) | {f"finding-{finding.id}": finding.chart for finding in findings}
        files = {
            "tables.csv": Table.of_records(records).csv(),
            "tables.tex": f"% Needs \\usepackage{{booktabs}}\n\n{latex}\n",
            "findings.md": findings_markdown(self.plan, findings),
            "findings.json": json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
            "report.html": render_page(TITLE, make_sections(measured, tables, findings), subtitle),
        }
        return Report("tables", title, subtitle, (), tables_shown, "", figures, records, files, terminal)


def describe(plan: Plan) -> str:
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


def method(plan: Plan) -> list[str]:
    """How the study was done, in paragraphs."""
    problems = {setting.problem for setting in plan.settings}
    tuned = " and ".join(f"{n} per scaling ({problem})" for problem, n in plan.fewer.items() if problem in problems)
    trained = " or ".join(
        f"{iterations:,} ({problem})"
        for problem, iterations in sorted({(s.problem, s.iterations) for s in plan.settings}, reverse=True)
    )
    return [
        f"AQL and SPAQL are those of the papers, with N = {ROLLOUTS} rollouts, trained for K = {trained} iterations. "
        "Tessera plays one episode per iteration and no rollouts. The seed of a run is a hash of the study's seed and "
        "of its place in the study, so that no two runs share random numbers; training, selection and evaluation draw "
        "from separate streams.",
        "Training score: for every scaling the agents' own final scores are averaged, and the best scaling is reported "
        "on the same agents, as in the paper. SPAQL's own score is the running maximum of its rollouts, AQL's is the "
        f"mean of the last {ROLLOUTS}.",
        f"Evaluation: the returned policy of every agent plays {plan.episodes:,} new episodes. The scaling is the one "
        f"with the best mean evaluation of other agents, {tuned}, which are not reported.",
        f"The bias of the running maximum is measured at scaling {BIAS_SCALING:g}. H = 50 takes its scalings "
        "from H = 5. Exact optima come from dynamic programming with a certified tolerance. Environment steps count "
        "training and selection; AQL's rollouts only draw its curve and change nothing, so they do not count. The "
        "paper calls cells arms.",
        "Curves show the policy that an agent would return if it stopped there: training score (dashed) and evaluation "
        f"in {plan.moment_episodes} new episodes per agent and moment (solid).",
    ]


def findings_markdown(plan: Plan, findings: Sequence[Finding]) -> str:
    """The findings with their figures."""
    parts = ["# Findings\n", describe(plan) + "\n"]
    for finding in findings:
        parts += [f"## {finding.title}\n", f"{finding.sentence}\n", f"**{finding.number}**: {finding.meaning}.\n"]
        parts.append(f"![{finding.chart.title}](figures/finding-{finding.id}.svg)\n")
    return "\n".join([*parts, "## Method\n", *(paragraph + "\n" for paragraph in method(plan))])


def make_sections(measured: Measurements, tables: Sequence[Table], findings: Sequence[Finding]) -> list[Section]:
    """The sections of the page."""
    parts = []
    for finding in findings:
        key, number = f"finding-{finding.id}", (finding.number, finding.meaning)
        parts.append(Section(finding.title, [finding.sentence], charts=[finding.chart], id=key, highlight=number))
    return [
        Section("Summary", tables=[make_brief_table(measured.rows).html()]),
        Section("Main results", [finding.sentence for finding in findings if finding.id in _VERDICT]),
        Section("Tables", tables=[table.html() for table in tables]),
        Section("Problems", cases=[_case(measured, setting) for setting in measured.plan.settings]),
        Section("Findings", parts=parts),
        Section("Method", method(measured.plan)),
    ]


def _case(measured: Measurements, setting: Setting) -> Case:
    """One problem in a few sentences, charts and growing partitions."""
    rows = {name: measured.rows[setting.id, name] for name in COMPARED}
    sentences = [f"The optimum is {rows['aql']['optimum']:.3f}."]
    for name in LEARNERS:
        row, share = rows[name], 100 * rows[name]["fraction_of_optimum"]
        sentences.append(
            f"{resolve(name).label} earns {row['evaluation']:.3f} in new episodes ({share:.1f}% of the optimum, "
            f"ξ = {row['evaluation_scaling']:g}); its training score is {row['training_score']:.3f} "
            f"(ξ = {row['scaling']:g})."
        )
    share = 100 * rows["tessera"]["fraction_of_optimum"]
    sentences.append("The curves show the agents behind the training scores.")
    sentences.append(f"Tessera earns {rows['tessera']['evaluation']:.3f} ({share:.1f}%).")
    charts: dict[str, list[Chart]] = {}
    for axis in ("steps", "iterations"):  # the page shows the first, on a logarithmic axis
        charts[axis] = [reward_chart(measured, setting, axis), cells_chart(measured, setting, axis, COMPARED)]
        if setting in measured.plan.short:
            charts[axis].append(scaling_chart(measured, setting, "evaluation"))
    growth = [each for name in ("spaql", "aql", "tessera") for each in measured.growths[setting.id, name]]
    return Case(setting.id, setting.name, " ".join(sentences), charts, growth)
