"""Writes safetensors files with the usual permissions and errors.

The library `safetensors` creates files that only their owner can read, and reports a full
disk as a `SafetensorError` that has the system's error number only in its text.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor


def write_tensors(tensors: Mapping[str, Tensor], file: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors by name; the file mode follows the umask, and I/O errors are `OSError`."""
    file.touch()
    mode = file.stat().st_mode
    try:
        save_file(dict(tensors), file, metadata=metadata)
    except SafetensorError as error:
        errno_match = re.search(r"os error (\d+)", str(error))
        if errno_match is None:
            raise
        raise OSError(int(errno_match[1]), os.strerror(int(errno_match[1])), str(file)) from None
    file.chmod(mode)
