"""Extends spans of a text to whole words.

A tokenizer splits rare words, so a span from a token to a token may begin or end inside of one.
Characters belong together if both are letters of a script with spaces, with their marks, or if both
are digits: in "20th" and "1960s" a number may end, in "1960" it may not.
"""

import unicodedata

from albertine.text.spaceless_scripts import is_spaceless

_LONGEST_WORD = 64  # what is longer is no word, such as a key or an address
_JOINERS = "\u00ad\u200c\u200d"  # soft hyphen; non-joiner and joiner within words of Persian and Hindi


def extended_to_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span from the beginning of the word at `start` to the end of the word before `end`.

    A boundary that is inside of more than `_LONGEST_WORD` characters on its side stays.
    """
    first = start
    while first > 0 and start - first <= _LONGEST_WORD and _are_of_one_word(text[first - 1], text[first]):
        first -= 1
    last = end
    while last < len(text) and last - end <= _LONGEST_WORD and _are_of_one_word(text[last - 1], text[last]):
        last += 1
    return (
        first if start - first <= _LONGEST_WORD else start,
        last if last - end <= _LONGEST_WORD else end,
    )


def _are_of_one_word(left: str, right: str) -> bool:
    if left.isdecimal() or right.isdecimal():
        return left.isdecimal() and right.isdecimal()
    return _is_of_word(left) and _is_of_word(right)


def _is_of_word(character: str) -> bool:
    is_letter = character.isalpha() or unicodedata.category(character)[0] == "M" or character in _JOINERS
    return is_letter and not is_spaceless(character)
