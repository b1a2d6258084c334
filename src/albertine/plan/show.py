"""Prints a plan on one screen, or as JSON."""

from rich.table import Table
from rich.text import Text

from albertine import progress
from albertine.display import counted
from albertine.plan.plan import TrainingPlan
from albertine.plan.workload import Workload
from albertine.progress import format_bytes, format_duration, format_flops


def show_plan(plan: TrainingPlan, *, as_json: bool) -> None:
    """Print a plan as a table or JSON."""
    if as_json:
        progress.print_json(plan.to_json())
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("")
    table.add_column("", overflow="fold")
    for title, rows in _sections(plan):
        table.add_row(Text(title, style="bold"))
        for label, value in rows:
            table.add_row("  " + label, Text(value))
    progress.result_console(progress.MIN_TABLE_WIDTH).print(table)


def _sections(plan: TrainingPlan) -> list[tuple[str, list[tuple[str, str]]]]:
    workload = plan.workload
    return [
        (
            f"{workload.name} on {plan.hardware.name}",
            [
                ("parameters", f"{plan.parameters:,}"),
                *_example_rows(workload),
                (
                    "tokens",
                    f"{workload.tokens:,} in {counted(workload.steps, 'step')} of {workload.step_tokens:,}",
                ),
                ("operations", format_flops(workload.tokens * workload.flops_per_token)),
                ("precision, optimizer", f"{plan.precision}, {workload.train.optimizer}"),
            ],
        ),
        ("time", _time_rows(plan)),
        ("memory per device", _memory_rows(plan)),
        ("communication", _communication_rows(plan)),
    ]


def _example_rows(workload: Workload) -> list[tuple[str, str]]:
    if workload.examples is None:
        return []
    length = workload.stages[0].length
    return [("examples", f"{workload.examples:,} of {length:,} tokens")]


def _time_rows(plan: TrainingPlan) -> list[tuple[str, str]]:
    rows = [
        ("run", format_duration(plan.seconds)),
        ("step", f"{_seconds(plan.step.total)}, of which the update {_seconds(plan.step.update)}"),
        ("tokens per second", f"{plan.workload.step_tokens / plan.step.total:,.0f}"),
        ("device hours", f"{plan.hardware.count * plan.seconds / 3600:,.1f}"),
    ]
    if plan.cost is not None:
        rows.append(("cost", f"{plan.cost:,.2f}"))
    return [*rows, ("basis", plan.basis)]


def _memory_rows(plan: TrainingPlan) -> list[tuple[str, str]]:
    memory = plan.memory
    parts = ("weights", "gradients", "optimizer", "activations")
    return [
        ("step", f"{format_bytes(memory.total)} of {format_bytes(plan.device_memory)}"),
        *((part, format_bytes(getattr(memory, part))) for part in parts),
        ("micro-batch", f"{plan.micro_batch_tokens:,} tokens, {plan.micro_batches:,} per step"),
        ("largest micro-batch", f"{plan.largest_micro_batch:,} tokens"),
        ("with recomputation", f"{plan.largest_micro_batch_recomputed:,} tokens"),
    ]


def _communication_rows(plan: TrainingPlan) -> list[tuple[str, str]]:
    if plan.hardware.count == 1:
        return [("sent per step", "nothing: one device")]
    return [
        ("sent per step and device", format_bytes(plan.sent_bytes)),
        ("share of the step", f"{plan.step.communication_share:.1%} ({_seconds(plan.step.communication)})"),
    ]


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
