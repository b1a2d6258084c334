"""Tests of lost characters, their lists, and the warning about the language of a text."""

from collections import Counter
from pathlib import Path

import pytest

from albertine.text.characters import (
    language_warning,
    list_characters,
    lost_characters,
    lost_word_characters,
    single_characters,
)
from albertine.text.tokenizer import load_tokenizer

ENGLISH = "It is a truth universally acknowledged, that a single man must be in want of a wife. " * 10
GERMAN = "Der Müller hört früh die Vögel; schöne Grüße aus Köln, und süße Träume. "


def test_lost_characters_are_counted_in_normalized_words() -> None:
    known = single_characters(["a", "b", "▁ab", "##c", "<unk>"])
    assert known == {"a", "b", "c"}
    lost = lost_characters({"ABBA": 2, "ax": 3, "xÿx": 1}, known, str.lower)
    assert lost == {"x": 5, "ÿ": 1}
    assert lost_characters({"½": 2}, known, lambda _: "1 2") == {"1": 2, "2": 2}


def test_characters_of_a_bert_vocabulary_are_lost_where_they_occur(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "(", "c", "##c", "cd"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    unknown_words = load_tokenizer(tmp_path).unknown_words
    assert unknown_words("(AB)BA cd") == [")", "ba"]
    # "cd" has a token, but not "ccd"; its d has no token inside a word.
    words = {"(AB)BA": 2, "cd": 5, "ccd": 3}
    assert lost_word_characters(words, frozenset(tokens), unknown_words) == {")": 2, "b": 2, "a": 2, "d": 3}


def test_listed_characters_are_few_and_visible() -> None:
    assert list_characters({"b": 1, "\u0301": 2000, "a": 1}) == "U+0301 2,000, a 1, b 1"
    many = list_characters({chr(0x4E00 + n): 50 - n for n in range(40)})
    assert many.startswith("一 50, 丁 49, ")
    assert many.endswith(" and 30 others")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (GERMAN, "of the letters are accented or outside a to z"),
        ("L'été dernier, la fenêtre était ouverte; e\u0301te\u0301.", "accented or outside a to z"),
        (
            "Все счастливые семьи похожи друг на друга",
            "100.0% of the letters are not Latin, most of them Cyrillic",
        ),
        ("हिन्दी में यह एक वाक्य है", "most of them Devanagari"),
        ("ガギグ 漢字", "most of them Katakana"),
        (ENGLISH + "Привет", "not Latin, most of them Cyrillic"),
    ],
)
def test_text_of_another_language_gives_a_warning(text: str, found: str) -> None:
    warning = language_warning(Counter(text), removes_accents=True, language="en")
    assert warning is not None
    assert found in warning
    assert "--keep-accents" in warning
    assert "--language" in warning
    assert "--language" not in str(language_warning(Counter(text), removes_accents=True, language="de"))
    kept = language_warning(Counter(text), removes_accents=False, language="en")
    assert kept is not None
    assert "--keep-accents" not in kept
    assert language_warning(Counter(text), removes_accents=False, language="de") is None


@pytest.mark.parametrize("text", ["", "...", "12 – 34", ENGLISH + "“Café” ﬁne ﬀ Ａ ½ µ"])
def test_english_gives_no_warning(text: str) -> None:
    assert language_warning(Counter(text), removes_accents=True, language="en") is None
