"""Second phase of a corpus build: writes the documents of the parts into shards of train and dev.

Which documents are duplicates and which are held out is known only when all documents have been
encoded, so this phase reads the parts again, in order. A shard that exists is only counted if
its checksum is the one that was recorded when it was written.
See docs/decisions/corpus-in-two-phases.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from albertine import progress
from albertine.atomic import atomic_file
from albertine.checksums import file_checksum
from albertine.corpus.duplicates import all_documents, first_occurrences
from albertine.corpus.held_out import HeldOutText, choose_held_out
from albertine.corpus.manifest import CorpusSplit, ShardEntry
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shards import (
    EncodedDocuments,
    from_record_batch,
    read_record_batches,
    to_record_batch,
    write_record_batches,
)
from albertine.errors import InputError

SHARD_TOKENS = 1 << 24


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
    kept = all_documents(parts) if settings.keep_duplicates else first_occurrences(parts)
    held_out = choose_held_out(parts, kept, settings)
    counts = CorpusCounts(
        np.zeros(vocab_size, np.int64), duplicates=int((~kept).sum()), passages=len(held_out.passages)
    )
    entries: list[ShardEntry] = []
    numbers = Counter[CorpusSplit]()
    for split, documents in _grouped_by_tokens(_documents_by_split(parts, kept, held_out), SHARD_TOKENS):
        file = folder / f"{split}-{numbers[split]:05d}.arrow"
        numbers[split] += 1
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


def _documents_by_split(
    parts: Sequence[Path], kept: NDArray[np.bool_], held_out: HeldOutText
) -> Iterator[tuple[CorpusSplit, EncodedDocuments]]:
    """Yield the documents of each batch, in order, for each split that has any of them."""
    base = 0
    for part in progress.track(parts, "Writing shards", unit="parts"):
        for batch in read_record_batches(part):
            first, base = base, base + batch.num_rows
            documents = from_record_batch(batch)
            divided, is_held_out = held_out.divide(documents, first)
            divisions = np.diff(np.searchsorted(divided.document_offsets, documents.document_offsets))
            is_kept = np.repeat(kept[first:base], divisions)
            for split in get_args(CorpusSplit):
                selected = is_kept & (is_held_out == (split == "dev"))
                if selected.any():
                    yield split, divided.select(selected)


def _grouped_by_tokens(
    batches: Iterator[tuple[CorpusSplit, EncodedDocuments]], min_tokens: int
) -> Iterator[tuple[CorpusSplit, EncodedDocuments]]:
    """Yield successive batches of a split, concatenated to at least `min_tokens` tokens.

    The last ones of each split may have fewer. At most one such group of each split is in memory.
    """
    groups: dict[CorpusSplit, list[EncodedDocuments]] = defaultdict(list)
    sizes = Counter[CorpusSplit]()
    for split, documents in batches:
        groups[split].append(documents)
        sizes[split] += len(documents.tokens)
        if sizes[split] >= min_tokens:
            del sizes[split]
            yield split, EncodedDocuments.concatenate(groups.pop(split))
    for split, group in groups.items():
        yield split, EncodedDocuments.concatenate(group)
