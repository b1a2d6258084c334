"""What `transformers`, the peer of many benchmarks, needs to open a checkpoint of Albertine."""

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.interop.transformers_config import MODELING_FILE
from albertine.settings import ModelSettings


def check_transformers(command: str) -> None:
    """Raise `InputError` if the peer of a benchmark is not installed."""
    if find_spec("transformers") is None:
        raise InputError(f"{command}: transformers is not installed; run pip install transformers")


def peer_options(folder: Path, model: ModelSettings) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` for a checkpoint; some networks need the file beside it.

    Raise `InputError` if it would run code that this version of Albertine has not written.

    Args:
        folder: folder of the checkpoint.
        model: settings of its encoder.
    """
    if model.is_published_architecture:
        return {}
    file = folder / MODELING_FILE
    if not file.is_file() or file.read_bytes() != (files("albertine.interop") / MODELING_FILE).read_bytes():
        raise InputError(
            f"{file}: missing, or not of this version of Albertine, and transformers needs it for this "
            "network; write the checkpoint again with albertine convert"
        )
    return {"trust_remote_code": True}
