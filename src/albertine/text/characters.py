"""Characters that every vocabulary has, characters that a vocabulary lacks, and those of other languages.

See docs/decisions/required-characters.md.
"""

import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache

from albertine.text.backends import CONTINUATION_PREFIX

_REQUIRED = (
    string.digits + string.ascii_letters + string.punctuation + "‐‑–—−‘’‚“”„‹›«»…·•¡¿§¶†‡′″°±×÷©®£€¥¢₹₩₽"
)
_MAX_LISTED = 10
_MAX_FOREIGN_SHARE = 0.005  # of all letters; see docs/decisions/required-characters.md


def required_characters(normalize: Callable[[str], str]) -> str:
    """Return the characters that every vocabulary has a token for, whatever its training text.

    These are all digits, all printable ASCII characters and common punctuation and currency signs.

    Args:
        normalize: the normalization of the vocabulary, such as to lower case.
    """
    normalized = {result for character in _REQUIRED for result in normalize(character)}
    return "".join(sorted(character for character in normalized if not character.isspace()))


def single_characters(vocabulary: Iterable[str]) -> frozenset[str]:
    """Return the characters that have a token of their own."""
    bare = (token.removeprefix(CONTINUATION_PREFIX) for token in vocabulary)
    return frozenset(token for token in bare if len(token) == 1)


def lost_characters(
    word_counts: Mapping[str, int], known: Set[str], normalize: Callable[[str], str] = str
) -> Counter[str]:
    """Return how often each character without a token occurs.

    Args:
        word_counts: how often each word occurs.
        known: the characters with a token.
        normalize: normalization of the words, if they are not normalized yet.
    """
    lost: Counter[str] = Counter()
    for word, count in word_counts.items():
        if unknown := set(normalized := normalize(word)) - known:
            for character, occurrences in Counter(normalized).items():
                if character in unknown and not character.isspace():
                    lost[character] += count * occurrences
    return lost


def lost_word_characters(
    word_counts: Mapping[str, int], tokens: Set[str], unknown_words: Callable[[str], Iterable[str]]
) -> Counter[str]:
    """Return how often each character occurs where a BERT vocabulary has no token for it.

    Such a vocabulary has one token for a character that begins a word, and another, such as "##a", for one
    inside a word.

    Args:
        word_counts: how often each word, between spaces, occurs.
        tokens: the vocabulary.
        unknown_words: returns the words in such a word that have no tokens; see `Tokenizer.unknown_words`.
    """
    lost: Counter[str] = Counter()
    for text, count in word_counts.items():
        for word in unknown_words(text):
            for index, character in enumerate(word):
                if (CONTINUATION_PREFIX + character if index else character) not in tokens:
                    lost[character] += count
    return lost


def most_frequent(counts: Mapping[str, int], limit: int) -> list[tuple[str, int]]:
    """Return the most frequent characters with their counts; Unicode order breaks ties."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]


def list_characters(counts: Mapping[str, int]) -> str:
    """Return the most frequent characters with their counts, as in "ï 12, U+0301 3 and 5 others"."""
    most = most_frequent(counts, _MAX_LISTED)
    listed = ", ".join(f"{_display(character)} {count:,}" for character, count in most)
    remaining = len(counts) - len(most)
    return f"{listed} and {remaining:,} others" if remaining > 0 else listed


def _display(character: str) -> str:
    is_visible = character.isprintable() and not unicodedata.combining(character)
    return character if is_visible else f"U+{ord(character):04X}"


def language_warning(counts: Mapping[str, int], *, removes_accents: bool, language: str) -> str | None:
    """Return a warning if the options do not suit the language of a text, else None.

    Args:
        counts: how often each character occurs in the text, before normalization.
        removes_accents: whether the vocabulary removes accents.
        language: language whose rules split the text into sentences.
    """
    kinds: Counter[str] = Counter()
    for character, count in counts.items():
        kinds[_letter_kind(character)] += count
    del kinds[""]
    letters, others = sum(kinds.values()), Counter(kinds)
    del others["plain"], others["accented"]
    if sum(others.values()) > _MAX_FOREIGN_SHARE * letters:
        script = others.most_common(1)[0][0]
        found = f"{sum(others.values()) / letters:.1%} of the letters are not Latin, most of them {script}"
    elif kinds["accented"] > _MAX_FOREIGN_SHARE * letters:
        found = f"{kinds['accented'] / letters:.1%} of the letters are accented or outside a to z"
    else:
        return None
    advice = []
    if removes_accents:
        advice.append(
            "accents and other combining marks are removed, unless the tokenizer has --keep-accents"
        )
    if language == "en":
        advice.append("sentences are split by English rules, unless --language names another language")
    return "; ".join([found, *advice]) if advice else None


@cache
def _letter_kind(character: str) -> str:
    """Return "plain" for a to z, "accented", another script such as "Greek", or "" for no letter."""
    if unicodedata.category(character)[0] not in "LM":
        return ""
    if unicodedata.normalize("NFKD", character).isascii():  # also ligatures and wide letters
        return "plain"
    script = unicodedata.name(character, "?").partition(" ")[0]
    # "COMBINING" is the accent of a letter that is written as two characters.
    return "accented" if script in ("LATIN", "COMBINING") else script.title()
