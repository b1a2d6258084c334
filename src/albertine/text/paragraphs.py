"""Finds the paragraphs of plain text and undoes line wrapping.

Plain text marks paragraphs in one of these ways, detected from its lines:

- one paragraph per line;
- wrapped lines, with blank lines between paragraphs or an indented first line;
- wrapped lines without any mark, where only the last line of a paragraph is short.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from albertine.text.scripts import is_spaceless

_MAX_WIDTH = 130  # longer lines are not wrapped ones
_MIN_WIDTH = 40  # shorter lines are dialogue, verse or lists
_SENTENCE_END = re.compile(r"""[.!?:;…。！？।۔*]["'”’»)\]_*]{0,8}$""")
_DASHES = ("--", "—", "–")


def ends_sentence(line: str) -> bool:
    """Return whether a line without trailing spaces can be the end of a sentence."""
    return _SENTENCE_END.search(line, max(0, len(line) - 9)) is not None


@dataclass(frozen=True)
class LineWrapping:
    """How the lines of a text are wrapped.

    Attributes:
        width: maximum length of a line, in characters.
        blank_lines: whether blank lines separate paragraphs.
        indents: whether the first line of a paragraph is indented.
    """

    width: int
    blank_lines: bool
    indents: bool


def detect_wrapping(lines: list[str]) -> LineWrapping | None:
    """Return how lines are wrapped, or None if each line is a paragraph."""
    nonempty = [line.rstrip() for line in lines if line.strip()]
    if len(nonempty) < 3:
        return None
    lengths = sorted(map(len, nonempty))
    width = lengths[9 * (len(lengths) - 1) // 10]
    unfinished = sum(not ends_sentence(line) for line in nonempty) / len(nonempty)
    narrow = width < _MIN_WIDTH and not is_spaceless(nonempty[0][0])
    if lengths[95 * (len(lengths) - 1) // 100] > _MAX_WIDTH or narrow or unfinished < 0.5:
        return None
    indented = sum(line[0].isspace() for line in nonempty) / len(nonempty)
    return LineWrapping(
        width=width,
        blank_lines=(len(lines) - len(nonempty)) / len(lines) >= 0.02,
        indents=0.01 <= indented <= 0.5,
    )


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, each as one line with single spaces."""
    lines = text.replace("\f", " ").splitlines()
    wrapping = detect_wrapping(lines)
    if wrapping is None:
        for line in lines:
            words = line.split()
            if words:
                yield " ".join(words)
        return
    known = _TextWords(text)
    gathered: list[str] = []
    for line in lines:
        words = line.split()
        if gathered and (not words or _starts_paragraph(line, words[0], gathered[-1], wrapping)):
            yield _unwrapped(gathered, known)
            gathered = []
        if words:
            gathered.append(" ".join(words))
    if gathered:
        yield _unwrapped(gathered, known)


def _starts_paragraph(line: str, first_word: str, previous_line: str, wrapping: LineWrapping) -> bool:
    """Return whether a line starts a paragraph without a blank line before it."""
    if wrapping.indents and line[0].isspace():
        return True
    if wrapping.blank_lines:
        return False
    would_fit = len(previous_line) + 1 + len(first_word) <= 0.9 * wrapping.width
    return would_fit and ends_sentence(previous_line)


class _TextWords:
    """The set of words of a text, collected on first use."""

    def __init__(self, text: str):
        self._text = text
        self._words: set[str] | None = None

    def __contains__(self, word: str) -> bool:
        if self._words is None:
            self._words = set(re.findall(r"\w+", self._text.lower()))
        return word.lower() in self._words


def _unwrapped(lines: list[str], known: _TextWords) -> str:
    """Return the lines of one paragraph as one line.

    A hyphen at the end of a line is removed if the text contains the joined word elsewhere.
    """
    joined = [lines[0]]
    for line in lines[1:]:
        before = joined[-1]
        if before.endswith(_DASHES):
            joined.append(line)
        elif before.endswith("-") and before[-2:-1].isalpha() and line[0].islower():
            head, tail = re.findall(r"\w+", before)[-1], re.match(r"\w+", line)
            if head + (tail[0] if tail else "") in known:
                joined[-1] = before[:-1]
            joined.append(line)
        elif is_spaceless(before[-1:]) and is_spaceless(line[0]):
            joined.append(line)
        else:
            joined += [" ", line]
    return "".join(joined)
