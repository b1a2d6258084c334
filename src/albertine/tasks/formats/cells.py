"""Parses cells of the user's own tables: labels, numbers, words, answers and options."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from albertine.display import display_text
from albertine.json_input import JsonError, parse_json
from albertine.tasks.examples import AnswerText
from albertine.tasks.formats.decimals import has_decimal_comma
from albertine.tasks.formats.rows import RowError, TableRow, checked_text, describe_value
from albertine.tasks.settings import DataSettings

LABEL_SEPARATORS = (";", "|", ",", "/")  # that are usual


def example_id(row: TableRow, columns: DataSettings) -> str:
    """Return the id of a row; its number if it has none."""
    value = row.cells.get(columns.id)
    if isinstance(value, dict | list) or is_empty_cell(value):
        return str(row.number)
    return parse_id(value)


def parse_id(value: Any) -> str:
    """Return the id of an example as text; raise `RowError` if it is a list, an object or nothing."""
    if value is None or isinstance(value, dict | list):
        raise RowError(f"its id is {describe_value(value)}, expected text or a number")
    if isinstance(value, float) and value.is_integer():  # as a table with gaps stores whole numbers
        value = int(value)
    return checked_text(str(value))


def row_texts(row: TableRow, columns: DataSettings) -> tuple[str, ...]:
    """Return the text of a row, or the two texts of its pair."""
    return (row.text(columns.text), *([row.text(columns.text_pair)] if columns.text_pair else []))


def option_columns(columns: DataSettings) -> tuple[str, ...]:
    """Return the names of the columns of options; a single column holds a list."""
    return tuple(name.strip() for name in columns.options.split(","))


def is_empty_cell(value: Any) -> bool:
    """Return whether a cell holds nothing, or nothing but spaces; in Parquet, NaN is nothing, too."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def parse_label(value: Any) -> str:
    """Return a cell as a label; a whole number that a table stores as 1.0 becomes "1"."""
    if is_empty_cell(value):
        raise RowError("has no label")
    if isinstance(value, dict | list):
        advice = "; --task multi-label takes lists" if isinstance(value, list) else ""
        raise RowError(f"its label is {describe_value(value)}, expected text or a number{advice}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return checked_text(str(value).strip())


def parse_label_set(value: Any, separator: str) -> tuple[str, ...]:
    """Return the labels in a cell: a list of labels, or text with a separator between them.

    An empty cell has no labels; a label that occurs twice counts once.
    """
    if is_empty_cell(value):
        return ()
    entries = value if isinstance(value, list) else parse_label(value).split(separator)
    labels = (parse_label(entry) for entry in entries if not isinstance(entry, str) or entry.strip())
    return tuple(dict.fromkeys(labels))


_INDICATORS = {"0": False, "1": True, "false": False, "true": True}


def parse_label_columns(row: TableRow, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that hold 1 or true; the others must hold 0 or false."""
    labels = []
    for column in columns:
        value = row.cells.get(column)
        key = "" if value is None or isinstance(value, dict | list) else str(value).strip().lower()
        has_label = _INDICATORS.get(key.removesuffix(".0"))
        if has_label is None:
            raise RowError(
                f"column {display_text(column)} holds {describe_value(value)}, "
                "expected 0 or 1, or true or false"
            )
        if has_label:
            labels.append(column)
    return tuple(labels)


def joined_label(labels: Collection[str]) -> tuple[str, str] | None:
    """Return a label that consists of several and the separator between them; None if none seems to.

    Its first part is a label too, or the labels are made of far fewer parts, of which one is first in a label
    and not first in another: in a class and its subclass, such as "sport/local", each has its place.
    """
    for label in labels:
        for separator in LABEL_SEPARATORS:
            first, found, rest = label.partition(separator)
            if found and rest.strip() and first.strip() in labels:
                return label, separator
    for separator in LABEL_SEPARATORS:
        joined = [label for label in labels if separator in label]
        split = [[part.strip() for part in label.split(separator)] for label in joined]
        firsts, others = {parts[0] for parts in split}, {part for parts in split for part in parts[1:]}
        shared = {part for part in firsts & others if part and not part[0].isdigit()}
        if shared and 2 * len(firsts | others) <= len(joined):
            return joined[0], separator
    return None


def parse_number(value: Any, column: str) -> float:
    """Return a cell as a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        advice = ""
        if isinstance(value, str) and has_decimal_comma(value):
            advice = "; write it with a point"
        elif isinstance(value, str) and any(map(str.isdigit, value)):
            advice = "; numbers are read without currency signs and separators of thousands"
        raise RowError(
            f"column {display_text(column)} holds {describe_value(value)}, not a number{advice}"
        ) from None
    if number != number or abs(number) == float("inf"):
        raise RowError(f"column {display_text(column)} holds {describe_value(value)}, not a finite number")
    return number


def parse_words(value: Any, column: str) -> tuple[str, ...]:
    """Return a cell as words: a list of texts, or text with spaces between words."""
    if isinstance(value, str):
        return tuple(checked_text(value).split())
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise RowError(f"column {display_text(column)} holds no list of texts")
    return tuple(map(checked_text, value))


def parse_answers(value: Any, context: str) -> Iterator[AnswerText]:
    """Yield the answers in a cell, in the form of SQuAD or as plain text; each must be in the passage."""
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise RowError("its answers need lists `text` and `answer_start` of the same length")
        value = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if value is not None and not isinstance(value, str | list):
        raise RowError(f"its answers are {describe_value(value)}, neither text nor a list")
    for answer in [value] if isinstance(value, str) else value or []:
        text = answer.get("text") if isinstance(answer, dict) else answer
        if not isinstance(text, str):
            raise RowError(f"has an answer without text: {describe_value(answer)}")
        if is_empty_cell(text):  # the question has no answer
            continue
        start = answer.get("answer_start") if isinstance(answer, dict) else context.find(text)
        if type(start) is not int or start < 0 or context[start : start + len(text)] != text:
            place = ""
            if isinstance(answer, dict):
                shown = display_text(str(start)) if type(start) is int else describe_value(start)
                place = f", at {shown}"
            raise RowError(f"its answer is not in the passage{place}: {display_text(text)}")
        yield AnswerText(text, start)


def parse_options(row: TableRow, columns: DataSettings) -> tuple[str, ...]:
    """Return the options of a row, from one column with a list or from several columns."""
    names = option_columns(columns)
    if len(names) > 1:
        options = tuple(row.text(name) for name in names)
    else:
        cell = row.cells.get(names[0])
        if isinstance(cell, str):
            try:
                cell = parse_json(checked_text(cell).encode())
            except JsonError:
                raise RowError(
                    f"column {display_text(names[0])} holds no list; for several columns, use --options a,b,c"
                ) from None
        options = parse_words(cell, names[0])
    if len(options) < 2:
        raise RowError(f"{len(options)} options; there must be at least two")
    return options


def parse_option(value: Any, options: tuple[str, ...]) -> int:
    """Return the index of the option that a cell names: by its text, its letter, or its number from 0."""
    indices, number = range(len(options)), _whole_number(value)
    if isinstance(value, str) and options.count(value) == 1:
        index = options.index(value)
        if number in indices and number != index:
            raise RowError(
                f"{describe_value(value)} is the text of an option, and the number of another; write the "
                "label as the letter of the option, or as a number of JSON"
            )
        return index
    if isinstance(value, str) and re.fullmatch("[A-Za-z]", value.strip()):
        number = ord(value.strip().upper()) - ord("A")
    if number is None or number not in indices:
        rest = ", whose numbers begin with 0" if _whole_number(value) is not None else ""
        raise RowError(f"{describe_value(value)} names none of the {len(options)} options{rest}")
    return number


def _whole_number(value: Any) -> int | None:
    """Return the whole number in a cell; None if it holds something else."""
    try:  # a table with gaps stores whole numbers as 1.0
        return int(float(value)) if not isinstance(value, bool) and float(value).is_integer() else None
    except (TypeError, ValueError, OverflowError):
        return None
