"""Tests of the report about truncated and unknown tokens."""

from pathlib import Path

import pytest

from albertine.tasks.encoding_report import EncodingReport
from albertine.tasks.examples import TextExample
from albertine.tasks.types.regression import Regression
from albertine.text.tokenizer import load_tokenizer


def encoding_report(tokenizer: Path, *texts: str) -> EncodingReport:
    """Return the report of texts that are encoded in sequences of at most 10 tokens."""
    loaded = load_tokenizer(tokenizer)
    report = EncodingReport(loaded.special_ids)
    for text in texts:
        report.add(Regression(loaded, 10, (), 0.0).encode([TextExample("", "", (text,))]))
    return report


def test_counts_truncated_and_unknown_tokens(tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ("ka", "ka " * 14, "lo " * 10, "漢")
    report = encoding_report(tokenizer, *texts)
    loaded = load_tokenizer(tokenizer)
    ids = [loaded.encode(text, add_special_tokens=False) for text in texts]
    first, second = (len(ids[index]) - 8 for index in (1, 2))
    assert (report.num_examples, report.num_truncated) == (4, 2)
    assert report.max_truncated_tokens == first
    assert report.mean_truncated_tokens == (first + second) / 2
    unknown_share = 1 / (len(ids[0]) + 8 + 8 + len(ids[3]))
    assert report.unknown_share == pytest.approx(unknown_share)
    report.print_messages("train")
    mean = round((first + second) / 2)
    assert capsys.readouterr().err.splitlines() == [
        f"train: 2 of 4 examples truncated, by {mean} tokens on average and {first} at most",
        f"train: {100 * unknown_share:.2g}% of the tokens are unknown; the vocabulary lacks their characters",
    ]


def test_complete_examples_give_no_message(tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for report in (encoding_report(tokenizer), encoding_report(tokenizer, "ka lo", "")):
        assert (report.mean_truncated_tokens, report.unknown_share) == (0.0, 0.0)
        report.print_messages("train")
    assert capsys.readouterr().err == ""
