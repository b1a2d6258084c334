"""Studies on the terminal: the list of claims, plans and reports."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape
from rich.padding import Padding

from albertine import progress
from albertine.display import counted
from albertine.progress import format_duration, format_flops
from albertine.study.measures import find_measure
from albertine.study.page import outcome_sentence, verdict_row
from albertine.study.plan import DetectableDifference, StudyPlan
from albertine.study.report import ClaimReport
from albertine.study.summary import list_rows
from albertine.study.verdicts import MIN_SEEDS_FOR_VERDICT


def show_claims(out: Path, *, as_json: bool) -> None:
    """Print all claims with their latest verdicts."""
    rows = list_rows(out)
    if as_json:
        keys = ("claim", "source", "sentence", "verdict")
        progress.print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    console = progress.result_console()
    for name, source, sentence, verdict in rows:
        console.print(f"[bold]{escape(name)}[/bold] ({escape(source)}): {escape(verdict)}", highlight=False)
        console.print(_indented(sentence), highlight=False)
    console.print("\nTest one: albertine study NAME --scale minutes --out FOLDER", highlight=False)


def show_plans(plans: Sequence[StudyPlan], *, as_json: bool) -> None:
    """Print what studies will take."""
    if as_json:
        progress.print_json([_plan_json(plan) for plan in plans])
        return
    console = progress.result_console()
    for plan in plans:
        basis = (
            "by those that are finished"
            if plan.is_measured
            else "estimated from the speed of matrix products"
        )
        console.print(
            f"[bold]{escape(plan.claim.name)}[/bold]: {counted(plan.runs, 'run')}, {plan.finished} finished; "
            f"to do: {format_flops(plan.flops)} of pre-training, "
            f"about {format_duration(plan.seconds)} ({basis}); "
            f"evaluation{_finetuning_text(plan)} not included",
            highlight=False,
        )
        if plan.claim.recurrence is not None:
            console.print(_indented("recurrence exponent: its interval follows from the arms"))
        if plan.detectable and plan.seeds < MIN_SEEDS_FOR_VERDICT:
            text = f"can detect nothing with {counted(plan.seeds, 'seed')}; a verdict needs "
            console.print(_indented(f"{text}{MIN_SEEDS_FOR_VERDICT}"), highlight=False)
            continue
        for one in plan.detectable:
            line = f"{one.expectation.text}: can detect {_detectable_text(one)}"
            console.print(_indented(line), highlight=False)
    if len(plans) > 1:
        total = sum(plan.runs - plan.finished for plan in plans)
        seconds = format_duration(sum(plan.seconds for plan in plans))
        console.print(
            f"all together, counting shared runs for each claim: {counted(total, 'run')} to do, about "
            f"{seconds}",
            highlight=False,
        )


def _indented(text: str) -> Padding:
    return Padding(escape(text), (0, 0, 0, 4), expand=False)


def _finetuning_text(plan: StudyPlan) -> str:
    return f" and {plan.finetuning_steps:,} steps of fine-tuning" if plan.finetuning_steps else ""


def _detectable_text(one: DetectableDifference) -> str:
    """Return which difference the seeds can detect, or how it will follow from the first two seeds."""
    kind = "a difference" if one.expectation.relation == "better" else "a distance from the margin"
    if one.difference is None:
        return f"{kind} that depends on how the seeds vary; finish two of them to see it"
    basis = "" if one.is_measured else ", if seeds vary as in the published studies"
    return f"{kind} of {find_measure(one.expectation.measure).text(one.difference)}{basis}"


def _plan_json(plan: StudyPlan) -> dict[str, object]:
    return {
        "claim": plan.claim.name,
        "runs": plan.runs,
        "finished": plan.finished,
        "flops": plan.flops,
        "seconds": plan.seconds,
        "finetuning_steps": plan.finetuning_steps,
        "is_measured": plan.is_measured,
        "detectable": [
            {**asdict(one.expectation), "difference": one.difference, "is_measured": one.is_measured}
            for one in plan.detectable
        ],
    }


def show_reports(reports: Sequence[ClaimReport], *, as_json: bool) -> None:
    """Print the tables and verdicts of studies."""
    if as_json:
        progress.print_json([report.to_json() for report in reports])
        return
    console = progress.result_console()
    for report in reports:
        console.print(f"\n[bold]{escape(report.claim.claim)}[/bold]", highlight=False)
        columns = report.claim.columns
        table = progress.result_table(report.claim.name, *(find_measure(name).title for name in columns))
        for arm in report.arms:
            table.add_row(escape(arm.name), *map(arm.cell, columns))
        console.print(table)
        if note := report.divergence_note:
            console.print(escape(note), highlight=False)
        if note := report.machine_note:
            console.print(escape(note), highlight=False)
        for verdict in report.verdicts:
            text, mean, interval, outcome, reason = map(escape, verdict_row(verdict))
            if report.protocol.seeds >= MIN_SEEDS_FOR_VERDICT:  # with fewer, an interval says little
                mean += f", 95%: {interval}"
            console.print(f"{outcome}: {text} (found {mean}; {reason})", highlight=False)
        if report.claim.recurrence is not None:
            text = report.recurrence.text if report.recurrence else "too many runs have failed for a fit"
            console.print(escape(text), highlight=False)
        if len(report.verdicts) != 1:  # else the line of its expectation says it
            console.print(escape(outcome_sentence(report)), highlight=False)
