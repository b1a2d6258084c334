"""Tests of the scoring benchmark: both sides give the same scores, and the result is printed."""

import json
from pathlib import Path

import pytest
from tests.task_fixtures import write_jsonl

from albertine.bench.score import measure_scoring, show_scoring
from albertine.bench.settings import ScoreBenchSettings
from albertine.errors import InputError
from albertine.settings import ModelSettings

MODEL = ModelSettings(vocab_size=220, embedding_size=16, hidden_size=32, layers=2, heads=2, max_length=64)
PAIRS = [("Kalo mi.", "Kalo miren."), ("tas vu dor", "tas dor vu"), ("kalo", "Kalo mi.")]


def test_both_sides_give_the_same_scores(
    tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"sentence_good": good, "sentence_bad": bad} for good, bad in PAIRS]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    results = measure_scoring(
        str(tmp_path / "pairs.jsonl"), tokenizer, ScoreBenchSettings(pairs=3, runs=2, model=MODEL)
    )
    assert [result.method for result in results] == ["word-l2r", "token"]
    for result in results:
        assert result.num_texts == 5, "a repeated sentence counts once"
        assert result.largest_difference < 1e-4
        assert result.texts_per_second > 0
    show_scoring(results, as_json=True)
    report = json.loads(capsys.readouterr().out)["results"]
    assert report[0]["ratio"] == pytest.approx(
        report[0]["texts_per_second"] / report[0]["peer_texts_per_second"]
    )
    show_scoring(results, as_json=False)
    assert capsys.readouterr().out.startswith("word-l2r  5 texts, ")


def test_wrong_data_raises(tokenizer: Path, tmp_path: Path) -> None:
    settings = ScoreBenchSettings(pairs=3, runs=1, model=MODEL)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match="no minimal pairs"):
        measure_scoring(str(tmp_path / "empty.jsonl"), tokenizer, settings)
    write_jsonl(tmp_path / "long.jsonl", [{"sentence_good": "kalo " * 100, "sentence_bad": "mi"}])
    with pytest.raises(InputError, match="the model takes 64; choose a longer --model"):
        measure_scoring(str(tmp_path / "long.jsonl"), tokenizer, settings)
