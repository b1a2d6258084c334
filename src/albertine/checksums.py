"""SHA-256 checksums of files, JSON values and weights, in hexadecimal; they detect damage and changes."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albertine.input_files import check_regular_file

if TYPE_CHECKING:  # only commands that have weights should wait for torch
    import torch


def file_checksum(file: Path) -> str:
    """Return the checksum of the content of a regular file."""
    check_regular_file(file)
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def json_checksum(value: Any) -> str:
    """Return the checksum of a JSON value, which does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def weights_checksum(module: "torch.nn.Module") -> str:
    """Return the checksum of the names and values of all parameters of a module."""
    digest = hashlib.sha256()
    for name, parameter in sorted(module.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
