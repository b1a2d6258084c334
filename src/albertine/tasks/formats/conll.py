"""Reads sentences in the layout of CoNLL.

A line has a word in its first column and a tag in its last; a blank line ends a sentence.

    EU       NNP  B-NP  B-ORG
    rejects  VBZ  B-VP  O

In `.conllu` files, the second column is the word and the fourth its part of speech.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from albertine.display import counted
from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8
from albertine.storage.objects import display_path
from albertine.tasks.examples import TaggedExample
from albertine.tasks.formats.data_files import data_suffix, open_data_file
from albertine.tasks.formats.rows import MAX_ROW_BYTES, MAX_TEXT_BYTES, RowError
from albertine.text.read_errors import ReadErrors
from albertine.text.sources import bounded_lines

# Other white space, such as a no-break space, belongs to a word; so do spaces where tabs separate columns.
_SPACES, _TABS = re.compile(" +"), re.compile("[ ]*\t[ \t]*")
_OTHER_SEPARATOR = re.compile(r"\w([;,|])[A-Z][\w-]*$")  # before a tag
_CONLLU_COLUMNS = 10
CONLL_SUFFIXES = (".conll", ".conllu", ".iob", ".iob2", ".bio", ".txt")


def read_sentences(file: Path, errors: ReadErrors, *, require_tags: bool) -> Iterator[TaggedExample]:
    """Yield the sentences of a file; without `require_tags`, a line may be a word alone."""
    name, parser = display_path(file), _LineParser(data_suffix(file), require_tags=require_tags)
    words: list[str] = []
    tags: list[str] = []
    first_line, sentence_number, is_valid, num_bytes = 1, 0, True, 0

    def finished_sentence() -> Iterator[TaggedExample]:
        nonlocal sentence_number
        if words and is_valid:
            location = f"{name}, line {first_line}"
            yield TaggedExample(
                location, str(sentence_number), tuple(words), tuple(tags) if require_tags else None
            )
        if words or not is_valid:  # invalid sentences count, so that skipping them shifts no number
            sentence_number += 1

    with open_data_file(file) as stream:
        for line_number, (_, line) in enumerate(bounded_lines(stream, MAX_ROW_BYTES), start=1):
            try:
                text = _decode(line)
                num_bytes = num_bytes + len(text) if text else 0
                if num_bytes > MAX_TEXT_BYTES and is_valid:
                    raise RowError(f"a sentence of more than {MAX_TEXT_BYTES >> 20} MiB; add blank lines")
                ends_sentence = not text or text.startswith("-DOCSTART-")
                word_and_tag = None if ends_sentence else parser.parse(text)
            except RowError as error:
                errors.handle(f"{name}, line {line_number}", str(error))
                is_valid = False
                continue
            if ends_sentence:
                yield from finished_sentence()
                words, tags, first_line, is_valid = [], [], line_number + 1, True
            elif word_and_tag is not None and is_valid:
                words.append(word_and_tag[0])
                tags.append(word_and_tag[1])
        yield from finished_sentence()
    if sentence_number == 0:
        raise InputError(f"{name}: no sentences; expected a word and its tag on each line")


def _decode(line: bytes | None) -> str:
    """Return a line as text, without the spaces around it; None is a line that is too long."""
    if line is None:
        raise RowError(f"a line of more than {MAX_ROW_BYTES >> 20} MiB")
    try:
        return line.decode("utf-8-sig").strip(" \t\r\n")
    except UnicodeDecodeError:
        raise RowError(NOT_UTF_8) from None


class _LineParser:
    """Parses the lines of one file.

    Args:
        suffix: suffix of the file.
        require_tags: whether each word must have a tag.
    """

    def __init__(self, suffix: str, *, require_tags: bool):
        self._suffix, self._require_tags = suffix, require_tags
        self._has_pairs = False  # whether spaces separate a word and its tag, without other columns

    def parse(self, line: str) -> tuple[str, str] | None:
        """Return the word and the tag of a line; None for a line without a word, such as a comment."""
        if self._suffix == ".conllu":
            return _parse_conllu(line)
        if line.startswith("# ") and "=" in line:  # a comment above a sentence
            return None
        cells = (_TABS if "\t" in line else _SPACES).split(line)
        if self._require_tags and len(cells) < 2:
            other = _OTHER_SEPARATOR.search(line)
            advice = f"; spaces or tabs separate columns, and this line has {other[1]}" if other else ""
            raise RowError(f"a word without a tag{advice}")
        if not self._require_tags and self._suffix == ".txt" and len(cells) > 1:
            raise RowError("several words; give one word per line, or a table with a column of words")
        if self._require_tags and "\t" not in line:
            self._check_columns(len(cells))
        return cells[0], cells[-1]

    def _check_columns(self, count: int) -> None:
        """Raise `RowError` if a space is probably a part of a word or a tag."""
        self._has_pairs = self._has_pairs or count == 2
        if self._has_pairs and count > 2:
            raise RowError(
                f"{counted(count, 'column')}, where lines before it have a word and its tag; if words or "
                "tags have spaces, separate columns by tabs"
            )


def _parse_conllu(line: str) -> tuple[str, str] | None:
    if line.startswith("#"):
        return None
    cells = line.split("\t")
    if len(cells) != _CONLLU_COLUMNS:
        raise RowError(f"{counted(len(cells), 'column')}, where CoNLL-U has {_CONLLU_COLUMNS}")
    # Multi-word tokens (3-4), whose words follow on their own lines, and empty nodes (5.1) are skipped.
    return (cells[1], cells[3]) if cells[0].isdigit() else None
