"""Finds duplicate documents by the fingerprints of their text, in linear time and bounded memory.

Duplicates have the same sentences; white space was normalized when the text was divided into sentences.

The fingerprints are distributed once over temporary files, by their remainder, so that equal ones
are in the same file and each file can be sorted in memory. The time is proportional to the number
of documents. The memory is one byte per document and one file of fingerprints.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.shards import read_fingerprints

_FINGERPRINTS_PER_FILE = 1 << 22
_MAX_FILES = 256  # open at the same time; above a billion documents, the files have more fingerprints


def all_documents(parts: Sequence[Path]) -> NDArray[np.bool_]:
    """Return True for each document of the parts [documents]."""
    return np.ones(sum(map(len, read_fingerprints(parts))), np.bool_)


def first_occurrences(parts: Sequence[Path]) -> NDArray[np.bool_]:
    """Return whether each document is the first one with its text [documents]."""
    kept = all_documents(parts)
    num_files = min(_MAX_FILES, 1 + len(kept) // _FINGERPRINTS_PER_FILE)
    folder = parts[0].parent
    try:
        with ExitStack() as stack:
            # The files have no names, so an interrupted build leaves none.
            files = [stack.enter_context(TemporaryFile(dir=folder)) for _ in range(num_files)]
            _distribute_fingerprints(parts, files)
            for file in files:
                kept[_later_occurrences(file)] = False
    except OSError as error:
        if error.filename is None:  # of a file without a name, such as on a full disk
            error.filename = str(folder)
        raise
    return kept


def _distribute_fingerprints(parts: Sequence[Path], files: Sequence[BinaryIO]) -> None:
    """Write fingerprint and index of each document to one of the files, as three uint64, in order."""
    base = 0
    for fingerprints in read_fingerprints(parts):
        indices = np.arange(base, base + len(fingerprints), dtype=np.uint64)
        base += len(fingerprints)
        file_numbers = (fingerprints[:, 0] % np.uint64(len(files))).astype(np.uint16)
        order = np.argsort(file_numbers, kind="stable")
        records = np.column_stack([fingerprints, indices])[order]
        ends = np.bincount(file_numbers, minlength=len(files)).cumsum()
        for file, file_records in zip(files, np.split(records, ends[:-1]), strict=True):
            file.write(file_records.tobytes())


def _later_occurrences(file: BinaryIO) -> NDArray[np.uint64]:
    """Return the indices of documents whose fingerprint an earlier document of the file has."""
    file.seek(0)
    records = np.frombuffer(file.read(), np.uint64).reshape(-1, 3)
    order = np.lexsort((records[:, 1], records[:, 0]))  # stable, so the first of equal ones stays first
    records = records[order]
    is_later = (records[1:, :2] == records[:-1, :2]).all(axis=1)
    indices: NDArray[np.uint64] = records[1:, 2][is_later]
    return indices
