"""The columns that a reader of a table asks for, and the check that the table has them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError
from albertine.tasks.formats.columns import (
    ColumnSelection,
    KeepRequest,
    MissingColumnError,
    refuse_label_in_text,
    select_columns,
)
from albertine.tasks.formats.headers import looks_like_data, looks_like_names
from albertine.tasks.formats.missing_columns import missing_column_message


@dataclass(frozen=True)
class ColumnRequest:
    """The columns that a reader asks for.

    Attributes:
        required: columns that must exist.
        options: command-line options that name the columns, for error messages.
        optional: columns that are used if they exist. Of a Parquet file, no others are read.
        joinable: those of the required columns that may name several, as in "title,body".
        label: column of labels, by which a header that is a row of data is recognized.
        texts: the columns of each text, by the option that names them. None may be a label.
        target: column of what a model learns to predict, or several as in "good,bad"; None if it is not read.
        named_id: column of ids that the training data had; a message says if it is missing.
        keep: columns to keep in the rows.
        header: whether the first line of a CSV or TSV file names its columns; else they are numbered from 1.
    """

    required: Collection[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    optional: Collection[str] = ()
    joinable: Collection[str] = ()
    label: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    named_id: str | None = None
    keep: KeepRequest | None = None
    header: bool = True


class ColumnChoice:
    """The columns of one table that a reader uses, chosen when the names of its columns are known.

    Attributes:
        request: what the reader asks for.
        selection: the columns; those of the request, if the names are not known yet.
        is_made: whether the table has all columns that the reader needs.
    """

    def __init__(self, source: str, request: ColumnRequest):
        """Begin with the columns of the request.

        Args:
            source: the file or data set.
            request: what the reader asks for.
        """
        self.request = request
        self.selection = ColumnSelection(tuple(request.required))
        self.is_made = False
        self._source = source

    def make(
        self, available: list[str], first_rows: Sequence[list[str]] = (), location: str | None = None
    ) -> None:
        """Choose the columns; raise `InputError` if one is missing, or a label would be read as text.

        Args:
            available: names of the columns of the table.
            first_rows: cells of its first rows, if it has a header line.
            location: the row whose columns are `available`, if other rows may have others.
        """
        request, source = self.request, self._source
        self.selection = select_columns(source, available, request.required, request.joinable, request.keep)
        self._refuse_label_in_text()
        is_data = request.header and looks_like_data(available, first_rows, request.label)
        missing, option = self._missing(available)
        if missing is not None:
            _refuse_semicolons_without_header(source, missing, available, first_rows, header=request.header)
            raise MissingColumnError(
                missing_column_message(
                    source,
                    missing,
                    available,
                    option,
                    location=location or source,
                    header=request.header,
                    is_data=is_data,
                )
            )
        self.is_made = True
        if request.named_id is not None and request.named_id not in available:
            progress.print_message(
                f"{location or source}: no column {display_text(request.named_id)}, which had the ids in "
                "training; rows without it are numbered; --id names another column"
            )
        self._warn_about_header(available, first_rows, is_data=is_data)

    def _refuse_label_in_text(self) -> None:
        target, joined = self.request.target, self.selection.joined
        if target is not None:
            texts = {option: joined.get(name, (name,)) for option, name in self.request.texts.items()}
            refuse_label_in_text(self._source, texts, joined.get(target, (target,)))

    def _missing(self, available: Collection[str]) -> tuple[str | None, str | None]:
        """Return the first column that is missing, and the command-line option that names it."""
        missing, options = self.selection.missing_in(available), self.request.options
        if missing is None:
            kept = self.selection.kept or ()
            return next((column for column in kept if column not in available), None), "--keep"
        for name, parts in self.selection.joined.items():
            if missing in parts:
                return missing, options.get(name)
        return missing, options.get(missing)

    def _warn_about_header(
        self, available: Sequence[str], first_rows: Sequence[list[str]], *, is_data: bool
    ) -> None:
        if is_data:
            progress.print_message(
                f"{self._source}: its first line, taken as column names, looks like data: "
                f"{display_text(', '.join(available))}; use --no-header if the file does not name its columns"
            )
        if not self.request.header and looks_like_names(first_rows):
            progress.print_message(
                f"{self._source}: its first line, read as a row (--no-header), looks like column names: "
                f"{display_text(', '.join(first_rows[0]))}; use --header, and name the columns, if it is"
            )


def _refuse_semicolons_without_header(
    source: str, missing: str, available: Sequence[str], first_rows: Sequence[list[str]], *, header: bool
) -> None:
    """Raise `InputError` if rows without a header are one cell each, which has semicolons."""
    first_cells = first_rows[0] if first_rows else []
    if not header and len(available) == 1 and ";" in "".join(first_cells):
        raise InputError(
            f"{source}: no column {display_text(missing)}; each row is one cell. Semicolons separate "
            "cells only below a line of column names, or below sep=; as the first line: add one"
        )
