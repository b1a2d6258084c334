"""Splits text into sentences in bounded time; a sentence that is too long is divided."""

import math
import re
from collections.abc import Iterator, Sequence

from sentencex import segment

from albertine.text.paragraphs import split_paragraphs

MAX_SENTENCE_LENGTH = 1 << 16  # characters; a longer sentence is split
_QUOTATION_MARK = re.compile("['`«»‘“„‹《「『]")  # for whose partner the sentence splitter searches
_SHORT_PARAGRAPH = 5000  # characters; the splitter takes 25 ms for as many marks
_SENTENCE_ENDS = (". ", "! ", "? ", "。", " ")


def split_sentences(text: str, language: str) -> list[str]:
    """Return the sentences of a prose text."""
    return [
        sentence
        for paragraph in split_paragraphs(text)
        for sentence in map(str.strip, paragraph_sentences(paragraph, language))
        if sentence
    ]


def paragraph_sentences(paragraph: str, language: str) -> list[str]:
    """Return the sentences of a paragraph, with the spaces around them.

    The splitter searches the rest of its text for the partner of each quotation mark. A long paragraph of
    many marks is divided first, so that the time does not grow with the square of its length.
    """
    length = len(paragraph)
    if length <= _SHORT_PARAGRAPH:
        return list(segment(language, paragraph))
    num_marks = len(_QUOTATION_MARK.findall(paragraph))
    if length * num_marks > _SHORT_PARAGRAPH**2:
        length = _SHORT_PARAGRAPH * math.isqrt(length // num_marks)
    return [
        part
        for divided in split_text(paragraph, length, _SENTENCE_ENDS)
        for sentence in segment(language, divided)
        for part in split_text(sentence, MAX_SENTENCE_LENGTH)
    ]


def split_text(text: str, max_length: int, after: Sequence[str] = (" ",)) -> Iterator[str]:
    """Yield a text in parts of at most `max_length` characters.

    Args:
        text: the text.
        max_length: maximum characters of a part.
        after: after which strings to split, best first; without any, parts have the maximum length.
    """
    start = 0
    while len(text) - start > max_length:
        stop = start + max_length
        cut = next((end + len(mark) for mark in after if (end := text.rfind(mark, start, stop)) >= 0), stop)
        yield text[start:cut]
        start = cut
    yield text[start:] if start else text
