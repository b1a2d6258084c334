"""Empty texts, documents without sentence ends, one giant document, and too little text for a vocabulary."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from albertine.check.findings import DataItem, Finding
from albertine.display import display_text, percent
from albertine.text.settings import MIN_VOCAB_SIZE
from albertine.text.spaceless_scripts import has_spaces_between_words

_LONG_SENTENCE = 2000  # characters without a sentence end
_ENDLESS_SHARE = 0.2  # of a document; novels have a few long speeches
_GIANT_SHARE, _GIANT_SIZE = 0.5, 1_000_000  # of all text; characters
_MAX_WORDS = 1 << 19  # distinct words that are remembered
_MIN_OCCURRENCES = 50  # of a token, on average


@dataclass
class DocumentCheck:
    """Counts texts and their sentences.

    Attributes:
        vocab_size: size of the vocabulary to be trained; None for none.
    """

    vocab_size: int | None = None
    _empty: int = 0
    _empty_location: str = ""
    _items: int = 0
    _documents: int = 0
    _characters: int = 0
    _largest: tuple[int, str] = (0, "")
    _endless: int = 0
    _endless_example: tuple[str, str] = ("", "")
    _words: int = 0
    _distinct: set[int] = field(default_factory=set)

    def observe(self, item: DataItem) -> None:
        """Look at an item."""
        self._items += 1
        if not all(text.strip() for text in item.all_texts):
            self._empty_location = self._empty_location or item.location
            self._empty += 1
            return
        size = sum(map(len, item.all_texts))
        self._characters += size
        if item.sentences:
            self._documents += 1
            self._largest = max(self._largest, (size, item.location))
            endless = [sentence for sentence in item.sentences if len(sentence) > _LONG_SENTENCE]
            if sum(map(len, endless)) > _ENDLESS_SHARE * size:
                self._endless_example = (
                    self._endless_example if self._endless else (endless[0], item.location)
                )
                self._endless += 1
        if self.vocab_size is not None:
            words = [word for text in item.all_texts for word in text.split()]
            self._words += len(words)
            if len(self._distinct) < _MAX_WORDS:
                self._distinct.update(map(hash, words))

    def findings(self) -> Iterable[Finding]:
        """Yield what was found."""
        if not self._items:
            yield Finding(
                "error",
                "no-text",
                "texts",
                0,
                advice="check the path, the suffix, and whether the file is empty",
            )
            return
        if self._empty:
            yield Finding(
                "error" if self._empty == self._items else "warning", "empty-text",
                f"rows with an empty text, {percent(self._empty, self._items)} of all", self._empty, "",
                self._empty_location, "remove them",
            )  # fmt: skip
        if self._endless:
            yield Finding(
                "warning" if self._endless >= 0.1 * self._documents else "note", "no-sentence-ends",
                f"documents with more than {_ENDLESS_SHARE:.0%} of their text in sentences of more than "
                f"{_LONG_SENTENCE:,} characters", self._endless,
                display_text(self._endless_example[0]), self._endless_example[1],
                "check that the text has punctuation; the order of sentences cannot be learned without",
            )  # fmt: skip
        size, location = self._largest
        if self._documents and size > _GIANT_SHARE * self._characters and size > _GIANT_SIZE:
            yield Finding(
                "warning" if self._documents > 1 else "note", "giant-document",
                f"document has {percent(size, self._characters)} of the text", 1, f"{size:,} characters",
                location, "split it at its chapters or articles; --held-out only takes passages of it",
            )  # fmt: skip
        yield from self._vocabulary_finding()

    def _vocabulary_finding(self) -> Iterable[Finding]:
        if self.vocab_size is None or not self._words:
            return
        if not has_spaces_between_words(self._characters, self._words):
            count, kind, limit = self._characters, "characters", self.vocab_size
            per_token = f"{_MIN_OCCURRENCES} characters"
        else:
            count, distinct = self._words, len(self._distinct)
            is_complete = distinct < _MAX_WORDS
            kind = f"words ({'' if is_complete else 'more than '}{distinct:,} distinct)"
            limit = distinct // 2 if is_complete else self.vocab_size
            per_token = f"{_MIN_OCCURRENCES} words, and two distinct ones,"
        enough = max(MIN_VOCAB_SIZE, min(limit, count // _MIN_OCCURRENCES))
        if enough < self.vocab_size:
            yield Finding(
                "warning", "too-little-text",
                f"{kind}, too few for a vocabulary of {self.vocab_size:,}", count,
                advice=f"use more text, or --vocab-size {enough} or less: at least {per_token} per token are "
                "recommended",
            )  # fmt: skip
