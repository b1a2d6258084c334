"""Counts empty examples, truncated and unknown tokens, and prints messages about them."""

from collections.abc import Mapping, Sequence

import numpy as np

from albertine import progress
from albertine.display import percent
from albertine.tasks.sequences import EncodedExample
from albertine.text.vocabulary_formats import SpecialTokenIds


class EncodingCounts:
    """Counts of examples without tokens, and of truncated and unknown tokens.

    Attributes:
        num_examples: number of examples.
        num_truncated_examples: number of examples that were truncated.
        max_truncated_tokens: maximum number of tokens that an example lost.
    """

    def __init__(self, special_ids: SpecialTokenIds):
        self.num_examples, self.num_truncated_examples, self.max_truncated_tokens = 0, 0, 0
        self._special_ids = special_ids
        self._num_empty_examples = 0
        self._truncated_tokens, self._num_tokens, self._num_unknown_tokens = 0, 0, 0

    def add(self, encoded: Sequence[EncodedExample]) -> None:
        """Count the tokens of examples."""
        truncated = [each.num_truncated_tokens for each in encoded if each.num_truncated_tokens]
        self.num_examples += len(encoded)
        self.num_truncated_examples += len(truncated)
        self._truncated_tokens += sum(truncated)
        self.max_truncated_tokens = max([self.max_truncated_tokens, *truncated])
        sequences = [ids for each in encoded for sample in each.samples for ids in sample.ids]
        ids = np.concatenate([np.empty(0, np.int32), *sequences])
        self._num_empty_examples += sum(map(self._is_empty, encoded))
        is_special = (ids == self._special_ids.cls) | (ids == self._special_ids.sep)
        self._num_tokens += len(ids) - int(is_special.sum())
        self._num_unknown_tokens += int((ids == self._special_ids.unk).sum())

    def _is_empty(self, encoded: EncodedExample) -> bool:
        """Return whether the sequences of an example have no tokens but special ones."""
        special = {self._special_ids.cls, self._special_ids.sep}
        # A longer sequence has tokens: special ones are [CLS], and one [SEP] for each of up to three texts.
        return all(
            len(ids) <= 4 and special.issuperset(map(int, ids))
            for sample in encoded.samples
            for ids in sample.ids
        )

    def merge(self, other: "EncodingCounts") -> None:
        """Add the counts of other examples."""
        self.num_examples += other.num_examples
        self.num_truncated_examples += other.num_truncated_examples
        self.max_truncated_tokens = max(self.max_truncated_tokens, other.max_truncated_tokens)
        self._num_empty_examples += other._num_empty_examples
        self._truncated_tokens += other._truncated_tokens
        self._num_tokens += other._num_tokens
        self._num_unknown_tokens += other._num_unknown_tokens

    def state(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: value for name, value in vars(self).items() if name != "_special_ids"}

    def restore(self, state: Mapping[str, int]) -> None:
        """Replace the counts by those of a state."""
        vars(self).update(state)

    @property
    def mean_truncated_tokens(self) -> float:
        """Mean number of tokens that the truncated examples lost; 0 if there are none."""
        return self._truncated_tokens / max(1, self.num_truncated_examples)

    @property
    def unknown_share(self) -> float:
        """Share of unknown tokens, between 0 and 1; [CLS] and [SEP] are not counted."""
        return self._num_unknown_tokens / max(1, self._num_tokens)

    def print_warnings(self, name: str) -> None:
        """Print how many examples are empty or were truncated, and how many tokens are unknown, if any.

        Args:
            name: name of the examples, such as "train".
        """
        if self._num_empty_examples:
            progress.print_message(
                f"{name}: {self._num_empty_examples:,} of {self.num_examples:,} examples are empty: a model "
                "has no token of them to go by"
            )
        if self.num_truncated_examples:
            progress.print_message(
                f"{name}: {self.num_truncated_examples:,} of {self.num_examples:,} examples truncated; "
                f"tokens cut off: {self.mean_truncated_tokens:,.0f} on average, "
                f"{self.max_truncated_tokens:,} at most"
            )
        if self._num_unknown_tokens:
            progress.print_message(
                f"{name}: {percent(self._num_unknown_tokens, self._num_tokens)} of the tokens are unknown; "
                "the vocabulary lacks their characters"
            )
