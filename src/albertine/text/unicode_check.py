"""Text that is no text: half of a character (a surrogate by itself), which JSON and shells let through."""

from albertine.errors import InputError
from albertine.settings.schema import display_text


def is_valid_unicode(text: str) -> bool:
    """Tell whether a text has no half of a character in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(text: object, name: str) -> None:
    """Refuse what is no text, or holds half of a character."""
    if not isinstance(text, str):
        raise InputError(f"{name}: must be text, not {type(text).__name__}")
    if not is_valid_unicode(text):
        raise InputError(f"{name}: half a character (a surrogate by itself) in {display_text(ascii(text))}")
