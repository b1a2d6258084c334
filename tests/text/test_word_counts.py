"""Tests that chunks counted elsewhere give the same counts as text that is read here."""

import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from albertine.errors import InputError
from albertine.text import sources, word_counts
from albertine.text.find_sources import find_sources
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import TokenizerSettings
from albertine.text.word_counts import WordCounter, count_on_cluster, plan_sample, sample_documents


class InOrder:
    """An executor that runs jobs in this process."""

    def run(
        self, function: Callable[[Any], Any], jobs: Iterable[Any], *, in_order: bool = False, **_: Any
    ) -> Iterator[tuple[Any, Any]]:
        assert in_order
        for job in jobs:
            yield job, function(job)


def count(text: Path, settings: TokenizerSettings, *, on_cluster: bool) -> tuple[list[Any], ReadErrors]:
    """Return the counts in their order, and the errors."""
    errors = ReadErrors(skip=settings.on_error == "skip")
    sample = plan_sample(find_sources([str(text)]), settings)
    if on_cluster:
        counts: Counter[str] = count_on_cluster(sample, settings, errors, InOrder())
    else:
        counter = WordCounter()
        for document in sample_documents(sample, settings, errors):
            counter.add(document)
        counts = counter.counts
    return list(counts.items()), errors


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of three megabytes with some invalid bytes, which is read in chunks."""
    monkeypatch.setattr(sources, "CHUNK_BYTES", 1 << 18)
    rng = random.Random(1)
    lines = [" ".join(f"w{int(rng.expovariate(0.001))}" for _ in range(12)) for _ in range(45_000)]
    lines[20_000:20_001] = ["broken \udcff bytes"] * 3
    file = tmp_path / "a.txt"
    file.write_text("\n\n".join(lines), encoding="utf-8", errors="surrogateescape")
    return file


@pytest.mark.slow
@pytest.mark.parametrize("max_words", [2_000_000, 3_000], ids=["all words", "too many words"])
@pytest.mark.parametrize("max_text_mb", [1, 2, 256])
def test_counts_are_the_same(
    text: Path, max_words: int, max_text_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_counts, "_MAX_WORDS", max_words)
    settings = TokenizerSettings(layout="lines", on_error="skip", max_text_mb=max_text_mb, language="en")
    alone, cluster = (count(text, settings, on_cluster=on_cluster) for on_cluster in (False, True))
    assert cluster == alone
    assert len(alone[0]) > 1_000
    if max_text_mb == 256:
        assert alone[1].count


def test_an_error_stops_both_at_the_same_text(text: Path) -> None:
    outcomes = []
    for seed in range(6):  # the sample may end before the error or not
        settings = TokenizerSettings(layout="lines", max_text_mb=1, seed=seed, language="en")
        for on_cluster in (False, True):
            try:
                outcomes.append(str(count(text, settings, on_cluster=on_cluster)))
            except InputError as error:
                outcomes.append(str(error))
    assert outcomes[::2] == outcomes[1::2]
    assert len({outcome.startswith("([") for outcome in outcomes}) == 2


@pytest.mark.slow
def test_a_compressed_file_beside_a_plain_one_gives_the_same_part(tmp_path: Path, text: Path) -> None:
    import gzip

    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    settings = TokenizerSettings(layout="lines", on_error="skip", max_text_mb=4, language="en")
    alone, cluster = (count(tmp_path, settings, on_cluster=on_cluster) for on_cluster in (False, True))
    assert cluster == alone


@pytest.mark.slow
@pytest.mark.parametrize("on_cluster", [False, True])
def test_a_large_compressed_file_beside_small_ones_fills_the_sample(tmp_path: Path, on_cluster: bool) -> None:
    rng = random.Random(1)
    for number in range(20):
        (tmp_path / f"small-{number}.txt.gz").write_bytes(gzip.compress(b"small words here\n"))
    large = "\n\n".join(" ".join(f"w{rng.randrange(5000)}" for _ in range(12)) for _ in range(90_000))
    (tmp_path / "large.txt.gz").write_bytes(gzip.compress(large.encode(), 1))
    settings = TokenizerSettings(layout="lines", max_text_mb=4, language="en")
    counts = dict(count(tmp_path, settings, on_cluster=on_cluster)[0])
    size = sum(count * len(word) for word, count in counts.items())
    assert 0.7 * (4 << 20) < size <= 4 << 20  # spaces are not counted


@pytest.mark.parametrize("on_cluster", [False, True])
def test_a_file_that_compresses_well_is_read_whole_if_there_is_room(
    tmp_path: Path, on_cluster: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    repeated = "the same words again\n\n" * 100_000
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((repeated + "zebras yawn\n").encode()))
    (tmp_path / "b.txt").write_text("small words here\n\n" * 1000)
    for max_text_mb, is_whole in ((4, True), (1, False)):
        settings = TokenizerSettings(layout="lines", max_text_mb=max_text_mb, language="en")
        counts = dict(count(tmp_path, settings, on_cluster=on_cluster)[0])
        assert ("zebras" in counts) == is_whole
        printed = capsys.readouterr().err
        assert ("training on a random sample of at most 1 MB of the text" in printed) == (not is_whole)


def test_a_file_beside_a_compressed_one_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if it is no multiple of a chunk, so that its chunks are of different sizes."""
    monkeypatch.setattr(sources, "CHUNK_BYTES", 2 << 20)
    (tmp_path / "a.txt").write_text("small words here\n\n" * 150_000)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"zebras\n\n"))
    settings = TokenizerSettings(layout="lines", max_text_mb=16, language="en")
    assert dict(count(tmp_path, settings, on_cluster=False)[0])["small"] == 150_000
    assert "sample" not in capsys.readouterr().err
