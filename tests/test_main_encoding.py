"""Results on standard output are UTF-8, whatever the locale."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import io, sys
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="latin-1")
from albertine.__main__ import _write_utf_8
_write_utf_8(sys.stdout)
print(sys.argv[1])
"""


@pytest.mark.parametrize(("chosen", "encoding"), [(None, "utf-8"), ("latin-1", "latin-1")])
def test_results_are_utf_8_unless_another_encoding_is_chosen(chosen: str | None, encoding: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    environment |= {"PYTHONIOENCODING": chosen} if chosen else {}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "é"], env=environment, capture_output=True, check=True
    )
    assert done.stdout.decode(encoding) == "é\n"
