"""The message about a column that a table lacks: what the table has, and what to do about it."""

from pathlib import Path

from albertine.display import display_text
from albertine.errors import did_you_mean
from albertine.tasks.formats.data_files import data_suffix, has_header_line


def missing_column_message(
    source: str,
    missing: str,
    available: list[str],
    option: str | None = None,
    *,
    location: str = "",
    header: bool = True,
    is_data: bool = False,
) -> str:
    """Return a message about a missing column, and what to do about it.

    Args:
        source: the file or data set.
        missing: name of the column.
        available: names of the columns that exist.
        option: command-line option that names the column; None if its name is fixed.
        location: the row that lacks it, if others may have it.
        header: whether the first line of a CSV or TSV file names its columns.
        is_data: whether the column names look like a row of data.
    """
    # Quotes show spaces around a name, which the column names of a file lose.
    shown = display_text(missing) if missing == missing.strip() else f'"{display_text(missing)}"'
    problem = f"{location or source}: no column {shown}"
    if (reason := _reason_in_format(source, missing, available)) is not None:
        return f"{problem}; {reason}"
    columns = display_text(", ".join(available)) or "none"
    advice = [f"name another with {option}"] if option else []
    if not has_header_line(source):
        found = f"it has {columns}"
    elif not header:
        found = f"without a line of column names (--no-header), its columns are 1 to {len(available)}"
    elif is_data:
        found = f"its first line looks like data: {columns}"
        advice = [
            "use --no-header if the file does not name its columns, and give them by number, as in --text 1"
        ]
    else:  # without a header, these names are the cells of the first row
        found = f"its first line, taken as column names, has {columns}"
        advice.append(
            "use --no-header if there is no line of column names"
            if option
            else "add a line of column names if there is none"
        )
    suggestion = did_you_mean(missing, map(display_text, available))
    return f"{problem}{suggestion}; {found}{'; ' if advice else ''}{', or '.join(advice)}"


def _reason_in_format(source: str, missing: str, available: list[str]) -> str | None:
    """Return why a file of its format has no such column, if that shows; else None."""
    outer = missing.partition(".")[0]
    if outer in available and not has_header_line(source):
        return (
            f"fields inside an object, such as {display_text(outer)}, are not read: give each a "
            "column of its own"
        )
    has_tabs = data_suffix(Path(source)) == ".tsv"
    if len(available) == 1 and any(
        separator in available[0] for separator in (",;|" if has_tabs else ";\t|")
    ):
        return (
            f"its first line is one cell, {display_text(available[0])}: "
            "cells are separated by commas or semicolons in .csv, by tabs in .tsv; convert the file, or name "
            + ("it .csv if it has commas or semicolons" if has_tabs else "it .tsv if it has tabs")
        )
    return None
