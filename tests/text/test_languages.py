"""Tests of `--language`: its rules for sentences, and which languages are refused."""

from pathlib import Path

import pytest
from sentencex import segment

from albertine.cli import app
from albertine.command import run_command
from albertine.text.languages import SPLITTER_LANGUAGES
from albertine.text.settings import ReadingSettings

PAGE = Path(__file__).parent.parent.parent / "docs" / "corpus.md"


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("Das gilt bzw. Regeln gelten.", ("de", "gsw", "lb")),
        ("Es el Sr. Rulfo que viene.", ("es", "ast")),
    ],
)
def test_known_languages_have_their_own_rules(text: str, languages: tuple[str, ...]) -> None:
    for language in languages:
        assert language in SPLITTER_LANGUAGES
        assert ReadingSettings(language=language).language == language
        assert len(segment(language, text)) == 1


@pytest.mark.parametrize("language", ["xx", "sv", "zh"])
def test_other_languages_are_split_as_english(language: str) -> None:
    text = "Det är t.ex. Lund. 今天天气很好。我们去公园吧！"
    assert language not in SPLITTER_LANGUAGES
    assert segment(language, text) == segment("en", text)
    if language != "xx":
        assert ReadingSettings(language=language).splitter_language == "en"


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("xx", "--language xx: not a known language; docs/corpus.md lists the languages; for others, use en"),
        (
            "eng",
            "--language eng: not a known language (did you mean en?); docs/corpus.md lists",
        ),
        ("DE", "(did you mean de?)"),
    ],
)
def test_an_unknown_language_is_refused(
    language: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("One. Two.")
    words = ["tokenizer", "train", str(tmp_path / "a.txt"), "--out", str(tmp_path / "tokenizer")]
    assert run_command(app, [*words, "--language", language]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_page_lists_all_languages() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### Languages")[1].split("For any other")[0]
    listed = {word.strip("`") for word in section.split() if word.startswith("`") and word.endswith("`")}
    assert listed == SPLITTER_LANGUAGES
