"""Tests of spans that are extended to whole words."""

import pytest

from albertine.text.whole_words import extended_to_words


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("the unbelievable story", "believ", "unbelievable"),
        ("the old mill", "old", "old"),
        ("the old mill", "the old mill", "the old mill"),
        ("in 1960, not later", "96", "1960"),
        ("in the 1960s", "1960", "1960"),  # a number with its ending
        ("the 20th time", "20", "20"),
        ("a well-known word", "known", "known"),
        ("it isn't so", "isn", "isn"),
        ("die Donaudampfschifffahrt ruht", "dampf", "Donaudampfschifffahrt"),
        ("η Θεσσαλονίκη είναι", "σσαλο", "Θεσσαλονίκη"),
        ("यह हिन्दी है", "न्", "हिन्दी"),  # signs of vowels are marks
        ("او می\u200cخواهد برود", "خواه", "می\u200cخواهد"),
        ("他住在北京城里", "北京", "北京"),  # without spaces, a part is a word
        ("ของประเทศไทย", "ประเทศ", "ประเทศ"),
        ("名前はTanakaです", "anak", "Tanaka"),
        ("the 𝐛𝐨𝐥𝐝 word", "𝐨", "𝐛𝐨𝐥𝐝"),
    ],
)
def test_a_span_is_extended_to_whole_words(text: str, part: str, expected: str) -> None:
    start = text.index(part)
    first, last = extended_to_words(text, start, start + len(part))
    assert text[first:last] == expected


def test_the_rest_of_what_is_too_long_for_a_word_is_left_out() -> None:
    text = "x" * 1000
    assert extended_to_words(text, 500, 505) == (500, 505)
    assert extended_to_words(text, 60, 505) == (0, 505)
    assert extended_to_words(text, 64, 936) == (0, 1000)
    assert extended_to_words(text, 65, 935) == (65, 935)
