"""The report card as tables on the terminal."""

from rich.table import Table

from albertine import progress
from albertine.report_card.card import ReportCard, TaskScores
from albertine.report_card.display import (
    CHANCE,
    estimate_text,
    interval_text,
    phenomenon_title,
    score_text,
    scores_text,
    tasks_note,
)
from albertine.tasks.metrics.display import result_table


def show_card(card: ReportCard, *, as_json: bool) -> None:
    """Print a report card as tables or as JSON."""
    if as_json:
        progress.print_json(card.to_json())
        return
    console = progress.result_console()
    tables = (_held_out_table(card), _pairs_table(card), _task_table(card.tasks))
    for table in filter(None, tables):
        console.print(table)
        console.print()
    if card.tasks:
        console.print(tasks_note(card), highlight=False)


def _held_out_table(card: ReportCard) -> Table | None:
    if card.held_out is None:
        return None
    table = result_table("held-out text", "score", "95%", "chance")
    probe = card.held_out
    rows = (
        ("loss on [MASK] tokens", "mask_token_loss", ""),
        ("accuracy on [MASK] tokens", "mask_token_accuracy", ""),
        ("accuracy of sentence order", "sop_accuracy", CHANCE),
    )
    for name, key, chance in rows:
        value, interval = estimate_text(probe[key], is_share=key.endswith("accuracy"))
        table.add_row(name.replace("[", r"\["), value, interval, chance)
    return table


def _pairs_table(card: ReportCard) -> Table | None:
    if card.blimp is None:
        return None
    table = result_table("BLiMP", "accuracy", "95%", "chance", "pairs")
    for one in (card.blimp["overall"], *card.blimp["phenomena"]):
        table.add_row(
            phenomenon_title(one["name"]),
            score_text(one["accuracy"]),
            interval_text(one["low"], one["high"]),
            CHANCE,
            f"{one['num_pairs']:,}",
        )
    return table


def _task_table(tasks: list[TaskScores]) -> Table | None:
    if not tasks:
        return None
    table = result_table(
        "task",
        "metric",
        "pre-trained",
        "untrained",
        "TF-IDF",
        "most common",
        "±",
        left_aligned=("task", "metric"),
    )
    for task in tasks:
        table.add_row(
            task.recipe.title,
            task.recipe.metric_title,
            scores_text(task.pretrained),
            scores_text(task.untrained),
            score_text(task.tf_idf),
            score_text(task.most_common_label),
            score_text(task.margin),
        )
    return table
