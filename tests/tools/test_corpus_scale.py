"""Test of the measurement of corpus builds, in its small form."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import made_up_sentences

ROOT = Path(__file__).parents[2]


@pytest.fixture
def corpus_scale(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the tool; measure in this process, which saves the start of others."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import corpus_scale

    monkeypatch.setattr(corpus_scale, "in_new_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(corpus_scale, "DOCUMENT_CHARACTERS", 300)
    monkeypatch.setattr(corpus_scale, "DOCUMENTS_PER_PART", 100)
    return corpus_scale


def test_documents_of_repeated_text_differ(corpus_scale: Any, tmp_path: Path) -> None:
    source = [" ".join(made_up_sentences(seed, 20)) for seed in range(3)]
    corpus_scale.write_text(tmp_path / "text", source, 20_000)
    lines = (tmp_path / "text" / "0000.jsonl").read_text().splitlines()
    assert 20_000 <= sum(len(line) + 1 for line in lines) < 21_000
    assert len(set(lines)) == len(lines) > 10


def test_table_has_the_stages_and_the_straight_line(
    corpus_scale: Any, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(" ".join(made_up_sentences(seed, 20)) for seed in range(9)))
    arguments = [
        str(tmp_path / "a.txt"),
        "--tokenizer",
        str(tokenizer),
        "--scratch",
        str(tmp_path / "scratch"),
    ]
    sizes = ["--gigabytes", "2e-5", "4e-5", "--documents", "200", "400", "--tokens-per-document", "3"]
    corpus_scale.main([*arguments, *sizes, "--workers", "1"])
    build, second_phase = capsys.readouterr().out.split("|  |")[1:]
    for stage in ("find duplicates", "choose held-out text", "write shards and rest", "all"):
        assert f"| {stage}, s |" in build
        assert f"| {stage}, processor s |" in second_phase
    assert "| encode text, processor s |" in build
    assert "| peak MB |" in build
    assert not list((tmp_path / "scratch").iterdir())


def test_projection_is_that_of_a_straight_line(corpus_scale: Any, capsys: pytest.CaptureFixture[str]) -> None:
    corpus_scale.print_table("GB", {1: {"all, s": 5.0}, 2: {"all, s": 7.0}}, (10, 1000))
    assert capsys.readouterr().out.splitlines()[-1] == "| all, s | 5.0 | 7.0 | 2.00 | 23 | 2,003 |"
