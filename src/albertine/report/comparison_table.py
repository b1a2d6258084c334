"""Prints a comparison of runs, as tables or as JSON."""

from rich.markup import escape

from albertine import progress
from albertine.report.comparison_page import score_table, setting_text
from albertine.report.run_comparison import RunComparison


def show_comparison(comparison: RunComparison, *, as_json: bool) -> None:
    """Print scores, differing settings and warnings."""
    if as_json:
        progress.print_json(comparison.to_json())
        return
    console = progress.result_console()
    header, rows = score_table(comparison)
    table = progress.result_table(*header)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)
    differing = comparison.differing_settings
    if differing:
        table = progress.result_table("setting", *map(escape, comparison.short_names))
        for key, values in differing.items():
            table.add_row(key, *(escape(setting_text(value)) for value in values))
        console.print()
        console.print(table)
    else:
        console.print("all settings are the same", highlight=False, markup=False)
    for warning in comparison.warnings:
        console.print(warning, highlight=False, markup=False, soft_wrap=True)
