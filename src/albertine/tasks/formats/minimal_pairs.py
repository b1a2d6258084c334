"""Reads minimal pairs: an acceptable sentence and an unacceptable one that differs from it minimally.

The format is that of BLiMP: JSON lines with `sentence_good` and `sentence_bad`. `UID` names the paradigm
and `linguistics_term` the phenomenon to which it belongs; both may be missing, as in a user's own files.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from albertine.errors import InputError
from albertine.tasks.examples import Example
from albertine.tasks.formats.cells import is_empty_cell, parse_label
from albertine.tasks.formats.column_request import ColumnRequest
from albertine.tasks.formats.data_files import data_stem, data_suffix
from albertine.tasks.formats.locations import local_data
from albertine.tasks.formats.rows import RowError, TableRow, describe_value
from albertine.tasks.formats.tables import read_rows
from albertine.text.read_errors import ReadErrors

_GOOD, _BAD, _PARADIGM, _PHENOMENON = "sentence_good", "sentence_bad", "UID", "linguistics_term"
_SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class MinimalPair(Example):
    """Two sentences of which the first is acceptable.

    Attributes:
        good: the acceptable sentence.
        bad: the unacceptable sentence.
        paradigm: name of the paradigm; the name of the file if the row has none.
        phenomenon: name of the phenomenon; empty if the row has none.
    """

    good: str
    bad: str
    paradigm: str
    phenomenon: str = ""

    @property
    def right_answers(self) -> tuple[str, ...]:
        """The acceptable sentence."""
        return (self.good,)

    @property
    def all_texts(self) -> tuple[str, ...]:
        """Both sentences."""
        return self.good, self.bad


def read_minimal_pairs(source: str, errors: ReadErrors) -> Iterator[MinimalPair]:
    """Yield the pairs of a file, of all .jsonl files of a folder, or of a data set of the hub.

    Args:
        source: the file, folder or data set.
        errors: handles invalid rows.
    """
    for file in pair_files(source):
        rows = read_rows(file, errors, ColumnRequest((_GOOD, _BAD), optional=(_PARADIGM, _PHENOMENON)))
        name = data_stem(Path(file))
        for row in rows:
            try:
                yield _pair(row, name)
            except RowError as error:
                errors.handle(row.location, str(error))


def pair_files(source: str) -> list[str]:
    """Return the files of minimal pairs of a source, which is a folder or a file."""
    folder = Path(local_data(source))
    if not folder.is_dir():
        return [source]
    files = sorted(str(file) for file in folder.iterdir() if is_pair_file(file))
    if not files:
        raise InputError(f"{source}: no .jsonl files in this folder; name the folder with the minimal pairs")
    return files


def is_pair_file(file: Path) -> bool:
    """Return whether a file in a folder of minimal pairs is read."""
    return data_suffix(file) in _SUFFIXES and not file.name.startswith(".")


def _pair(row: TableRow, file_name: str) -> MinimalPair:
    good, bad = row.text(_GOOD), row.text(_BAD)
    for column, sentence in ((_GOOD, good), (_BAD, bad)):
        if not sentence.strip():
            raise RowError(f"column {column} is empty")
    paradigm, phenomenon = (_name_in(row, column) for column in (_PARADIGM, _PHENOMENON))
    return MinimalPair(row.location, str(row.number), good, bad, paradigm or file_name, phenomenon)


def _name_in(row: TableRow, column: str) -> str:
    """Return the name in a cell, "" if it is empty."""
    value = row.cells.get(column)
    if is_empty_cell(value):
        return ""
    if isinstance(value, dict | list):
        raise RowError(f"column {column} holds {describe_value(value)}, not a name")
    return parse_label(value)
