"""Recognizes characters of writing systems without spaces between words, such as Chinese and Thai.

In these, a line break does not separate words, and each token counts as a word. Georgian, Hangul
and Yi are adjacent to such scripts in Unicode, but are written with spaces.
"""

from bisect import bisect_right

# Blocks of Unicode 17: scripts in which a line can break at any letter or where only a dictionary finds
# words (classes ID, CJ and SA of UAX #14), and Tibetan, which separates only syllables.
SPACELESS_RANGES = (
    (0x0E00, 0x10A0),  # Thai, Lao, Tibetan, Myanmar
    (0x1780, 0x1800),  # Khmer
    (0x1950, 0x1A00),  # Tai Le, New Tai Lue, Khmer symbols
    (0x1A20, 0x1AB0),  # Tai Tham
    (0x2E80, 0x3130),  # radicals, East Asian punctuation, kana, Bopomofo
    (0x3190, 0x3200),  # Kanbun, Bopomofo, strokes, kana
    (0x3280, 0xA000),  # circled and squared forms, Han
    (0xA9E0, 0xAA00),  # Myanmar
    (0xAA60, 0xAAE0),  # Myanmar, Tai Viet
    (0xF900, 0xFB00),  # Han
    (0xFE30, 0xFE50),  # vertical punctuation
    (0xFF00, 0xFFA0),  # wide forms, narrow katakana
    (0x11700, 0x11750),  # Ahom
    (0x16FE0, 0x1B300),  # Tangut, Khitan, kana, Nushu
    (0x20000, 0x40000),  # Han
)
_MAX_WORD_LENGTH = 15  # characters, on average over a text
_STARTS = [start for start, _ in SPACELESS_RANGES]


def is_spaceless(character: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    if not character or character < "\u0e00":
        return False
    code = ord(character)
    return code < SPACELESS_RANGES[bisect_right(_STARTS, code) - 1][1]


def has_spaces_between_words(num_characters: int, num_words: int) -> bool:
    """Return whether what spaces separate in a text is short enough, on average, to be words."""
    return num_characters <= _MAX_WORD_LENGTH * num_words
