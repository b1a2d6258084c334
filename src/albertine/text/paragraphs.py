"""Finds the paragraphs of plain text and undoes line wrapping.

Plain text marks paragraphs in one of these ways, detected from its lines:

- one paragraph per line;
- wrapped lines, with blank lines between paragraphs or an indented first line;
- wrapped lines without any mark, where only the last line of a paragraph is short.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from albertine.text.spaceless_scripts import is_spaceless

_MAX_WIDTH = 130  # text with longer lines is not wrapped
_MIN_WIDTH = 40  # text with shorter lines is dialogue, verse or a list; each line is a paragraph
_SENTENCE_END = re.compile(r"""[.!?:;…。！？।۔*]["'”’»)\]_*]{0,8}$""")
_DASHES = ("--", "—", "–")


def ends_sentence(line: str) -> bool:
    """Return whether a line without trailing spaces can be the end of a sentence."""
    return _SENTENCE_END.search(line, max(0, len(line) - 9)) is not None


@dataclass(frozen=True)
class LineWrapping:
    """How the lines of a text are wrapped.

    Attributes:
        width: length that 90% of the lines do not exceed, in characters.
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
    # Percentiles in place of the maximum, since a few headings or tables may have longer lines.
    width, long_line = (lengths[percent * (len(lengths) - 1) // 100] for percent in (90, 95))
    spaceless_share = sum(is_spaceless(line[len(line) // 2]) for line in nonempty) / len(nonempty)
    is_narrow = width < _MIN_WIDTH and spaceless_share < 0.5
    unfinished_share = sum(not ends_sentence(line) for line in nonempty) / len(nonempty)
    if long_line > _MAX_WIDTH or is_narrow or unfinished_share < 0.5:
        return None
    indented_share = sum(line[0].isspace() for line in nonempty) / len(nonempty)
    return LineWrapping(
        width=width,
        blank_lines=(len(lines) - len(nonempty)) / len(lines) >= 0.02,
        indents=0.01 <= indented_share <= 0.5,
    )


def split_paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, each as one line with single spaces."""
    # A form feed at the start of a page is no indentation of its first line.
    lines = text.removeprefix("\f").replace("\n\f", "\n").replace("\f", " ").splitlines()
    wrapping = detect_wrapping(lines)
    if wrapping is None:
        for line in lines:
            words = line.split()
            if words:
                yield " ".join(words)
        return
    text_words = _TextWords(text)
    paragraph: list[str] = []
    for line in lines:
        words = line.split()
        if paragraph and (not words or _starts_paragraph(line, words[0], paragraph[-1], wrapping)):
            yield _unwrapped(paragraph, text_words)
            paragraph = []
        if words:
            paragraph.append(" ".join(words))
    if paragraph:
        yield _unwrapped(paragraph, text_words)


def _starts_paragraph(line: str, first_word: str, previous_line: str, wrapping: LineWrapping) -> bool:
    """Return whether a line starts a paragraph without a blank line before it."""
    if wrapping.indents and line[0].isspace():
        return True
    if wrapping.blank_lines:
        return False
    # Wrapping moves a word to the next line only if it does not fit. If this one would fit even in 90% of
    # the width, the line was broken for another reason: a paragraph ended.
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


def _unwrapped(lines: list[str], text_words: _TextWords) -> str:
    """Return the lines of one paragraph as one line.

    A hyphen at the end of a line is removed if the text contains the joined word elsewhere. Lines of a
    script without spaces are joined without a space.
    """
    parts = [lines[0]]
    for line in lines[1:]:
        previous = parts[-1]
        if previous.endswith(_DASHES):
            parts.append(line)
        elif previous.endswith("-") and previous[-2:-1].isalpha() and line[0].islower():
            head, tail = re.findall(r"\w+", previous)[-1], re.match(r"\w+", line)
            if head + (tail[0] if tail else "") in text_words:
                parts[-1] = previous[:-1]
            parts.append(line)
        elif is_spaceless(previous[-1:]) and is_spaceless(line[0]):
            parts.append(line)
        else:
            parts += [" ", line]
    return "".join(parts)
