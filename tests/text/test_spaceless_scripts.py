"""Tests of scripts without spaces between words, by the Unicode names of their letters."""

import sys
import textwrap
import unicodedata
from functools import cache

import pytest

from albertine.text.paragraphs import split_paragraphs
from albertine.text.spaceless_scripts import is_spaceless

SPACELESS = [
    "THAI",
    "LAO",
    "TIBETAN",
    "MYANMAR",
    "KHMER",
    "TAI LE",
    "NEW TAI LUE",
    "TAI THAM",
    "TAI VIET",
    "HIRAGANA",
    "KATAKANA",
    "BOPOMOFO",
    "CJK",
]
SPACED = [
    "GEORGIAN",
    "HANGUL",
    "LATIN",
    "GREEK",
    "CYRILLIC",
    "ARABIC",
    "HEBREW",
    "DEVANAGARI",
    "TAMIL",
    "SINHALA",
    "ETHIOPIC",
    "CHEROKEE",
    "MONGOLIAN",
    "TAGALOG",
    "YI",
]


@cache
def all_letters() -> dict[str, str]:
    """Return the name of each letter, except narrow forms, which share blocks with wide ones."""
    names = {chr(code): unicodedata.name(chr(code), "") for code in range(sys.maxunicode)}
    return {
        character: name
        for character, name in names.items()
        if "HALFWIDTH" not in name and unicodedata.category(character)[0] == "L"
    }


def letters(script: str) -> list[str]:
    """Return all letters whose name begins with a script."""
    found = [character for character, name in all_letters().items() if name.startswith(f"{script} ")]
    assert found
    return found


@pytest.mark.parametrize("script", SPACELESS)
def test_scripts_without_spaces(script: str) -> None:
    assert [one for one in letters(script) if not is_spaceless(one)] == []


@pytest.mark.parametrize("script", SPACED)
def test_scripts_with_spaces(script: str) -> None:
    assert [one for one in letters(script) if is_spaceless(one)] == []


def test_wrapped_georgian_lines_are_joined_with_a_space() -> None:
    text = "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. " * 12
    lines = textwrap.wrap(text, 60)
    (paragraph,) = split_paragraphs("\n".join(lines) + "\n")
    assert paragraph == text.strip()
