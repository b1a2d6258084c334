"""Numbers are written with the unit that they need."""

import pytest

from albertine.study.anatomy_view import operations, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (999_950_000, "1 GB"),
        (23_600_000, "23.6 MB"),
        (10**18, "1,000,000 TB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert size(count) == text


def test_operations() -> None:
    assert operations(1.75e8) == "175 MFLOP"
    assert operations(6.17e8 * 3) == "1.85 GFLOP"
