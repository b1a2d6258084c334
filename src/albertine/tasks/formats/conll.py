"""Sentences in columns, as CoNLL has them: a word on each line with its tag at the end, blank lines between.

    EU       NNP  B-NP  B-ORG
    rejects  VBZ  B-VP  O

In `.conllu` the columns are fixed: the word is the second, its part of speech the fourth.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from albertine.errors import InputError
from albertine.tasks.examples import Tagged
from albertine.tasks.formats.rows import RowError, opened, suffix_of
from albertine.text.documents import Troubles

_BETWEEN = re.compile("[ \t]+")  # and not at a space that belongs to a word
_UNIVERSAL = 10  # columns of CoNLL-U


def sentences(file: Path, troubles: Troubles, *, tagged: bool) -> Iterator[Tagged]:
    """Yield the sentences of a file; untagged, a line may be a word alone."""
    suffix = suffix_of(file)
    words: list[str] = []
    tags: list[str] = []
    first, number, sound = 1, 0, True

    def whole() -> Iterator[Tagged]:
        nonlocal number
        if words and sound:
            found = tuple(tags) if tagged else None
            yield Tagged(f"{file}, line {first}", str(number), tuple(words), found)
            number += 1

    with opened(file) as stream:
        for at, line in enumerate(stream, start=1):
            try:
                text = line.decode("utf-8-sig").strip(" \t\r\n")
                found = _word(text, suffix, tagged=tagged)
            except UnicodeDecodeError:
                troubles.meet(f"{file}, line {at}", "not UTF-8")
                sound = False
                continue
            except RowError as error:
                troubles.meet(f"{file}, line {at}", str(error))
                sound = False
                continue
            if not text or text.startswith("-DOCSTART-"):
                yield from whole()
                words, tags, first, sound = [], [], at + 1, True
            elif found is not None:
                words.append(found[0])
                tags.append(found[1])
        yield from whole()
    if number == 0:
        raise InputError(f"{file}: no sentences; a word and its tag stand on each line")


def _word(line: str, suffix: str, *, tagged: bool) -> tuple[str, str] | None:
    """Return the word of a line and its tag; nothing for a remark."""
    if not line:
        return None
    if suffix == ".conllu":
        if line.startswith("#"):
            return None
        cells = line.split("\t")
        if len(cells) != _UNIVERSAL:
            raise RowError(f"{len(cells)} columns, where CoNLL-U has {_UNIVERSAL}")
        # Words that were joined, or left out, stand there a second time.
        return (cells[1], cells[3]) if cells[0].isdigit() else None
    if line.startswith("# ") and "=" in line:  # a remark above a sentence
        return None
    cells = _BETWEEN.split(line)
    if tagged and len(cells) < 2:
        raise RowError("a word without a tag")
    if not tagged and suffix == ".txt" and len(cells) > 1:
        raise RowError("several words; one stands on each line, or give rows with a list of words")
    return cells[0], cells[-1]
