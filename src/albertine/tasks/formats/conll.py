"""Sentences in columns, as CoNLL has them: a word on each line with its tag at the end, blank lines between.

EU       NNP  B-NP  B-ORG
rejects  VBZ  B-VP  O
"""

from collections.abc import Iterator
from pathlib import Path

from albertine.errors import InputError
from albertine.tasks.examples import Tagged
from albertine.tasks.formats.rows import opened
from albertine.text.documents import Troubles


def sentences(file: Path, troubles: Troubles, *, tagged: bool) -> Iterator[Tagged]:
    """Yield the sentences of a file; untagged, a line may be a word alone."""
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
                cells = line.decode("utf-8-sig").split()
            except UnicodeDecodeError:
                troubles.meet(f"{file}, line {at}", "not UTF-8")
                sound = False
                continue
            if not cells or cells[0] == "-DOCSTART-":
                yield from whole()
                words, tags, first, sound = [], [], at + 1, True
            elif tagged and len(cells) < 2:
                troubles.meet(f"{file}, line {at}", "a word without a tag")
                sound = False
            elif not (line.startswith(b"# ") and b"=" in line):  # a remark, as CoNLL-U has above a sentence
                words.append(cells[0])
                tags.append(cells[-1])
        yield from whole()
    if number == 0:
        raise InputError(f"{file}: no sentences; a word and its tag stand on each line")
