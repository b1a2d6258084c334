"""Text that is no text: half of a character (a surrogate by itself), which JSON and shells let through."""

from albertine.errors import InputError
from albertine.settings.schema import shortened


def is_whole(text: str) -> bool:
    """Tell whether a text has no half of a character in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_broken(text: object, name: str) -> None:
    """Refuse what is no text, or holds half of a character."""
    if not isinstance(text, str):
        raise InputError(f"{name}: must be text, not {type(text).__name__}")
    if not is_whole(text):
        raise InputError(f"{name}: half a character (a surrogate by itself) in {shortened(ascii(text))}")
