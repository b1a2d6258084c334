"""ALBERT, whole: from raw text to a served model."""

from albertine.errors import AlbertineError, InputError, WorkError

__version__ = "0.1.0"

__all__ = ["AlbertineError", "InputError", "WorkError", "__version__"]
