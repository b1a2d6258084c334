"""Rows of a table, whatever file it is in: CSV, TSV, JSON lines, Parquet, a data set of the hub.

They are streamed, so a file may be of any size; each knows its place. A .tsv has no
quoting, as GLUE's have none: what stands between two tabs is the cell.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, cast

from albertine.errors import InputError, nearest
from albertine.settings.schema import shortened
from albertine.text.documents import Troubles
from albertine.text.hub import HUB, records, shards_of
from albertine.text.unicode import is_whole

KINDS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_LONGEST_CELL = 1 << 30


@dataclass(frozen=True)
class Row:
    """One row: where it stands, its number from 0, and its cells by column."""

    place: str
    number: int
    cells: Mapping[str, Any]

    def text(self, column: str) -> str:
        """Return a cell that must be text."""
        value = self.cells.get(column)
        if not isinstance(value, str):
            raise RowError(f"column {shortened(column)} holds {_described(value)}, not text")
        return whole(value)


class RowError(ValueError):
    """What is wrong with one row; the text goes after its place."""


def whole(text: str) -> str:
    """Return text that has no half of a character in it, which JSON can write and nobody can read."""
    if not is_whole(text):
        raise RowError(f"half a character (a surrogate by itself) in {shortened(ascii(text))}")
    return text


def rows(
    source: str, troubles: Troubles, wanted: Iterable[str] = (), options: Mapping[str, str] | None = None
) -> Iterator[Row]:
    """Yield the rows of a file or data set; `wanted` columns must be there, which `options` name."""
    found = _from_hub(source) if source.startswith(HUB) else _from_file(Path(source), troubles)
    first = True
    for row in found:
        missing = next((one for one in wanted if one not in row.cells), None)
        if missing is not None and first:
            option = (options or {}).get(missing)
            raise InputError(f"{source}: {_without(missing, option, list(row.cells))}")
        if missing is not None:
            troubles.meet(row.place, f"no column {shortened(missing)}")
            continue
        first = False
        yield row


def _without(missing: str, option: str | None, there: list[str]) -> str:
    """Say that a column is missing, and what to do."""
    if len(there) == 1 and (";" in there[0] or "\t" in there[0]):
        return (
            f"no column {shortened(missing)}; its first line is one cell, {shortened(there[0])}: .csv takes "
            "commas between cells, .tsv tabs"
        )
    known = shortened(", ".join(there)) or "none"
    named = f"; {option} names another" if option else ""
    return f"no column {shortened(missing)}{nearest(missing, there)}; it has {known}{named}"


def suffix_of(file: Path) -> str:
    """Return the suffix that says what a file holds, whether or not it is packed."""
    return Path(file.stem if file.suffix.lower() in _PACKED else file).suffix.lower()


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, unpacked; a torn one is told of by its name."""
    if not file.exists():
        raise InputError(f"{file}: no such file")
    if not file.is_file():
        raise InputError(f"{file}: not a file")
    try:
        with _unpacked(file) as stream:
            yield stream
    except (EOFError, zlib.error, OSError) as error:
        if getattr(error, "errno", None):
            raise
        raise InputError(f"{file}: torn or not packed so ({error}); get the file again") from None


def _unpacked(file: Path) -> BinaryIO:
    match file.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(file, "rb"))
        case ".zst" | ".zstd":
            import pyarrow as pa

            return cast(BinaryIO, io.BufferedReader(pa.input_stream(str(file), compression="zstd")))
    return file.open("rb")


_PACKED = (".gz", ".zst", ".zstd")


def _from_file(file: Path, troubles: Troubles) -> Iterator[Row]:
    suffix = suffix_of(file)
    if suffix == ".parquet":
        yield from _from_parquet(file)
        return
    if suffix not in KINDS:
        raise InputError(f"{file}: not a table that is read here; {', '.join(KINDS)} are, also .gz and .zst")
    with opened(file) as stream:
        if suffix in (".jsonl", ".ndjson"):
            yield from _from_json(file, stream, troubles)
        else:
            yield from _from_text(file, stream, troubles, tabs=suffix == ".tsv")


def table(file: Path, troubles: Troubles, *, tabs: bool, header: list[str] | None = None) -> Iterator[Row]:
    """Yield the rows of a table as text; `header` names the columns where the file does not."""
    with opened(file) as stream:
        yield from _from_text(file, stream, troubles, tabs=tabs, header=header)


def _from_text(
    file: Path, stream: BinaryIO, troubles: Troubles, *, tabs: bool, header: list[str] | None = None
) -> Iterator[Row]:
    csv.field_size_limit(_LONGEST_CELL)
    number = count()
    # What is not UTF-8 is found row by row, so that the rest of the file can be read.
    with io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="") as lines:
        for line, values in _between_tabs(lines) if tabs else _quoted(file, lines):
            place = f"{file}, line {line}"
            if header is None:
                header = _header(values, place)
            elif len(values) != len(header):
                troubles.meet(place, f"{len(values)} cells, where the header has {len(header)}")
            elif any(not is_whole(value) for value in values):
                troubles.meet(place, "not UTF-8")
            else:
                yield Row(place, next(number), dict(zip(header, values, strict=True)))


def _header(values: list[str], place: str) -> list[str]:
    if any("\0" in value or not is_whole(value) for value in values):
        raise InputError(f"{place}: no text in UTF-8; name a table of text, or save it as UTF-8")
    header = [value.strip() for value in values]
    twice = next((one for one in header if header.count(one) > 1), None)
    if twice is not None:
        raise InputError(f"{place}: column {shortened(twice)} is there twice; name them apart")
    return header


def _between_tabs(lines: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, start=1):
        stripped = line.rstrip("\r\n")
        if stripped:
            yield number, stripped.split("\t")


def _quoted(file: Path, lines: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, strict=True)
    while True:
        first = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{file}, line {first}: no CSV ({error}); mend its quotes") from None
        if values:
            yield first, values


def _from_json(file: Path, stream: BinaryIO, troubles: Troubles) -> Iterator[Row]:
    number = count()
    for at, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        place = f"{file}, line {at}"
        try:
            record = json.loads(line.decode("utf-8-sig"))
        except UnicodeDecodeError:
            troubles.meet(place, "not UTF-8")
            continue
        except (ValueError, RecursionError) as error:
            troubles.meet(place, f"not JSON ({error})")
            continue
        if isinstance(record, dict):
            yield Row(place, next(number), record)
        else:
            troubles.meet(place, f"{_described(record)}, not a record of columns")


def _from_parquet(file: Path) -> Iterator[Row]:
    import pyarrow as pa
    from pyarrow import parquet

    if not file.is_file():
        raise InputError(f"{file}: no such file")
    try:
        number = count()
        for batch in parquet.ParquetFile(file).iter_batches(1000):
            for record in batch.to_pylist():
                at = next(number)
                yield Row(f"{file}, row {at}", at, record)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{file}: no whole Parquet file ({reason}); get it again") from None


def _from_hub(name: str) -> Iterator[Row]:
    number = count()
    for shard in range(shards_of(name)):
        for place, record in records(name, shard):
            yield Row(place, next(number), record)


def _described(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {shortened(str(value))}"
