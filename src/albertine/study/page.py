"""The page of a claim: its verdict, its table beside the published one, differences and learning curves."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from statistics import fmean

from albertine.display import display_value
from albertine.progress import format_duration, format_flops
from albertine.report.charts import NUM_COLORS, Axes, Curve, Interval, interval_chart, line_chart
from albertine.report.page import Page, Section, code_block, html_paragraphs, html_table, side_by_side
from albertine.study.arm_report import ArmReport
from albertine.study.claim import Expectation, merged
from albertine.study.measures import find_measure
from albertine.study.recurrence_page import recurrence_blocks
from albertine.study.report import COSTS, ClaimReport
from albertine.study.verdicts import MIN_SEEDS_FOR_VERDICT, Verdict, outcomes_text, seeds_needed_text
from albertine.train.metrics_log import HELD_OUT_PREFIX, METRICS_FILE, CurvePoint, metric_curve, read_metrics

OUTCOME_TEXTS = {
    "confirmed": "Confirmed at this scale.",
    "contradicted": "Contradicted at this scale.",
    "undecided": "Undecided.",
}
_CHART_MARGINS = 4  # the chart of differences reaches so many margins to each side
_COSTS_TITLE = "Costs here: parameters of the encoder, its size in fp32, seconds of pre-training"
_DIFFERENCES_TITLE = (
    f"Differences, in margins (the smallest that matter), up to {_CHART_MARGINS} on each side"
)
_MAX_CURVES = 16  # more have no room for their names
_CURVE_TITLES = {
    "mlm_loss": ("Loss on masked tokens", "loss (nats, lower is better)"),
    "mlm_accuracy": ("Masked tokens predicted right", "share"),
}
_CURVE_KEYS = {"tokens": "tokens", "seconds": "time"}


def claim_page(report: ClaimReport, text: str, command: str, real_tasks: str = "") -> Page:
    """Return the page of a report.

    Args:
        report: the report.
        text: what text the runs have seen.
        command: the command that repeats the study.
        real_tasks: how many examples the real tasks have; empty if there are none.
    """
    claim = report.claim
    sections = [
        *(
            [Section("The recurrence exponent", recurrence_blocks(report.recurrence))]
            if claim.recurrence
            else []
        ),
        Section("Results", _result_blocks(report)),
        *([Section("Verdict", _verdict_blocks(report))] if report.verdicts else []),
        Section("Layer by layer", _layer_blocks(report)),
        Section("Learning curves", _curve_blocks(report)),
        Section("Protocol", _protocol_blocks(report, text, command, real_tasks)),
    ]
    return Page(claim.claim, outcome_sentence(report), _key_figures(report), sections)


def outcome_sentence(report: ClaimReport) -> str:
    """Return the verdict in some sentences."""
    text = f"{report.claim.source}. {OUTCOME_TEXTS[report.outcome]}"
    counts = outcomes_text([verdict.outcome for verdict in report.verdicts])
    if counts:
        text += f" {counts.capitalize()}."
    if report.seeds_needed is not None:
        text += f" {seeds_needed_text(report.seeds_needed).capitalize()}."
    return text


def _key_figures(report: ClaimReport) -> list[tuple[str, str]]:
    # Arms that differ in their fine-tuning share a run.
    runs = {run.folder: (run, arm, index) for arm in report.arms for index, run in enumerate(arm.runs)}

    def total(measure: str) -> float:
        own = sum(arm.values[measure][index] or 0.0 for _, arm, index in runs.values())
        twice = sum(run.cost_of_start(measure) for run, *_ in runs.values() if run.training_failure is None)
        return own - twice * find_measure(measure).factor

    return [
        ("verdict", report.outcome),
        ("seeds", str(report.protocol.seeds)),
        ("pre-training runs", str(len(runs))),
        ("FLOPs of pre-training", format_flops(1e12 * total("flops"))),
        ("pre-training, summed over the runs", format_duration(total("seconds"))),
    ]


def _result_blocks(report: ClaimReport) -> list[str]:
    columns = report.claim.columns
    tables = [_measures_table("Here", report.arms, columns)]
    published = report.claim.published
    if published.rows:
        rows = [
            (name, *("\N{EN DASH}" if value is None else f"{value:g}" for value in row))
            for name, row in published.rows.items()
        ]
        tables.append(_titled_table(f"Published: {report.claim.source}", ("", *published.columns), rows))
    costs = [name for name in COSTS if name not in columns]
    failures = [
        (f"{arm.name}, seed {seed}", reason) for arm in report.arms for seed, reason in arm.failures.items()
    ]
    failure_table = html_table(("failed run", "reason"), failures, wrap_last_column=True) if failures else ""
    notes = [html_paragraphs(text) for text in (report.divergence_note, report.claim.note) if text]
    machines = report.machine_note
    return [
        html_paragraphs("Means over the seeds, with half their 95% interval."),
        side_by_side(tables),
        *notes,
        _measures_table(_COSTS_TITLE, report.arms, costs),
        *([html_paragraphs(machines)] if machines else []),
        failure_table,
    ]


def _measures_table(title: str, arms: Sequence[ArmReport], columns: Sequence[str]) -> str:
    """Return a table of some measures of each arm; no table without measures."""
    if not columns:
        return ""
    header = ("", *(find_measure(name).title for name in columns))
    return _titled_table(title, header, [(arm.name, *map(arm.cell, columns)) for arm in arms])


def _titled_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{html_table(header, rows)}</figure>"


def _verdict_blocks(report: ClaimReport) -> list[str]:
    rows = [verdict_row(verdict) for verdict in report.verdicts]
    header = ("expected", "difference", "95% interval", "verdict", "why")
    explanation = (
        "Differences are those of runs with the same seed, counted in favour of the claim. The margin is "
        "the smallest difference that matters. Above and below are confirmed if the interval excludes 0 and "
        "the mean reaches the margin, and contradicted if the whole interval is below the margin. Equal, "
        "and not worse, are confirmed if the interval excludes larger differences, and contradicted if it "
        f"has only such. With fewer than {MIN_SEEDS_FOR_VERDICT} seeds nothing is decided. The seeds that "
        "would decide do so in four of five studies, if the true mean and deviation are those found here. "
        "The number of expectations is not corrected for, and all seeds have the same held-out samples."
    )
    blocks = [html_paragraphs(explanation), html_table(header, rows, wrap_last_column=True)]
    intervals = [one for one in map(_interval, report.verdicts) if one is not None]
    if intervals:
        blocks.append(interval_chart(_DIFFERENCES_TITLE, intervals, 0.5))
    return blocks


def verdict_row(verdict: Verdict) -> tuple[str, str, str, str, str]:
    """Return expectation, difference, interval, outcome and reason as text."""
    difference, measure = verdict.difference, find_measure(verdict.expectation.measure)
    mean = interval = "\N{EN DASH}"
    if difference is not None:
        mean = f"{difference.mean:+.{measure.digits}f}"
        if math.isfinite(difference.low):
            interval = f"{difference.low:+.{measure.digits}f} to {difference.high:+.{measure.digits}f}"
    reason = verdict.reason
    if verdict.seeds_needed is not None:
        reason += f"; {seeds_needed_text(verdict.seeds_needed)}"
    return verdict.expectation.text, mean, interval, verdict.outcome, reason


def _interval(verdict: Verdict) -> Interval | None:
    """Return the interval of a verdict on the scale of the chart, whose middle is no difference."""
    difference, expectation = verdict.difference, verdict.expectation
    if difference is None or not math.isfinite(difference.low) or not expectation.margin:
        return None

    def position(value: float) -> float:
        return min(1.0, max(0.0, 0.5 + value / expectation.margin / (2 * _CHART_MARGINS)))

    low, middle, high = map(position, (difference.low, difference.mean, difference.high))
    text = f"{difference.mean / expectation.margin:+.1f}"
    return Interval(_short_name(expectation), middle, low, high, text)


def _short_name(expectation: Expectation) -> str:
    return f"{expectation.arm} against {expectation.than}, {find_measure(expectation.measure).title}"


def _layer_blocks(report: ClaimReport) -> list[str]:
    """Return charts of the distance and the angle between input and output of each layer."""
    if not any(find_measure(name).source == "layers" for name in report.claim.columns):
        return []
    charts = []
    for quantity, title, label in (
        ("distance", "Distance between input and output of each layer", "L2 norm"),
        ("angle", "Angle between input and output of each layer", "degrees"),
    ):
        curves = [
            Curve(arm.name, mean_layer_curve(arm, quantity), number % NUM_COLORS + 1, dots=True)
            for number, arm in enumerate(report.arms)
        ]
        charts.append(line_chart(title, Axes("layer", label, 0), curves))
    explanation = (
        "Means over all tokens of 64 held-out samples and over the seeds. Layers that share all weights are "
        "applied four times as often as in training, to show whether the states converge."
    )
    return [html_paragraphs(explanation), side_by_side(charts)]


def mean_layer_curve(arm: ArmReport, quantity: str) -> list[CurvePoint]:
    """Return a quantity of each layer, as the mean of all runs that are finished."""
    curves = [curve for run in arm.runs if (curve := run.layer_curve(quantity))]
    length = min(map(len, curves), default=0)
    return [(index + 1, fmean(curve[index] for curve in curves)) for index in range(length)]


def _curve_blocks(report: ClaimReport) -> list[str]:
    if len(report.arms) > _MAX_CURVES:
        return []
    by_tokens = ("tokens", "training tokens")
    charts = [_curve_chart(report, "mlm_loss", *by_tokens)]
    if "mask_accuracy" in report.claim.columns and report.claim.equal_time is None:
        charts.append(_curve_chart(report, "mlm_accuracy", *by_tokens))
    else:
        charts.append(_curve_chart(report, "mlm_loss", "seconds", "seconds of training"))
    if not any(charts):
        return []
    return [
        html_paragraphs("On held-out samples of each arm's own objective; means over the seeds."),
        side_by_side(charts),
    ]


def _curve_chart(report: ClaimReport, score: str, key: str, label: str) -> str:
    title, unit = _CURVE_TITLES[score]
    curves = [
        Curve(arm.name, mean_curve(arm, key, score), number % NUM_COLORS + 1)
        for number, arm in enumerate(report.arms)
    ]
    return line_chart(f"{title}, by {_CURVE_KEYS[key]}", Axes(label, unit), curves)


def mean_curve(arm: ArmReport, key: str, score: str = "mlm_loss") -> list[CurvePoint]:
    """Return a score on masked tokens of held-out text, as the mean of all runs that are finished.

    Args:
        arm: the arm.
        key: what the points are at: "tokens" or "seconds".
        score: name of the score.
    """
    curves = []
    for run in arm.runs:
        if run.training_failure is None and (run.model_folder / METRICS_FILE).exists():
            lines = read_metrics(run.model_folder)
            before = run.cost_of_start(key)
            position = {step: before + value for step, value in metric_curve(lines, key)}
            losses = metric_curve(lines, f"{HELD_OUT_PREFIX}{score}")
            curves.append([(position[step], loss) for step, loss in losses if step in position])
    length = min(map(len, curves), default=0)
    return [_mean_point([curve[index] for curve in curves]) for index in range(length)]


def _mean_point(points: Sequence[CurvePoint]) -> CurvePoint:
    return fmean(x for x, _ in points), fmean(y for _, y in points)


def _protocol_blocks(report: ClaimReport, text: str, command: str, real_tasks: str) -> list[str]:
    protocol = report.protocol
    facts = [
        f"Scale {report.scale}: {protocol.purpose}. The text: {text}, with a vocabulary of "
        f"{report.vocab_size:,} tokens. At most {protocol.probe_tokens:,} held-out tokens per evaluation"
        f"{_evaluation_precision(report)}.",
    ]
    if real_tasks:
        facts.append(f"{real_tasks} Fine-tuning takes {protocol.finetune_steps:,} steps.")
    elif protocol.tasks:
        facts.append(
            f"Tasks: {', '.join(protocol.tasks)}, {protocol.examples:,} training examples of each, "
            f"{protocol.finetune_steps} steps; {protocol.dev_examples:,} examples for the score at the end."
        )
    if report.claim.equal_time is not None:
        facts.append(
            f"All arms train for the time of {report.claim.equal_time}, so each has its own steps: as many "
            "as fit into that time, by the seconds of a step, which are measured first"
            f"{f' on {report.timed_on}' if report.timed_on else ''}."
        )
    rows = [(arm.name, _arm_settings(report, arm.name)) for arm in report.arms]
    common = ", ".join(_flat_settings(protocol.pretrain))
    return [
        html_paragraphs(*facts),
        html_table(("arm", "settings"), [("all", common), *rows], wrap_last_column=True),
        code_block(command),
    ]


def _evaluation_precision(report: ClaimReport) -> str:
    """Return in which precision held-out text was evaluated, as the end of a sentence."""
    found = {run.has_fp32_evaluation for arm in report.arms for run in arm.runs} - {None}
    if not found:
        return ""
    # bf16 changes a loss by about 0.001, so these results are kept.
    earlier = "by an earlier version, in bf16 where the machine was fast in it"
    if found == {True}:
        return ", in fp32"
    return f", {earlier}" if found == {False} else f", in fp32; some runs {earlier}"


def _arm_settings(report: ClaimReport, arm: str) -> str:
    """Return what is special about an arm, at the scale of the report."""
    claim = report.claim
    values = merged(claim.arms[arm], report.protocol.arms.get(arm, {}))
    if claim.equal_time is not None:
        steps = next(one.steps for one in report.arms if one.name == arm)
        values = merged(values, {"train": {"steps": steps}})
    parts = _flat_settings(values)
    if arm in claim.starts:
        parts.append(f"starts from {claim.starts[arm]}")
    if arm in claim.finetuning:
        parts += _flat_settings(asdict(claim.finetuning[arm]), "finetuning")
    return ", ".join(parts) or "as all"


def _flat_settings(values: object, prefix: str = "") -> list[str]:
    """Return nested tables as texts such as "model.layers = 6"."""
    if not isinstance(values, dict):
        return [f"{prefix} = {display_value(values)}"]
    return [
        text
        for key, value in values.items()
        for text in _flat_settings(value, f"{prefix}.{key}" if prefix else key)
    ]
