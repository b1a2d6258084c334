"""Second phase of a corpus build: writes the documents of the parts into shards of train and dev.

Which documents are duplicates and which are held out is known only when all documents have been
encoded, so this phase reads the parts again, in order. A shard that exists is only counted if
its checksum is the one that was recorded when it was written.
See docs/decisions/corpus-in-two-phases.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from albertine import progress
from albertine.atomic import atomic_file
from albertine.checksums import file_checksum
from albertine.corpus.held_out import HeldOutText, choose_held_out
from albertine.corpus.manifest import CorpusSplit, ShardEntry
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shards import (
    EncodedDocuments,
    from_record_batch,
    read_fingerprints,
    read_record_batches,
    to_record_batch,
    write_record_batches,
)
from albertine.errors import InputError

SHARD_TOKENS = 1 << 24
_FINGERPRINTS_PER_PASS = 1 << 22  # bounds the memory of one pass


@dataclass
class CorpusCounts:
    """Counts over the shards of a corpus; a dict has one count per split.

    Attributes:
        token_counts: occurrences of each token in train [vocab_size].
        documents: number of documents.
        sentences: number of sentences.
        tokens: number of tokens.
        words: number of words in both splits.
        duplicates: documents dropped because an earlier one has the same text.
        passages: number of held-out passages; 0 if whole documents are held out.
    """

    token_counts: NDArray[np.int64]
    documents: dict[str, int] = field(default_factory=lambda: {"train": 0, "dev": 0})
    sentences: dict[str, int] = field(default_factory=lambda: {"train": 0, "dev": 0})
    tokens: dict[str, int] = field(default_factory=lambda: {"train": 0, "dev": 0})
    words: int = 0
    duplicates: int = 0
    passages: int = 0

    def unigram_entropy(self) -> float:
        """Return the entropy of the token frequencies of train, in nats."""
        probabilities = self.token_counts[self.token_counts > 0] / max(1, self.token_counts.sum())
        return float((probabilities * -np.log(probabilities)).sum())


def write_shards(
    parts: Sequence[Path], folder: Path, vocab_size: int, settings: CorpusSettings
) -> tuple[list[ShardEntry], CorpusCounts]:
    """Write the shards of a corpus from its parts; return their manifest entries and the counts."""
    kept = first_occurrences(parts) if not settings.keep_duplicates else _all_documents(parts)
    held_out = choose_held_out(parts, kept, settings)
    counts = CorpusCounts(
        np.zeros(vocab_size, np.int64), duplicates=int((~kept).sum()), passages=len(held_out.passages)
    )
    entries: list[ShardEntry] = []
    for split in get_args(CorpusSplit):
        split_documents = _split_documents(parts, split, kept, held_out)
        for number, documents in enumerate(_grouped_by_tokens(split_documents, SHARD_TOKENS)):
            file = folder / f"{split}-{number:05d}.arrow"
            shard_checksum = _write_shard(file, documents, parts[0].parent)
            entries.append(_add_shard(file, split, documents, counts, shard_checksum))
    if not counts.documents["train"]:
        for part in parts:
            part.unlink()  # without parts, the build folder is removed as well
        raise InputError(
            "no text: the sources hold no document with words; check the paths and --layout or --field"
        )
    return sorted(entries, key=lambda entry: entry.file), counts


def _write_shard(file: Path, documents: EncodedDocuments, work: Path) -> str:
    """Write a shard unless an undamaged one exists; return its checksum, which is recorded in `work`."""
    record = work / f"{file.name}.sha256"
    if file.is_file() and record.is_file():
        found = file_checksum(file)
        if found.encode() == record.read_bytes():
            return found
        progress.print_message(f"{file}: damaged; it is written again")
    with atomic_file(file) as partial:
        write_record_batches(partial, [to_record_batch(documents)])
        written = file_checksum(partial)
        with atomic_file(record) as partial_record:
            partial_record.write_text(written, encoding="utf-8")
    return written


def _add_shard(
    file: Path, split: CorpusSplit, documents: EncodedDocuments, counts: CorpusCounts, shard_checksum: str
) -> ShardEntry:
    """Add a shard to `counts`; return its manifest entry."""
    counts.documents[split] += len(documents)
    counts.sentences[split] += len(documents.sentence_starts)
    counts.tokens[split] += len(documents.tokens)
    counts.words += int(documents.word_starts.sum())
    if split == "train":
        counts.token_counts += np.bincount(documents.tokens, minlength=len(counts.token_counts))
    sizes = (len(documents), len(documents.sentence_starts), len(documents.tokens))
    return ShardEntry(file.name, split, *sizes, shard_checksum)


def _all_documents(parts: Sequence[Path]) -> NDArray[np.bool_]:
    return np.ones(sum(map(len, read_fingerprints(parts))), np.bool_)


def first_occurrences(parts: Sequence[Path]) -> NDArray[np.bool_]:
    """Return whether each document is the first one with its text [documents].

    Each pass compares only the fingerprints with one remainder, to bound the memory.
    """
    kept = _all_documents(parts)
    passes = math.ceil(len(kept) / _FINGERPRINTS_PER_PASS)
    for remainder in range(passes):
        selected_indices, selected, base = [], [], 0
        for batch in read_fingerprints(parts):
            in_pass = np.flatnonzero(batch[:, 0] % np.uint64(passes) == remainder)
            selected_indices.append(in_pass + base)
            selected.append(batch[in_pass])
            base += len(batch)
        indices, fingerprints = np.concatenate(selected_indices), np.concatenate(selected)
        # Sorted by fingerprint, then by index, so the first of equal fingerprints is the first document.
        order = np.lexsort((indices, fingerprints[:, 1], fingerprints[:, 0]))
        is_duplicate = (fingerprints[order][1:] == fingerprints[order][:-1]).all(axis=1)
        kept[indices[order][1:][is_duplicate]] = False
    return kept


def _split_documents(
    parts: Sequence[Path], split: CorpusSplit, kept: NDArray[np.bool_], held_out: HeldOutText
) -> Iterator[EncodedDocuments]:
    """Yield the documents of a split from each batch, in order."""
    base = 0
    for part in progress.track(parts, "Writing shards", unit="parts"):
        for batch in read_record_batches(part):
            first, base = base, base + batch.num_rows
            if split == "dev" and not held_out.has_any(first, base):
                continue
            documents = from_record_batch(batch)
            divided, is_held_out = held_out.divide(documents, first)
            divisions = np.diff(np.searchsorted(divided.document_offsets, documents.document_offsets))
            selected = np.repeat(kept[first:base], divisions) & (is_held_out == (split == "dev"))
            if selected.any():
                yield divided.select(selected)


def _grouped_by_tokens(batches: Iterator[EncodedDocuments], min_tokens: int) -> Iterator[EncodedDocuments]:
    """Yield successive batches, concatenated to at least `min_tokens` tokens; the last may have fewer."""
    group: list[EncodedDocuments] = []
    size = 0
    for documents in batches:
        group.append(documents)
        size += len(documents.tokens)
        if size >= min_tokens:
            yield EncodedDocuments.concatenate(group)
            group, size = [], 0
    if group:
        yield EncodedDocuments.concatenate(group)
