"""A shard: documents as Arrow rows in one file, mapped into memory and never read whole.

    tokens     list<uint16>   the ids of a document's pieces (uint32 for a large vocabulary)
    starts     list<bool>     which of them begin a word
    sentences  list<uint32>   where its sentences begin, counted from the shard's first piece

All documents of a shard lie in one record batch, so each column is one row of
numbers without gaps, and a place in the shard is an index into it. While a corpus
is being built its parts have a fourth column, the fingerprint of each document's
text, and several batches.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albertine.errors import InputError


@dataclass(frozen=True)
class Documents:
    """Some documents, end to end.

    Attributes:
        tokens: ids of all pieces.
        starts: whether a word begins with each.
        sentences: where each sentence begins in `tokens`.
        documents: where each document begins in `tokens`, and the end of the last one.
    """

    tokens: NDArray[Any]
    starts: NDArray[np.bool_]
    sentences: NDArray[np.int64]
    documents: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.documents) - 1

    def only(self, kept: NDArray[np.bool_]) -> "Documents":
        """Return some of the documents."""
        if kept.all():
            return self
        lengths = np.diff(self.documents)
        of_tokens = np.repeat(kept, lengths)
        moved = np.cumsum(np.where(of_tokens, 0, 1))  # how many pieces before each one are gone
        sentences = self.sentences[of_tokens[self.sentences]] if len(self.sentences) else self.sentences
        return Documents(
            self.tokens[of_tokens],
            self.starts[of_tokens],
            sentences - (moved[sentences] if len(sentences) else 0),
            np.concatenate([[0], np.cumsum(lengths[kept])]),
        )

    @classmethod
    def joined(cls, parts: Iterable["Documents"]) -> "Documents":
        """Put documents end to end."""
        listed = list(parts)
        bases = np.cumsum([0, *(len(part.tokens) for part in listed)])
        return cls(
            np.concatenate([part.tokens for part in listed]),
            np.concatenate([part.starts for part in listed]),
            np.concatenate([part.sentences + base for part, base in zip(listed, bases[:-1], strict=True)]),
            np.concatenate(
                [[0], *(part.documents[1:] + base for part, base in zip(listed, bases[:-1], strict=True))]
            ),
        )


def to_batch(documents: Documents, fingerprints: NDArray[np.uint64] | None = None) -> pa.RecordBatch:
    """Return documents as rows of Arrow."""
    ends = pa.array(documents.documents, pa.int32())
    first = pa.array(np.searchsorted(documents.sentences, documents.documents), pa.int32())
    columns = {
        "tokens": pa.ListArray.from_arrays(ends, pa.array(documents.tokens)),
        "starts": pa.ListArray.from_arrays(ends, pa.array(documents.starts)),
        "sentences": pa.ListArray.from_arrays(first, pa.array(documents.sentences, pa.uint32())),
    }
    if fingerprints is not None:
        columns["fingerprint"] = pa.FixedSizeListArray.from_arrays(pa.array(fingerprints.reshape(-1)), 2)
    return pa.RecordBatch.from_pydict(columns)


def from_batch(batch: pa.RecordBatch) -> Documents:
    """Return the rows of a batch, as they lie in memory, but for the bits of `starts`."""
    tokens = batch.column("tokens")
    return Documents(
        tokens.values.to_numpy(),
        batch.column("starts").values.to_numpy(zero_copy_only=False),
        batch.column("sentences").values.to_numpy().astype(np.int64),
        tokens.offsets.to_numpy().astype(np.int64),
    )


def write_batches(file: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a file of batches; there must be at least one."""
    with file.open("wb") as sink:  # Python's own file: its errors say what is wrong with the disk
        writer = None
        for batch in batches:
            writer = writer or pa.ipc.new_file(sink, batch.schema)
            writer.write_batch(batch)
        assert writer is not None, "no batch"
        writer.close()


def read_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file, one after another."""
    reader = _opened(file)
    return (reader.get_batch(index) for index in range(reader.num_record_batches))


def _opened(file: Path) -> Any:
    try:
        return pa.ipc.open_file(pa.memory_map(str(file)))
    except (OSError, pa.ArrowException) as error:
        raise _torn(file, error) from None


def _torn(file: Path, error: Exception) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(f"{file}: torn or no shard ({reason}); build the corpus again")


# What Arrow and numpy raise over columns that are missing, of another type or cut.
_DAMAGE = (AttributeError, LookupError, TypeError, ValueError, OSError, pa.ArrowException)


class Shard:
    """A shard's columns, mapped into memory.

    Attributes:
        tokens: ids of all pieces.
        sentences: where each sentence begins.
        documents: where each document begins, and the end of the last one.
    """

    def __init__(self, file: Path):
        reader = _opened(file)
        if reader.num_record_batches != 1:
            raise InputError(f"{file}: no shard of a finished corpus; build the corpus again")
        try:
            batch = reader.get_batch(0)
            tokens = batch.column("tokens")
            self.tokens: NDArray[Any] = tokens.values.to_numpy()
            self.documents: NDArray[np.int32] = tokens.offsets.to_numpy()
            self.sentences: NDArray[np.uint32] = batch.column("sentences").values.to_numpy()
            bits = batch.column("starts").values
            self._bits: NDArray[np.uint8] = np.frombuffer(bits.buffers()[1], np.uint8)
        except _DAMAGE as error:
            raise _torn(file, error) from None

    def starts(self, first: int, last: int) -> NDArray[np.bool_]:
        """Tell of the pieces between two places which begin a word."""
        bits = np.unpackbits(self._bits[first >> 3 : (last + 7) >> 3], bitorder="little")
        return bits[first & 7 : (first & 7) + last - first].view(np.bool_)
