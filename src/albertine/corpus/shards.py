"""Shards: memory-mapped Arrow files with one row per document.

    tokens     list<uint16>   token ids of a document (uint32 for a vocabulary of more than 65,536)
    starts     list<bool>     whether each token begins a word
    sentences  list<uint32>   position in the shard of the first token of each sentence
    continues  bool           whether a document continues the text of the one before

The last column exists only if a document continues another one: a text from whose middle a
passage is held out gives two documents of train.
All documents of a shard are in one record batch, so each column is one contiguous array.
`tokens` and `starts` are indexed by the token's position in the shard. The parts of an
unfinished corpus have several record batches and a fourth column, `fingerprint`: a hash of
each document's text, as two uint64.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albertine.errors import InputError
from albertine.input_files import check_regular_file


@dataclass(frozen=True)
class EncodedDocuments:
    """Encoded documents, concatenated.

    Attributes:
        tokens: token ids [tokens].
        word_starts: whether each token begins a word [tokens].
        sentence_starts: index in `tokens` where each sentence begins [sentences].
        document_offsets: index in `tokens` where each document begins, and the end [documents + 1].
        continuation_starts: index in `tokens` where each document begins that continues the text of the
            one before [continuations].
    """

    tokens: NDArray[Any]
    word_starts: NDArray[np.bool_]
    sentence_starts: NDArray[np.int64]
    document_offsets: NDArray[np.int64]
    continuation_starts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.document_offsets) - 1

    def select(self, kept: NDArray[np.bool_]) -> "EncodedDocuments":
        """Return the documents where `kept` [documents] is true."""
        if kept.all():
            return self
        lengths = np.diff(self.document_offsets)
        kept_tokens = np.repeat(kept, lengths)
        removed_before = np.cumsum(np.where(kept_tokens, 0, 1))  # number of removed tokens before each token

        def renumbered(starts: NDArray[np.int64]) -> NDArray[np.int64]:
            """Return the token indices of kept tokens, as indices into the kept tokens."""
            starts = starts[kept_tokens[starts]]
            shifted: NDArray[np.int64] = starts - removed_before[starts]
            return shifted

        return EncodedDocuments(
            self.tokens[kept_tokens],
            self.word_starts[kept_tokens],
            renumbered(self.sentence_starts),
            np.concatenate([[0], np.cumsum(lengths[kept])]),
            renumbered(self.continuation_starts),
        )

    @classmethod
    def concatenate(cls, batches: Iterable["EncodedDocuments"]) -> "EncodedDocuments":
        """Return the documents of all batches."""
        batches = list(batches)
        bases = np.cumsum([0, *(len(batch.tokens) for batch in batches)])[:-1]
        based = list(zip(batches, bases, strict=True))
        return cls(
            np.concatenate([batch.tokens for batch in batches]),
            np.concatenate([batch.word_starts for batch in batches]),
            np.concatenate([batch.sentence_starts + base for batch, base in based]),
            np.concatenate([[0], *(batch.document_offsets[1:] + base for batch, base in based)]),
            np.concatenate([batch.continuation_starts + base for batch, base in based]),
        )


def to_record_batch(
    documents: EncodedDocuments, fingerprints: NDArray[np.uint64] | None = None
) -> pa.RecordBatch:
    """Return documents as an Arrow record batch, for a part with `fingerprints` [documents, 2]."""
    document_offsets = pa.array(documents.document_offsets, pa.int32())
    sentence_offsets = pa.array(
        np.searchsorted(documents.sentence_starts, documents.document_offsets), pa.int32()
    )
    columns = {
        "tokens": pa.ListArray.from_arrays(document_offsets, pa.array(documents.tokens)),
        "starts": pa.ListArray.from_arrays(document_offsets, pa.array(documents.word_starts)),
        "sentences": pa.ListArray.from_arrays(
            sentence_offsets, pa.array(documents.sentence_starts, pa.uint32())
        ),
    }
    if len(documents.continuation_starts):
        continues = np.isin(documents.document_offsets[:-1], documents.continuation_starts)
        columns["continues"] = pa.array(continues)
    if fingerprints is not None:
        columns["fingerprint"] = pa.FixedSizeListArray.from_arrays(pa.array(fingerprints.reshape(-1)), 2)
    return pa.RecordBatch.from_pydict(columns)


def from_record_batch(batch: pa.RecordBatch) -> EncodedDocuments:
    """Return the documents of a record batch, without a copy of their tokens."""
    tokens = batch.column("tokens")
    return EncodedDocuments(
        tokens.values.to_numpy(),
        batch.column("starts").values.to_numpy(zero_copy_only=False),
        batch.column("sentences").values.to_numpy().astype(np.int64),
        tokens.offsets.to_numpy().astype(np.int64),
    )


def write_record_batches(file: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Write record batches, at least one, as an Arrow file."""
    with file.open("wb") as sink:  # a Python file, because its errors name the cause, such as a full disk
        writer = None
        for batch in batches:
            writer = writer or pa.ipc.new_file(sink, batch.schema)
            writer.write_batch(batch)
        assert writer is not None, "no batch"
        writer.close()


def read_record_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Return an iterator over the record batches of a file."""
    reader = _open_arrow(file)
    return (reader.get_batch(index) for index in range(reader.num_record_batches))


def read_fingerprints(parts: Iterable[Path]) -> Iterator[NDArray[np.uint64]]:
    """Yield the fingerprints of documents, one array for each record batch [documents, 2]."""
    for part in parts:
        for batch in read_record_batches(part):
            yield batch.column("fingerprint").values.to_numpy().reshape(-1, 2)


def read_document_lengths(parts: Iterable[Path]) -> Iterator[NDArray[np.int64]]:
    """Yield the lengths of documents in tokens, one array for each record batch [documents]."""
    for part in parts:
        for batch in read_record_batches(part):
            yield np.diff(batch.column("tokens").offsets.to_numpy()).astype(np.int64)


def _open_arrow(file: Path) -> Any:
    try:
        check_regular_file(file)
        return pa.ipc.open_file(pa.memory_map(str(file)))
    except (OSError, pa.ArrowException) as error:
        raise _corrupt_shard(file, error) from None


def _corrupt_shard(file: Path, error: Exception) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(f"{file}: damaged, or not a shard ({reason}); build the corpus again")


# What Arrow and numpy raise for columns that are missing, truncated or of another type.
_CORRUPTION_ERRORS = (AttributeError, LookupError, TypeError, ValueError, OSError, pa.ArrowException)


class Shard:
    """The memory-mapped columns of a shard.

    Attributes:
        tokens: token ids [tokens].
        sentence_starts: index in `tokens` where each sentence begins [sentences].
        document_offsets: index in `tokens` where each document begins, and the end [documents + 1].
    """

    def __init__(self, file: Path):
        reader = _open_arrow(file)
        if reader.num_record_batches != 1:
            raise InputError(f"{file}: not a shard of a finished corpus; build the corpus again")
        try:
            batch = reader.get_batch(0)
            tokens = batch.column("tokens")
            self.tokens: NDArray[Any] = tokens.values.to_numpy()
            self.document_offsets: NDArray[np.int32] = tokens.offsets.to_numpy()
            self.sentence_starts: NDArray[np.uint32] = batch.column("sentences").values.to_numpy()
            continues = batch.column("continues") if "continues" in batch.schema.names else None
            self._continues = None if continues is None else continues.to_numpy(zero_copy_only=False)
            bits = batch.column("starts").values
            self._word_start_bits: NDArray[np.uint8] = np.frombuffer(bits.buffers()[1], np.uint8)
            ends = self.document_offsets[[0, -1]].tolist()
            if ends != [0, len(self.tokens)] or (np.diff(self.document_offsets) < 0).any():
                raise ValueError("its documents are not its tokens")
            if len(bits) != len(self.tokens) or 8 * len(self._word_start_bits) < len(bits):
                raise ValueError("its columns have different lengths")
        except _CORRUPTION_ERRORS as error:
            raise _corrupt_shard(file, error) from None

    @cached_property
    def text_indices(self) -> NDArray[np.int64]:
        """Index of the text of each document; two documents of one text share it [documents]."""
        documents = np.arange(len(self.document_offsets) - 1)
        return documents if self._continues is None else documents - np.cumsum(self._continues)

    @property
    def num_texts(self) -> int:
        """Number of texts; a text can be divided into two documents."""
        continuations = 0 if self._continues is None else int(self._continues.sum())
        return len(self.document_offsets) - 1 - continuations

    def document_index(self, position: int) -> int:
        """Return the index of the document of a token."""
        dtype = self.document_offsets.dtype.type  # numpy would convert the whole column for another type
        return int(np.searchsorted(self.document_offsets, dtype(position), side="right")) - 1

    def text_index(self, position: int) -> int:
        """Return the index of the text of a token."""
        document = self.document_index(position)
        return document if self._continues is None else int(self.text_indices[document])

    def word_starts(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return whether each token from `start` to `stop` (exclusive) begins a word [stop - start]."""
        bits = np.unpackbits(self._word_start_bits[start >> 3 : (stop + 7) >> 3], bitorder="little")
        return bits[start & 7 : (start & 7) + stop - start].view(np.bool_)
