"""Checks text for unpaired surrogates, which JSON and shells let through and UTF-8 cannot encode."""

from albertine.display import display_text
from albertine.errors import InputError


def is_valid_unicode(text: str) -> bool:
    """Return whether a text has no unpaired surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(text: object, name: str) -> None:
    """Raise an error if a value is not a string, or has an unpaired surrogate."""
    if not isinstance(text, str):
        raise InputError(f"{name}: must be text, not {type(text).__name__}")
    if not is_valid_unicode(text):
        raise InputError(f"{name}: an unpaired surrogate in {display_text(ascii(text))}; remove it")
