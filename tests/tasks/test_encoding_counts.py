"""Tests of the counts of truncated and unknown tokens."""

from pathlib import Path

import pytest

from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import TextExample
from albertine.tasks.types.regression import Regression
from albertine.text.tokenizer import load_tokenizer


def encoding_counts(tokenizer: Path, *texts: str) -> EncodingCounts:
    """Return the counts of texts that are encoded in sequences of at most 10 tokens."""
    loaded = load_tokenizer(tokenizer)
    counts = EncodingCounts(loaded.special_ids)
    for text in texts:
        counts.add(Regression(loaded, 10, (), 0.0).encode([TextExample("", "", (text,))]))
    return counts


def test_counts_truncated_and_unknown_tokens(tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ("ka", "ka " * 14, "lo " * 10, "漢")
    counts = encoding_counts(tokenizer, *texts)
    loaded = load_tokenizer(tokenizer)
    ids = [loaded.encode(text, add_special_tokens=False) for text in texts]
    first, second = (len(ids[index]) - 8 for index in (1, 2))
    assert (counts.num_examples, counts.num_truncated_examples) == (4, 2)
    assert counts.max_truncated_tokens == first
    assert counts.mean_truncated_tokens == (first + second) / 2
    unknown_share = 1 / (len(ids[0]) + 8 + 8 + len(ids[3]))
    assert counts.unknown_share == pytest.approx(unknown_share)
    counts.print_warnings("train")
    mean = round((first + second) / 2)
    assert capsys.readouterr().err.splitlines() == [
        f"train: 2 of 4 examples truncated; tokens cut off: {mean} on average, {first} at most",
        f"train: {100 * unknown_share:.2g}% of the tokens are unknown; the vocabulary lacks their characters",
    ]


def test_empty_examples_are_counted(tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = TextExample("", "", ("", " "))
    counts = encoding_counts(tokenizer, "ka", "", " \n")
    counts.add(Regression(load_tokenizer(tokenizer), 10, (), 0.0).encode([pair]))
    restored = EncodingCounts(load_tokenizer(tokenizer).special_ids)
    restored.restore(counts.state())
    counts.merge(restored)
    counts.print_warnings("dev")
    message = "dev: 6 of 8 examples are empty: a model has no token of them to go by\n"
    assert capsys.readouterr().err == message


def test_complete_examples_give_no_message(tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for counts in (encoding_counts(tokenizer), encoding_counts(tokenizer, "ka lo", "ka")):
        assert (counts.mean_truncated_tokens, counts.unknown_share) == (0.0, 0.0)
        counts.print_warnings("train")
    assert capsys.readouterr().err == ""
