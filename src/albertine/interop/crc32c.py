"""CRC-32C, the checksum in TensorFlow checkpoints, vectorized with numpy.

A loop over bytes in Python is too slow for a checkpoint of 100 MB. The checksum is
linear: the state after A followed by B is the state after A, advanced over as many zero
bytes as B has, XOR the state after B alone, computed from state zero. So the content is
split into rows of equal length, the states of all rows are computed at once, one column
of bytes at a time, and combined in order.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

UInt32Array = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78
_ROW_BYTES = 4096
_MASK_DELTA = 0xA282EAD8


def masked_crc32c(content: bytes) -> int:
    """Return the checksum as TensorFlow stores it: rotated by 15 bits, plus a constant."""
    value = crc32c(content)
    return (((value >> 15) | (value << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """Return the CRC-32C of `content`."""
    remainder = len(content) % _ROW_BYTES
    table = _table().tolist()
    state = 0xFFFFFFFF
    for byte in content[:remainder]:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    zero_row_tables = [part.tolist() for part in _zero_row_tables()]
    for row in _row_states(
        np.frombuffer(content, np.uint8, offset=remainder).reshape(-1, _ROW_BYTES)
    ).tolist():
        advanced = (
            zero_row_tables[0][state & 0xFF]
            ^ zero_row_tables[1][state >> 8 & 0xFF]
            ^ zero_row_tables[2][state >> 16 & 0xFF]
            ^ zero_row_tables[3][state >> 24]
        )
        state = advanced ^ row
    return state ^ 0xFFFFFFFF


def _row_states(rows: NDArray[np.uint8]) -> UInt32Array:
    """Return the state after each row, from state zero, `[rows]`."""
    table = _table()
    states = np.zeros(len(rows), np.uint32)
    for column in np.ascontiguousarray(rows.T):
        states = table[(states ^ column) & np.uint32(0xFF)] ^ (states >> np.uint32(8))
    return states


@cache
def _table() -> UInt32Array:
    """Return the lookup table of the checksum, `[256]`."""
    states = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        states = (states >> np.uint32(1)) ^ np.where(
            states & np.uint32(1), np.uint32(_POLYNOMIAL), np.uint32(0)
        )
    return states


@cache
def _zero_row_tables() -> UInt32Array:
    """Return the state after a row of zeros, by byte of the state and value of that byte, `[4, 256]`."""
    states = np.uint32(1) << np.arange(32, dtype=np.uint32)
    table = _table()
    for _ in range(_ROW_BYTES):
        states = table[states & np.uint32(0xFF)] ^ (states >> np.uint32(8))
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    pushed = np.where(bits[None], states.reshape(4, 1, 8), np.uint32(0))
    tables: UInt32Array = np.bitwise_xor.reduce(pushed, axis=2).astype(np.uint32)
    return tables
