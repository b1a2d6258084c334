"""Packs the sequences of a strip into rows of equal length, for engines that only know such rows.

A row is about as long as the longest sequence, because attention takes more time in longer rows.
Short sequences share a row, so that there is little padding; see `model/padded.py` for the mask.

A head that reads parts of a sequence, such as passage, question and option, has one sequence in each row.
There, `token_type_ids` also has the part of a token: its segment plus twice the number of its part.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albertine.model.strip import Strip

_MANY_TOKENS = 512  # two thirds of what callers fill a strip with
NUM_TASK_SEGMENTS = 2  # no input of a task has more, even if the model does


@dataclass(frozen=True)
class PackedRows:
    """A strip as rows.

    Attributes:
        inputs: input_ids, attention_mask and token_type_ids by name, each [rows, length].
        token_indices: index in the flattened rows of each token of the strip, [tokens].
        first_indices: index in the flattened rows of the first token of each sequence, [sequences].
    """

    inputs: dict[str, NDArray[np.int64]]
    token_indices: Tensor
    first_indices: Tensor


def pack_rows(strip: Strip, *, reads_parts: bool = False) -> PackedRows:
    """Return a strip as rows; its sequences must not be empty.

    Args:
        strip: the strip.
        reads_parts: whether the rows are for a head that reads the parts of the strip.
    """
    lengths = strip.lengths
    row_of, start_of, number_of = _own_rows(lengths) if reads_parts else _assign_rows(lengths)
    row_length = _row_length(lengths)
    firsts = np.array(row_of, np.int64) * row_length + np.array(start_of, np.int64)
    indices = np.repeat(firsts, lengths) + strip.positions.numpy()
    shape = (max(row_of, default=-1) + 1, row_length)

    def rows(values: NDArray[np.int64]) -> NDArray[np.int64]:
        flat = np.zeros(shape, np.int64)
        flat.reshape(-1)[indices] = values
        return flat

    inputs = {
        "input_ids": rows(strip.tokens.numpy()),
        "attention_mask": rows(np.repeat(np.array(number_of, np.int64), lengths)),
        "token_type_ids": rows(token_types(strip, reads_parts=reads_parts).numpy()),
    }
    return PackedRows(inputs, torch.from_numpy(indices), torch.from_numpy(firsts))


def token_types(strip: Strip, *, reads_parts: bool) -> Tensor:
    """Return the input `token_type_ids` of each token, [tokens]."""
    return strip.segments + NUM_TASK_SEGMENTS * strip.part_ids if reads_parts else strip.segments


def split_token_types(token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the segment and the part of each token, where both are in `token_type_ids`."""
    return token_type_ids % NUM_TASK_SEGMENTS, token_type_ids // NUM_TASK_SEGMENTS


def _own_rows(lengths: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return row, start and number of sequences that share no row; see `_assign_rows`."""
    return list(range(len(lengths))), [0] * len(lengths), [1] * len(lengths)


def _row_length(lengths: list[int]) -> int:
    """Return the length of the rows for sequences of these lengths.

    An engine keeps memory for each shape of its input that it has seen, so there are few different lengths.
    Many sequences of about one length, which no other shares a row with, get four times as many: there, all
    that is rounded up is padding, and their number of rows follows from their length.
    """
    longest = max(lengths, default=0)
    step = 4 if longest <= 32 else 8 if longest <= 64 else 16 if longest <= 128 else 32
    if sum(lengths) >= _MANY_TOKENS and 2 * min(lengths) > longest:
        step //= 4
    return -(-longest // step) * step


def _assign_rows(lengths: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return the row of each sequence, its start there, and its number there, counted from 1.

    The longest sequences are placed first, each into the first row with enough room.
    """
    capacity = _row_length(lengths)
    row_of, start_of, number_of = ([0] * len(lengths) for _ in range(3))
    filled: list[int] = []  # tokens of each row
    counts: list[int] = []  # sequences of each row
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        length = lengths[index]
        row = next((row for row, tokens in enumerate(filled) if tokens + length <= capacity), len(filled))
        if row == len(filled):
            filled.append(0)
            counts.append(0)
        row_of[index], start_of[index], number_of[index] = row, filled[row], counts[row] + 1
        filled[row] += length
        counts[row] += 1
    return row_of, start_of, number_of
