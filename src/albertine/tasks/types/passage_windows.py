"""Windows of long passages: where they start, which tokens count in which, where answers are in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albertine.tasks.examples import QuestionExample


@dataclass(frozen=True)
class AnswerPosition:
    """The position of an answer in a sequence.

    Attributes:
        start: index of its first token; 0 if the answer is not in the window.
        end: index of its last token; 0 if the answer is not in the window.
        answerable: 1 if the whole answer is in the window, else 0.
    """

    start: int
    end: int
    answerable: int


@dataclass(frozen=True)
class AnswerCandidate:
    """A span of the passage that may be the answer.

    Attributes:
        score: start score plus end score.
        start: index of its first character in the passage.
        end: index after its last character.
    """

    score: float
    start: int
    end: int


@dataclass(frozen=True)
class PassageWindow:
    """The part of a passage that is in a sample.

    Attributes:
        first_token: index of its first token in the sequence.
        char_offsets: start and end in characters of each of its tokens, `[tokens, 2]`.
        is_max_context: whether a token has more context here than in other windows, `[tokens]`.
    """

    first_token: int
    char_offsets: NDArray[np.int64]
    is_max_context: NDArray[np.bool_]

    def answer_position(self, example: QuestionExample) -> AnswerPosition | None:
        """Return the position of the first answer; None if the example is unlabelled."""
        if example.answers is None:
            return None
        if example.answers and len(self.char_offsets):
            text = example.answers[0].text
            start = example.answers[0].start + len(text) - len(text.lstrip())
            end = start + len(text.strip())
            starts, ends = self.char_offsets[:, 0], self.char_offsets[:, 1]
            answer_tokens = np.flatnonzero((ends > start) & (starts < end))
            # The window has the whole answer if it extends over both ends, up to characters without a token.
            if len(answer_tokens):
                covers_start = answer_tokens[0] > 0 or starts[0] <= start
                covers_end = answer_tokens[-1] + 1 < len(ends) or ends[-1] >= end
                if covers_start and covers_end:
                    return AnswerPosition(
                        self.first_token + int(answer_tokens[0]), self.first_token + int(answer_tokens[-1]), 1
                    )
        return AnswerPosition(0, 0, 0)

    def candidates(
        self,
        start_scores: NDArray[np.float32],
        end_scores: NDArray[np.float32],
        *,
        max_length: int,
        limit: int,
    ) -> Iterator[AnswerCandidate]:
        """Yield the spans with the best scores.

        Args:
            start_scores: scores of all tokens of the sequence as first token, `[tokens]`.
            end_scores: scores of all tokens of the sequence as last token, `[tokens]`.
            max_length: maximum tokens of a span.
            limit: maximum number of spans.
        """
        count = len(self.char_offsets)
        if not count:
            return
        max_length = min(max_length, count)
        inside = slice(self.first_token, self.first_token + count)
        padded = np.concatenate([end_scores[inside], np.full(max_length, -np.inf, np.float32)])
        ends = np.lib.stride_tricks.sliding_window_view(padded, max_length)[:count]
        scores = np.where(self.is_max_context, start_scores[inside], -np.inf)[:, None] + ends
        flat = scores.reshape(-1)  # [first token * length]
        limit = min(limit, len(flat))
        for at in np.argpartition(-flat, limit - 1)[:limit]:
            if np.isfinite(flat[at]):
                first, extra_tokens = divmod(int(at), max_length)
                left, right = self.char_offsets[first, 0], self.char_offsets[first + extra_tokens, 1]
                if left < right:
                    yield AnswerCandidate(float(flat[at]), int(left), int(right))


def window_starts(num_tokens: int, window_length: int, stride: int) -> Iterator[int]:
    """Yield the first token of each window of a passage."""
    start = 0
    while True:
        yield start
        if start + window_length >= num_tokens:
            return
        start += min(window_length, stride)


def max_context_windows(starts: Sequence[int], num_tokens: int, window_length: int) -> NDArray[np.int64]:
    """Return for each token the window in which it has most context on its shorter side, `[tokens]`."""
    best, context = np.zeros(num_tokens, np.int64), np.full(num_tokens, -1.0)
    for number, start in enumerate(starts):
        inside = np.arange(start, min(start + window_length, num_tokens))
        shorter = np.minimum(inside - start, inside[::-1] - start) + 0.01 * len(inside)
        better = shorter > context[inside]
        best[inside[better]], context[inside[better]] = number, shorter[better]
    return best


def unique_candidates(found: list[AnswerCandidate], limit: int) -> list[AnswerCandidate]:
    """Return the best candidate of each span, at most `limit` in all."""
    kept: dict[tuple[int, int], AnswerCandidate] = {}
    for one in found:
        kept.setdefault((one.start, one.end), one)
        if len(kept) == limit:
            break
    return list(kept.values())
