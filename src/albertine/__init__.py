"""ALBERT, whole: from raw text to a served model.

    model = albertine.load("checkpoint-folder")
    strip = albertine.Strip.from_padded(input_ids, attention_mask, token_type_ids)
    hidden = model.encoder(strip)
    output = model(strip)

What is named here is the public face. The network is imported at first use, so
that the command line, which asks only for errors and settings, starts at once.
"""

from typing import TYPE_CHECKING, Any

from albertine.errors import AlbertineError, InputError, WorkError
from albertine.version import __version__

if TYPE_CHECKING:
    from albertine.inference.fill_mask import fill_mask_pipeline
    from albertine.inference.pipeline import pipeline
    from albertine.interop.huggingface import save_folder as save
    from albertine.interop.load import load, load_tokenizer
    from albertine.model.model import Model
    from albertine.model.strip import Strip


_LAZY_EXPORTS = {
    "Model": ("albertine.model.model", "Model"),
    "Strip": ("albertine.model.strip", "Strip"),
    "load": ("albertine.interop.load", "load"),
    "guesser": ("albertine.inference.fill_mask", "fill_mask_pipeline"),
    "pipeline": ("albertine.inference.pipeline", "pipeline"),
    "load_tokenizer": ("albertine.interop.load", "load_tokenizer"),
    "save": ("albertine.interop.huggingface", "save_folder"),
}

__all__ = [
    "AlbertineError",
    "InputError",
    "Model",
    "Strip",
    "WorkError",
    "__version__",
    "fill_mask_pipeline",
    "load",
    "load_tokenizer",
    "pipeline",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import a part of the public face when it is first asked for."""
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module 'albertine' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LAZY_EXPORTS[name]
    return getattr(import_module(module), attribute)
