"""What a tokenizer makes of the texts: characters without a token, and rows that are too long."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from albertine.check.findings import DataItem, Finding
from albertine.display import percent
from albertine.text.characters import list_characters, lost_characters, single_characters
from albertine.text.tokenizer import Tokenizer
from albertine.text.word_encoder import WordEncoder

_BATCH = 1 << 20  # characters
_MAX_LOST = 10_000  # distinct characters
_MANY_UNKNOWN, _MANY_TRUNCATED = 0.01, 0.05


class TokenizationCheck:
    """Encodes all texts.

    Args:
        tokenizer: the tokenizer.
        max_length: tokens of the longest row that is used whole; documents may be longer.
    """

    def __init__(self, tokenizer: Tokenizer, max_length: int):
        self._encoder = WordEncoder(tokenizer)
        self._tokenizer, self._max_length = tokenizer, max_length
        self._known = single_characters(tokenizer.vocabulary)
        self._texts: list[str] = []
        self._rows: list[tuple[DataItem, int]] = []  # each with its number of texts
        self._size = 0
        self._tokens = self._unknown = self._row_count = self._long = self._longest = 0
        self._lost: Counter[str] = Counter()
        self._unknown_example = self._long_location = ""

    def observe(self, item: DataItem) -> None:
        """Look at an item."""
        texts = item.sentences or item.all_texts
        self._texts += texts
        self._rows.append((item, len(texts)))
        self._size += sum(map(len, texts))
        if self._size >= _BATCH or len(self._rows) >= 10_000:
            self._encode()

    def _encode(self) -> None:
        ids, lengths = self._encoder.encode(self._texts)
        ends = np.cumsum(lengths)
        unknown = np.flatnonzero(ids == self._tokenizer.special_ids.unk)
        affected = np.unique(np.searchsorted(ends, unknown, side="right"))
        words = Counter(chain.from_iterable(self._texts[index].split() for index in affected))
        lost = lost_characters(words, self._known, self._tokenizer.normalize)
        self._lost.update(lost)
        if len(self._lost) > _MAX_LOST:
            self._lost = Counter(dict(self._lost.most_common(_MAX_LOST // 2)))
        self._tokens += len(ids)
        self._unknown += len(unknown)
        first_text = 0
        for item, count in self._rows:
            row_texts = range(first_text, first_text + count)
            if not self._unknown_example and len(affected) and affected[0] in row_texts:
                self._unknown_example = item.location
            if not item.sentences:
                self._count_row(item, _sequence_length(item, lengths[first_text : first_text + count]))
            first_text += count
        self._texts, self._rows, self._size = [], [], 0

    def _count_row(self, item: DataItem, length: int) -> None:
        self._row_count += 1
        self._longest = max(self._longest, length)
        if length > self._max_length:
            self._long_location = self._long_location or item.location
            self._long += 1

    def findings(self) -> Iterable[Finding]:
        """Yield what was found."""
        if self._rows:
            self._encode()
        if self._unknown:
            share = self._unknown / max(1, self._tokens)
            yield Finding(
                "error" if share >= _MANY_UNKNOWN else "note", "unknown-characters",
                f"unknown tokens, {percent(self._unknown, self._tokens)} of all", self._unknown,
                list_characters(self._lost), self._unknown_example,
                "train a tokenizer on this text, or with --byte-fallback",
            )  # fmt: skip
        if self._long:
            is_much = self._long >= _MANY_TRUNCATED * self._row_count
            long_share = percent(self._long, self._row_count)
            yield Finding(
                "warning" if is_much else "note", "truncated",
                f"rows longer than {self._max_length:,} tokens, {long_share} of all: their ends are cut off, "
                f"or answers are searched in windows; the longest has {self._longest:,}", self._long, "",
                self._long_location,
                "raise the maximum length if the model allows it, or shorten them",
            )  # fmt: skip


def _sequence_length(item: DataItem, lengths: NDArray[np.int64]) -> int:
    """Return the tokens of the longest sequence of a row, from those of its texts and options."""
    texts, options = lengths[: len(item.texts)], lengths[len(item.texts) :]
    if len(options):  # [CLS] passage [SEP] question and one option [SEP]
        return int(texts.sum() + options.max()) + 3
    return int(texts.sum()) + 1 + len(texts)  # [CLS], and a [SEP] after each
