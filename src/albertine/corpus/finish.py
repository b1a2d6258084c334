"""The second half of building: parts become shards, without doubles, some documents set aside.

Which documents are doubles, and which are set aside as dev, is known when all of
them have been seen; so parts are read again here, in order, and written out as the
shards of the corpus. A shard that is there already is counted and not written.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from albertine import progress
from albertine.corpus.chance import ask
from albertine.corpus.manifest import ShardEntry, Split, checksum
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shards import Documents, from_batch, read_batches, to_batch, write_batches
from albertine.errors import InputError
from albertine.whole import new_file

SHARD_TOKENS = 1 << 24
_AT_ONCE = 1 << 22  # fingerprints compared in one pass


@dataclass
class Counted:
    """What was counted on the way."""

    counts: NDArray[np.int64]
    documents: dict[str, int] = field(default_factory=lambda: {"train": 0, "dev": 0})
    sentences: dict[str, int] = field(default_factory=lambda: {"train": 0, "dev": 0})
    tokens: dict[str, int] = field(default_factory=lambda: {"train": 0, "dev": 0})
    words: int = 0
    duplicates: int = 0

    def entropy(self) -> float:
        """Return the entropy of the pieces of train, in nats."""
        chances = self.counts[self.counts > 0] / max(1, self.counts.sum())
        return float((chances * -np.log(chances)).sum())


def write_shards(
    parts: Sequence[Path], folder: Path, vocab_size: int, settings: CorpusSettings
) -> tuple[list[ShardEntry], Counted]:
    """Write the shards of a corpus from its parts."""
    kept = first_of_each(parts) if not settings.keep_duplicates else _all_of(parts)
    aside = set_aside(parts, kept, settings)
    counted = Counted(np.zeros(vocab_size, np.int64), duplicates=int((~kept).sum()))
    entries: list[ShardEntry] = []
    for split, chosen in (("train", kept & ~aside), ("dev", aside)):
        chosen_parts = _chosen(parts, chosen)
        for number, documents in enumerate(_of_size(chosen_parts, SHARD_TOKENS)):
            file = folder / f"{split}-{number:05d}.arrow"
            if not file.exists():
                with new_file(file) as partial:
                    write_batches(partial, [to_batch(documents)])
            entries.append(_entry(file, split, documents, counted))  # type: ignore[arg-type]
    if not counted.documents["train"]:
        for part in parts:
            part.unlink()  # nothing in them is worth keeping
        raise InputError("no text: the sources hold no document with words in it")
    return sorted(entries, key=lambda one: one.file), counted


def _entry(file: Path, split: Split, documents: Documents, counted: Counted) -> ShardEntry:
    counted.documents[split] += len(documents)
    counted.sentences[split] += len(documents.sentences)
    counted.tokens[split] += len(documents.tokens)
    counted.words += int(documents.starts.sum())
    if split == "train":
        counted.counts += np.bincount(documents.tokens, minlength=len(counted.counts))
    sizes = (len(documents), len(documents.sentences), len(documents.tokens))
    return ShardEntry(file.name, split, *sizes, checksum(file))


def _fingerprints(parts: Sequence[Path]) -> Iterator[NDArray[np.uint64]]:
    """Yield the fingerprints of the documents, [D, 2], batch by batch."""
    for part in parts:
        for batch in read_batches(part):
            yield batch.column("fingerprint").values.to_numpy().reshape(-1, 2)


def _all_of(parts: Sequence[Path]) -> NDArray[np.bool_]:
    return np.ones(sum(map(len, _fingerprints(parts))), np.bool_)


def first_of_each(parts: Sequence[Path]) -> NDArray[np.bool_]:
    """Tell of each document whether it is the first with its text.

    Fingerprints are compared in as many passes as bound the memory, each over those with one remainder.
    """
    kept = _all_of(parts)
    passes = math.ceil(len(kept) / _AT_ONCE)
    for remainder in range(passes):
        places, found, base = [], [], 0
        for prints in _fingerprints(parts):
            mine = np.flatnonzero(prints[:, 0] % np.uint64(passes) == remainder)
            places.append(mine + base)
            found.append(prints[mine])
            base += len(prints)
        place, prints = np.concatenate(places), np.concatenate(found)
        # Sorted by text, and within that by place: all but the first of a run are doubles.
        order = np.lexsort((place, prints[:, 1], prints[:, 0]))
        double = (prints[order][1:] == prints[order][:-1]).all(axis=1)
        kept[place[order][1:][double]] = False
    return kept


def set_aside(parts: Sequence[Path], kept: NDArray[np.bool_], settings: CorpusSettings) -> NDArray[np.bool_]:
    """Choose the documents of dev: those whose texts, with the seed, come first in a shuffled order."""
    aside = np.zeros_like(kept)
    if not settings.held_out:
        return aside
    total = int(kept.sum())
    if total < 2:
        raise InputError(
            f"--held-out {settings.held_out:g}: whole documents are set aside, and the text is "
            f"{total} document{'' if total == 1 else 's'}; give more files, or none to hold out"
        )
    wanted = min(total - 1, max(1, round(settings.held_out * total)))
    keys, places, base = np.empty(0, np.uint64), np.empty(0, np.int64), 0
    for prints in _fingerprints(parts):
        mine = np.flatnonzero(kept[base : base + len(prints)])
        keys = np.concatenate([keys, _shuffled(prints[mine], settings.seed)])
        places = np.concatenate([places, mine + base])
        if len(keys) > wanted:
            least = np.lexsort((places, keys))[:wanted]
            keys, places = keys[least], places[least]
        base += len(prints)
    aside[places] = True
    return aside


def _shuffled(prints: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return a number for each fingerprint that is another one for each seed."""
    return ask(seed, prints[:, 0], prints[:, 1]) if len(prints) else prints[:, 0]


def _chosen(parts: Sequence[Path], chosen: NDArray[np.bool_]) -> Iterator[Documents]:
    """Yield the chosen documents, in order."""
    base = 0
    for part in progress.track(parts, "Writing shards", unit="parts"):
        for batch in read_batches(part):
            mine = chosen[base : base + batch.num_rows]
            base += batch.num_rows
            if mine.any():
                yield from_batch(batch).only(mine)


def _of_size(found: Iterator[Documents], tokens: int) -> Iterator[Documents]:
    """Yield documents in groups of about so many tokens, each of one at the least."""
    gathered: list[Documents] = []
    size = 0
    for documents in found:
        gathered.append(documents)
        size += len(documents.tokens)
        if size >= tokens:
            yield Documents.joined(gathered)
            gathered, size = [], 0
    if gathered:
        yield Documents.joined(gathered)
