"""What a tokenizer makes of the texts: characters without a token, and rows that are too long."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain

import numpy as np

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
        self._rows: list[tuple[str, int, bool]] = []  # location, number of texts, is it no document
        self._size = 0
        self._tokens = self._unknown = self._row_count = self._long = self._longest = 0
        self._lost: Counter[str] = Counter()
        self._unknown_example = self._long_location = ""

    def observe(self, item: DataItem) -> None:
        """Look at an item."""
        texts = item.sentences or item.texts
        self._texts += texts
        self._rows.append((item.location, len(texts), not item.sentences))
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
        for location, count, is_row in self._rows:
            row_texts = range(first_text, first_text + count)
            if not self._unknown_example and len(affected) and affected[0] in row_texts:
                self._unknown_example = location
            row_length = int(lengths[first_text : first_text + count].sum()) + 1 + count  # [CLS], [SEP]
            first_text += count
            self._row_count += is_row
            if is_row and row_length > self._max_length:
                self._long_location = self._long_location or location
                self._long += 1
            self._longest = max(self._longest, row_length if is_row else 0)
        self._texts, self._rows, self._size = [], [], 0

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
