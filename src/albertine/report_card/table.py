"""The report card as tables on the terminal."""

from rich.markup import escape
from rich.table import Table

from albertine import progress
from albertine.report_card.card import ReportCard
from albertine.report_card.display import (
    CHANCE,
    TASK_TITLES,
    held_out_rows,
    interval_text,
    phenomenon_title,
    score_text,
    task_row,
    tasks_note,
)


def show_card(card: ReportCard, *, as_json: bool) -> None:
    """Print a report card as tables or as JSON."""
    if as_json:
        progress.print_json(card.to_json())
        return
    console = progress.result_console()
    for table in filter(None, (_held_out_table(card), _pairs_table(card), _task_table(card))):
        console.print(table)
        console.print()
    if card.tasks:
        console.print(tasks_note(card), highlight=False)


def _held_out_table(card: ReportCard) -> Table | None:
    if card.held_out is None:
        return None
    table = progress.result_table("held-out text", "score", "95%", "chance")
    for row in held_out_rows(card.held_out):
        table.add_row(*map(escape, row))
    return table


def _pairs_table(card: ReportCard) -> Table | None:
    if card.blimp is None:
        return None
    table = progress.result_table("BLiMP", "accuracy, %", "95%", "chance", "pairs")
    for accuracy in (card.blimp.overall, *card.blimp.phenomena):
        table.add_row(
            escape(phenomenon_title(accuracy.name)),
            score_text(accuracy.accuracy),
            interval_text(accuracy.low, accuracy.high),
            score_text(CHANCE),
            f"{accuracy.num_pairs:,}",
        )
    return table


def _task_table(card: ReportCard) -> Table | None:
    if not card.tasks:
        return None
    table = progress.result_table(*TASK_TITLES, left_aligned=TASK_TITLES[:2])
    for task in card.tasks:
        table.add_row(*task_row(task))
    return table
