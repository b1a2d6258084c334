"""Wrapped text is joined into paragraphs again."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albertine.text.paragraphs import detect_wrapping, split_paragraphs

LONG = (
    "The morning was grey, and the two brothers had walked for an hour before either of them spoke a word. "
    "At last the elder stopped, looked back at the village, and asked whether the door had been locked."
)
SPEECH = '"I locked it," said the younger; "I have the key here in my pocket, and it will stay there today."'
SHORT = "They went on without another word."
BOOK = [LONG, SPEECH, SHORT, LONG + " " + SPEECH, SPEECH + " " + SHORT] * 3


def wrap_paragraphs(paragraphs: list[str], separator: str, indent: str = "", width: int = 60) -> str:
    return separator.join(textwrap.fill(paragraph, width, initial_indent=indent) for paragraph in paragraphs)


@pytest.mark.parametrize(
    "text",
    [
        wrap_paragraphs(BOOK, "\n\n"),
        wrap_paragraphs(BOOK, "\r\n\r\n").replace("\n", "\r\n").replace("\r\r", "\r"),
        wrap_paragraphs(BOOK, "\n", indent="   "),
        wrap_paragraphs(BOOK, "\n"),
        "\n".join(BOOK),
        "\n\n".join(BOOK),
        "\n\n\n".join("  " + paragraph + "  " for paragraph in BOOK),
    ],
    ids=["blank lines", "crlf", "indents", "no marker", "one line each", "separated", "indented lines"],
)
def test_paragraphs_of_any_layout_are_found(text: str) -> None:
    found = list(split_paragraphs(text))
    # Without blank lines or indents, a paragraph with a full last line is joined to the next paragraph.
    assert " ".join(found) == " ".join(BOOK)  # no word is lost or moved
    if detect_wrapping(text.splitlines()) is None or "\n\n" in text or "\n   " in text or "\r" in text:
        assert found == BOOK
    else:
        assert len(found) >= len(BOOK) / 2


def test_pages_begin_with_a_form_feed() -> None:
    text = wrap_paragraphs(BOOK * 3, "\n")
    expected = list(split_paragraphs(text))
    lines = text.splitlines()
    pages = ["\n".join(lines[first : first + 10]) for first in range(0, len(lines), 10)]
    assert list(split_paragraphs("\n\f".join(pages))) == expected


@pytest.mark.parametrize("first", ["“", "1", " ", "A"])
def test_lines_of_chinese_are_joined_whatever_their_first_character_is(first: str) -> None:
    paragraph = "春天来了，村里的人都到河边去看新修好的桥。" * 9
    text = "\n\n".join(
        ["\n".join(textwrap.wrap(first + paragraph, 35)), *["\n".join(textwrap.wrap(paragraph, 35))] * 5]
    )
    assert list(split_paragraphs(text)) == [(first + paragraph).strip(), *[paragraph] * 5]


def test_line_end_hyphen_is_removed_if_the_joined_word_occurs() -> None:
    text = "\n".join(
        [
            "It was, as all of them agreed at once, an excellent exam-",
            "ple of what is, or should be by now at the latest, well-",
            "known to every reader of these pages, and in particular",
            "every example of his was in the latest of the books--",
            "so it seemed to them at the time when they had read all",
            "of it, and so it was.",
        ]
    )
    (paragraph,) = split_paragraphs(text)
    assert "excellent example of what is, or should" in paragraph
    assert "latest, well-known to every" in paragraph
    assert "the books--so it" in paragraph


@given(st.text())
def test_no_text_is_lost(text: str) -> None:
    def without_spaces_and_hyphens(text: str) -> str:
        return "".join(text.split()).replace("-", "")

    joined = "".join(split_paragraphs(text))
    assert without_spaces_and_hyphens(joined) == without_spaces_and_hyphens(text)
    assert all(paragraph and paragraph == " ".join(paragraph.split()) for paragraph in split_paragraphs(text))


def test_lines_of_a_spaceless_script_are_joined_without_spaces() -> None:
    line = "今天天气很好孩子们在公园里放风筝他们笑得很开心"
    lines = [line[shift:] + line[:shift] for shift in range(12)]
    (paragraph,) = split_paragraphs("\n".join(lines))
    assert paragraph == "".join(lines)


def test_short_lines_are_not_taken_for_wrapped_text() -> None:
    chat = ["hi there", "hello who is it", "it is me again", "oh ok what now", "nothing much"] * 10
    assert list(split_paragraphs("\n".join(chat))) == chat
