"""Sentences in columns, as CoNLL has them: a word on each line with its tag at the end, blank lines between.

    EU       NNP  B-NP  B-ORG
    rejects  VBZ  B-VP  O

In `.conllu` the columns are fixed: the word is the second, its part of speech the fourth.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from albertine.errors import InputError
from albertine.tasks.examples import TaggedExample
from albertine.tasks.formats.tables import RowError, data_suffix, open_data_file
from albertine.text.documents import ReadErrors

_SEPARATOR = re.compile("[ \t]+")  # and not at a space that belongs to a word
_CONLLU_COLUMNS = 10  # columns of CoNLL-U


def read_sentences(file: Path, troubles: ReadErrors, *, require_tags: bool) -> Iterator[TaggedExample]:
    """Yield the sentences of a file; untagged, a line may be a word alone."""
    suffix = data_suffix(file)
    words: list[str] = []
    tags: list[str] = []
    first, number, is_valid = 1, 0, True

    def finished_sentence() -> Iterator[TaggedExample]:
        nonlocal number
        if words and is_valid:
            found = tuple(tags) if require_tags else None
            yield TaggedExample(f"{file}, line {first}", str(number), tuple(words), found)
            number += 1

    with open_data_file(file) as stream:
        for at, line in enumerate(stream, start=1):
            try:
                text = line.decode("utf-8-sig").strip(" \t\r\n")
                found = _parse_line(text, suffix, require_tags=require_tags)
            except UnicodeDecodeError:
                troubles.handle(f"{file}, line {at}", "not UTF-8")
                is_valid = False
                continue
            except RowError as error:
                troubles.handle(f"{file}, line {at}", str(error))
                is_valid = False
                continue
            if not text or text.startswith("-DOCSTART-"):
                yield from finished_sentence()
                words, tags, first, is_valid = [], [], at + 1, True
            elif found is not None:
                words.append(found[0])
                tags.append(found[1])
        yield from finished_sentence()
    if number == 0:
        raise InputError(f"{file}: no sentences; a word and its tag stand on each line")


def _parse_line(line: str, suffix: str, *, require_tags: bool) -> tuple[str, str] | None:
    """Return the word of a line and its tag; nothing for a remark."""
    if not line:
        return None
    if suffix == ".conllu":
        if line.startswith("#"):
            return None
        cells = line.split("\t")
        if len(cells) != _CONLLU_COLUMNS:
            raise RowError(f"{len(cells)} columns, where CoNLL-U has {_CONLLU_COLUMNS}")
        # Words that were joined, or left out, stand there a second time.
        return (cells[1], cells[3]) if cells[0].isdigit() else None
    if line.startswith("# ") and "=" in line:  # a remark above a sentence
        return None
    cells = _SEPARATOR.split(line)
    if require_tags and len(cells) < 2:
        raise RowError("a word without a tag")
    if not require_tags and suffix == ".txt" and len(cells) > 1:
        raise RowError("several words; one stands on each line, or give rows with a list of words")
    return cells[0], cells[-1]
