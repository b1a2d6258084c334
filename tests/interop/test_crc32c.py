"""Tests of the checksum against published values and a loop over bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albertine.interop.crc32c import crc32c, masked_crc32c


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_published_values(content: bytes, expected: int) -> None:
    assert crc32c(content) == expected


def reference_crc32c(content: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in content:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.slow
@given(st.binary(max_size=20), st.sampled_from([0, 1, 4095, 4096, 4097, 9000]))
def test_any_length_matches_reference(data: bytes, length: int) -> None:
    content = ((data or b"\x07") * length)[:length] + data
    assert crc32c(content) == reference_crc32c(content)


def test_masked_checksum() -> None:
    checksum = crc32c(b"foo")
    assert masked_crc32c(b"foo") == (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) % 2**32
