"""The language of the texts, and whether a tokenizer suits it."""

import random
from collections.abc import Iterable

from albertine.check.findings import DataItem, Finding
from albertine.text.language_detection import detect_language
from albertine.text.language_samples import NUM_PASSAGES, PASSAGE_LENGTH, joined_passages
from albertine.text.languages import keeps_accents, keeps_capitals, language_name
from albertine.text.tokenizer import Tokenizer

_SAMPLED_TEXTS = 600  # short ones are joined


class LanguageCheck:
    """Keeps a random sample of bounded size of all texts (reservoir sampling, with a seed)."""

    def __init__(self, tokenizer: Tokenizer | None):
        self._tokenizer = tokenizer
        self._rng, self._sample, self._count = random.Random(0), list[str](), 0

    def observe(self, item: DataItem) -> None:
        """Look at an item."""
        for text in item.all_texts:
            self._count += 1
            if len(self._sample) < _SAMPLED_TEXTS:
                self._sample.append(self._passage(text))
            elif (index := self._rng.randrange(self._count)) < _SAMPLED_TEXTS:
                self._sample[index] = self._passage(text)

    def _passage(self, text: str) -> str:
        start = self._rng.randrange(max(1, len(text) - PASSAGE_LENGTH + 1))
        return text[start : start + PASSAGE_LENGTH]

    def findings(self) -> Iterable[Finding]:
        """Yield the language, and what the tokenizer does to it."""
        self._rng.shuffle(self._sample)
        detected = detect_language(joined_passages(iter(self._sample), NUM_PASSAGES))
        if not detected.passages:
            return
        yield Finding("note", "language", f"language: {detected.summary}", detected.passages)
        if self._tokenizer is None:
            return
        removed = []
        if self._tokenizer.normalize("é") == "e" and any(map(keeps_accents, detected.significant)):
            removed.append("accents")
        if self._tokenizer.normalize("A") == "a" and any(map(keeps_capitals, detected.significant)):
            removed.append("capitals")
        if removed:
            name = language_name(detected.code)
            yield Finding(
                "warning", "tokenizer-language",
                f"the tokenizer removes {' and '.join(removed)}, which {name} text needs",
                advice="train a tokenizer on this text, or choose a model of this language",
            )  # fmt: skip
