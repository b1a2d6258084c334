"""Recognizes characters of writing systems without spaces between words, such as Chinese and Thai.

In these, a line break does not separate words, and each token counts as a word.
"""

from bisect import bisect_right

# Thai to Myanmar; Khmer; East Asian punctuation, kana; Han, and its later planes; wide forms.
_RANGES = (
    (0x0E00, 0x1100),
    (0x1780, 0x1800),
    (0x3000, 0x3100),
    (0x31F0, 0x3200),
    (0x3400, 0xA000),
    (0xF900, 0xFB00),
    (0xFF00, 0xFFA0),
    (0x20000, 0x40000),
)
_STARTS = [start for start, _ in _RANGES]


def is_spaceless(character: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    if not character or character < "\u0e00":
        return False
    code = ord(character)
    return code < _RANGES[bisect_right(_STARTS, code) - 1][1]
