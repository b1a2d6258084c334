"""Tests of the second phase of a build: duplicates, the held-out documents and the shards, from parts."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from albertine.corpus import duplicates, held_out, shard_writer
from albertine.corpus.duplicates import first_occurrences
from albertine.corpus.held_out import choose_held_out
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shard_writer import write_shards
from albertine.corpus.shards import (
    EncodedDocuments,
    Shard,
    read_fingerprints,
    read_record_batches,
    to_record_batch,
    write_record_batches,
)

VOCAB_SIZE = 50
SETTINGS = CorpusSettings(held_out=0.1, seed=3)


def made_up_batch(rng: np.random.Generator, lengths: Sequence[int]) -> EncodedDocuments:
    """Return documents of random tokens, with a sentence every five tokens and a word every two."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    sentence_starts = np.concatenate([np.arange(a, b, 5) for a, b in pairwise(offsets)])
    word_starts = np.arange(offsets[-1]) % 2 == 0
    word_starts[sentence_starts] = True
    tokens = rng.integers(5, VOCAB_SIZE, offsets[-1]).astype(np.uint16)
    return EncodedDocuments(tokens, word_starts, sentence_starts, offsets)


def write_parts(folder: Path, max_length: int = 40) -> list[Path]:
    """Write five parts of three batches; every fourth document, or so, is a duplicate."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    known = rng.integers(0, 1 << 64, (300, 2), np.uint64)
    parts = [folder / f"part-{number:06d}.arrow" for number in range(5)]
    for part in parts:
        batches = []
        for size in (30, 1, 40):
            documents = made_up_batch(rng, rng.integers(1, max_length, size).tolist())
            batches.append(to_record_batch(documents, known[rng.integers(0, len(known), size)]))
        write_record_batches(part, batches)
    return parts


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    return write_parts(tmp_path / "parts")


def expected_first_occurrences(fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
    kept = np.zeros(len(fingerprints), np.bool_)
    kept[np.unique(fingerprints, axis=0, return_index=True)[1]] = True
    return kept


@pytest.mark.parametrize(("per_file", "max_files"), [(1 << 22, 256), (7, 256), (1, 16), (1, 1)])
def test_first_occurrences_for_any_number_of_files(
    parts: list[Path], monkeypatch: pytest.MonkeyPatch, per_file: int, max_files: int
) -> None:
    monkeypatch.setattr(duplicates, "_FINGERPRINTS_PER_FILE", per_file)
    monkeypatch.setattr(duplicates, "_MAX_FILES", max_files)
    kept = first_occurrences(parts)
    assert 100 < kept.sum() < len(kept) == 355
    assert np.array_equal(kept, expected_first_occurrences(np.concatenate(list(read_fingerprints(parts)))))
    assert sorted(parts[0].parent.iterdir()) == parts  # no temporary file is left


@pytest.mark.parametrize("per_file", [1 << 22, 3])
def test_fingerprints_are_read_twice_for_any_number_of_files(
    parts: list[Path], monkeypatch: pytest.MonkeyPatch, per_file: int
) -> None:
    scans = []

    def counted(parts: Sequence[Path]) -> Iterator[NDArray[np.uint64]]:
        scans.append(1)
        return read_fingerprints(parts)

    monkeypatch.setattr(duplicates, "_FINGERPRINTS_PER_FILE", per_file)
    monkeypatch.setattr(duplicates, "read_fingerprints", counted)
    first_occurrences(parts)
    assert len(scans) == 2


@pytest.mark.parametrize("high_bits", [1, 4, 12])
@pytest.mark.parametrize("fraction", [0.03, 0.1, 0.5])
@pytest.mark.parametrize("keep_duplicates", [True, False])
def test_documents_with_the_smallest_keys_are_held_out(
    parts: list[Path], monkeypatch: pytest.MonkeyPatch, high_bits: int, fraction: float, keep_duplicates: bool
) -> None:
    monkeypatch.setattr(held_out, "_HIGH_BITS", high_bits)
    settings = replace(SETTINGS, held_out=fraction)
    kept = duplicates.all_documents(parts) if keep_duplicates else first_occurrences(parts)
    fingerprints = np.concatenate(list(read_fingerprints(parts)))
    keys = held_out._document_keys(fingerprints, settings.seed)
    indices = np.flatnonzero(kept)
    order = indices[np.lexsort((indices, keys[indices]))]
    smallest, others = np.split(order, [round(fraction * len(indices))])
    uncut = smallest[~np.isin(keys[smallest], keys[others])]  # copies of a document stay together
    expected = np.isin(np.arange(len(kept)), uncut)
    assert expected.any()
    assert np.array_equal(choose_held_out(parts, kept, settings).documents, expected)


def test_parts_are_read_once_for_both_splits(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def recorded(part: Path) -> Iterator[Any]:
        opened.append(part)
        return read_record_batches(part)

    monkeypatch.setattr(shard_writer, "read_record_batches", recorded)
    entries, _ = write_shards(parts, tmp_path, VOCAB_SIZE, SETTINGS)
    assert {entry.split for entry in entries} == {"train", "dev"}
    assert opened == parts


def contents_checksum(folder: Path) -> str:
    """Return a checksum of the names and columns of all shards, whatever the bytes of an Arrow file."""
    found = hashlib.sha256()
    for file in sorted(folder.glob("*.arrow")):
        shard = Shard(file)
        found.update(file.name.encode())
        for column in (shard.tokens, shard.word_starts(0, len(shard.tokens)), shard.sentence_starts):
            found.update(column.tobytes())
        found.update(shard.document_offsets.tobytes() + shard.text_indices.tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize(
    ("max_length", "settings", "checksum"),
    [
        (40, CorpusSettings(), "bef1a4ff8f901e5b"),
        (40, SETTINGS, "c18a2c89239bc9e8"),
        (40, replace(SETTINGS, held_out=0.5), "819d9094e8686879"),
        (40, replace(SETTINGS, keep_duplicates=True), "02ee96dee81e0a14"),
        (15_000, replace(SETTINGS, held_out=0.02), "31982946787d566c"),  # passages are held out
    ],
)
def test_shards_have_the_recorded_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_length: int, settings: CorpusSettings, checksum: str
) -> None:
    parts = write_parts(tmp_path / "parts", max_length)
    monkeypatch.setattr(shard_writer, "SHARD_TOKENS", 30 * max_length)
    entries, counts = write_shards(parts, tmp_path, VOCAB_SIZE, settings)
    assert bool(counts.passages) == (max_length > 40)
    for split in ("train", "dev"):
        names = [entry.file for entry in entries if entry.split == split]
        assert names == [f"{split}-{number:05d}.arrow" for number in range(len(names))]
    assert contents_checksum(tmp_path) == checksum
