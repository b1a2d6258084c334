"""Chooses the text that is held out as split dev: whole documents, or passages of long documents.

Where documents are few and long, whole ones cannot give the requested fraction. Then a passage
of each document is held out: the requested fraction of its tokens, but at least one sample.
Documents are added until the passages have the requested fraction of all tokens. A passage becomes
a document of dev; the text before it and the text after it become two documents of train. So no
sample of train contains a token of a passage, or text from both sides of it.

See docs/decisions/held-out-passages.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shards import EncodedDocuments, read_document_lengths, read_fingerprints
from albertine.errors import InputError
from albertine.randomness import Stream, integers, random_bits

_MIN_DOCUMENTS = 10  # with fewer held-out documents, results on dev depend on which ones they are
_MIN_PASSAGE_TOKENS = 512  # a sample of the default length
_LONG_DOCUMENT_TOKENS = 20 * _MIN_PASSAGE_TOKENS
_MAX_SHIFT = _MIN_PASSAGE_TOKENS // 2  # tokens by which a passage is shifted to begin or end at a sentence
_HIGH_BITS = 12  # of a hash of a document; 250 million documents are sorted in groups of 60,000


class SingleDocument(InputError):  # noqa: N818  # what was found
    """The text is a single document, and too short to hold out a passage of it."""


@dataclass(frozen=True)
class HeldOutText:
    """The documents and passages that are held out.

    Attributes:
        documents: whether each document is held out as a whole [documents].
        passages: start (from the start of the document) and length of each passage, in tokens, by index of
            its document.
    """

    documents: NDArray[np.bool_]
    passages: dict[int, tuple[int, int]] = field(default_factory=dict)

    def divide(self, documents: EncodedDocuments, first: int) -> tuple[EncodedDocuments, NDArray[np.bool_]]:
        """Return documents, divided where a passage begins or ends, and whether each is held out [documents].

        Args:
            documents: a batch of the documents.
            first: index of the first one.
        """
        stop = first + len(documents)
        passages = {index - first: self.passages[index] for index in self.passages if first <= index < stop}
        if not passages:
            return documents, self.documents[first:stop]
        return _divide_at_passages(documents, passages)


def choose_held_out(parts: Sequence[Path], kept: NDArray[np.bool_], settings: CorpusSettings) -> HeldOutText:
    """Return the text to hold out.

    Args:
        parts: files of encoded documents.
        kept: whether each document is in the corpus [documents].
        settings: the fraction to hold out, and the seed.
    """
    total = int(kept.sum())
    if not settings.held_out or not total:
        return HeldOutText(np.zeros_like(kept))
    if round(settings.held_out * total) < _MIN_DOCUMENTS:
        passages = _choose_passages(parts, kept, settings)
        if passages:
            return HeldOutText(np.zeros_like(kept), passages)
    if total == 1:
        raise SingleDocument(
            f"--held-out {settings.held_out:g}: the text is one document of fewer than "
            f"{_LONG_DOCUMENT_TOKENS:,} tokens, too short to divide; give more files or records, --layout "
            "lines if blank lines separate the documents of a .txt file, or --held-out 0"
        )
    return HeldOutText(_choose_documents(parts, kept, settings))


def _choose_documents(
    parts: Sequence[Path], kept: NDArray[np.bool_], settings: CorpusSettings
) -> NDArray[np.bool_]:
    """Return whether each document is held out [documents]; the smallest seeded hashes decide.

    The hashes are counted by their high bits, and read again. So only those are sorted whose high bits are
    those of the largest hash that is held out.
    """
    held_out, total = np.zeros_like(kept), int(kept.sum())
    count = min(total - 1, max(1, round(settings.held_out * total)))
    counts = np.zeros(1 << _HIGH_BITS, np.int64)
    for _, _, high_bits in _kept_keys(parts, kept, settings.seed):
        counts += np.bincount(high_bits, minlength=len(counts))
    largest = int(np.searchsorted(counts.cumsum(), count))
    remaining = count - int(counts[:largest].sum())
    unsorted_keys, unsorted_indices = [], []
    for keys, indices, high_bits in _kept_keys(parts, kept, settings.seed):
        held_out[indices[high_bits < largest]] = True
        unsorted_keys.append(keys[high_bits == largest])
        unsorted_indices.append(indices[high_bits == largest])
    keys, indices = np.concatenate(unsorted_keys), np.concatenate(unsorted_indices)
    order = np.argsort(keys, kind="stable")
    smallest, others = order[:remaining], order[remaining:]
    # Copies of a document have the same key: if some of them do not fit, none is held out, unless nothing
    # else would be.
    separate = smallest[~np.isin(keys[smallest], keys[others])]
    held_out[indices[separate if held_out.any() or len(separate) else smallest]] = True
    return held_out


def _kept_keys(
    parts: Sequence[Path], kept: NDArray[np.bool_], seed: int
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield seeded hashes, indices and high bits of the hashes of the kept documents of each batch."""
    base = 0
    for fingerprints in read_fingerprints(parts):
        kept_indices = np.flatnonzero(kept[base : base + len(fingerprints)])
        keys = _document_keys(fingerprints[kept_indices], seed)
        yield keys, kept_indices + base, (keys >> np.uint64(64 - _HIGH_BITS)).astype(np.int64)
        base += len(fingerprints)


def _choose_passages(
    parts: Sequence[Path], kept: NDArray[np.bool_], settings: CorpusSettings
) -> dict[int, tuple[int, int]]:
    """Return one passage for each chosen document; none if long documents are less than half of the text.

    The long documents with the smallest seeded hashes are chosen, at least two if there are two, because
    next-sentence prediction needs two.
    """
    all_lengths = np.concatenate(list(read_document_lengths(parts))) * kept
    total, documents = all_lengths.sum(), np.flatnonzero(all_lengths >= _LONG_DOCUMENT_TOKENS)
    if 2 * all_lengths[documents].sum() < total:
        return {}
    fingerprints = np.concatenate(list(read_fingerprints(parts)))[documents]
    order = np.argsort(_document_keys(fingerprints, settings.seed), kind="stable")
    documents, fingerprints = documents[order], fingerprints[order]
    lengths = all_lengths[documents]
    sizes = np.maximum(_MIN_PASSAGE_TOKENS, np.round(settings.held_out * lengths)).astype(np.int64)
    bits = random_bits(settings.seed, Stream.HELD_OUT_PASSAGES, fingerprints[:, 0], fingerprints[:, 1])
    starts = integers(bits, lengths - sizes - 2 * _MAX_SHIFT + 1)
    count = max(2, int(np.searchsorted(sizes.cumsum(), settings.held_out * total)) + 1)
    # The copies of a document are beside it, and give the same passage.
    while 0 < count < len(documents) and (fingerprints[count] == fingerprints[count - 1]).all():
        count += 1
    passages = zip(starts[:count].tolist(), sizes[:count].tolist(), strict=True)
    return dict(zip(documents[:count].tolist(), passages, strict=True))


def _document_keys(fingerprints: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return a seeded hash of each fingerprint [documents]."""
    return (
        random_bits(seed, fingerprints[:, 0], fingerprints[:, 1]) if len(fingerprints) else fingerprints[:, 0]
    )


def _divide_at_passages(
    documents: EncodedDocuments, passages: dict[int, tuple[int, int]]
) -> tuple[EncodedDocuments, NDArray[np.bool_]]:
    """Return documents with passages as documents of their own, and whether each is a passage [documents].

    Args:
        documents: the documents.
        passages: start and length of each passage, as in `HeldOutText`, by index in `documents`.
    """
    starts, stops, continuations = [], [], []
    for index, (offset, length) in passages.items():
        document_start = int(documents.document_offsets[index])
        starts.append(_division_point(documents, document_start + offset))
        stops.append(_division_point(documents, starts[-1] + length))
        if starts[-1] > document_start:
            continuations.append(stops[-1])
    offsets = np.union1d(documents.document_offsets, np.array([*starts, *stops], np.int64))
    divided_starts = offsets[:-1]
    word_starts = documents.word_starts.copy()
    word_starts[divided_starts] = True
    divided = EncodedDocuments(
        documents.tokens,
        word_starts,
        np.union1d(documents.sentence_starts, divided_starts),
        offsets,
        np.sort(np.array(continuations, np.int64)),
    )
    return divided, np.isin(divided_starts, starts)


def _division_point(documents: EncodedDocuments, position: int) -> int:
    """Return the first sentence start at or after a position, or the first word start if that is too far."""
    sentence = int(np.searchsorted(documents.sentence_starts, position))
    if sentence < len(documents.sentence_starts):
        sentence_start = int(documents.sentence_starts[sentence])
        if sentence_start < position + _MAX_SHIFT:
            return sentence_start
    distances = np.flatnonzero(documents.word_starts[position : position + _MAX_SHIFT])
    return position + (int(distances[0]) if len(distances) else 0)
