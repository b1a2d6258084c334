"""Windows of long passages: their starts, the tokens that count in each, and the answers in them.

Windows overlap. A token counts in the window where it has most context: the most tokens on
its side with fewer tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albertine.tasks.examples import QuestionExample
from albertine.text.whole_words import extended_to_words


@dataclass(frozen=True)
class AnswerPosition:
    """The position of an answer in a sequence: the target of a sample.

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
        score: start score of its first token plus end score of its last token.
        start: index of its first character in the passage.
        end: index after its last character in the passage.
    """

    score: float
    start: int
    end: int

    def extended_to_words(self, context: str) -> "AnswerCandidate":
        """Return the span without half words at its ends."""
        return AnswerCandidate(self.score, *extended_to_words(context, self.start, self.end))


@dataclass(frozen=True)
class PassageWindow:
    """The part of a passage that is in a sample.

    Attributes:
        first_token: index of its first token in the sequence.
        char_offsets: for each of its tokens, start and end in characters of the passage, `[tokens, 2]`.
        is_max_context: for each of its tokens, whether it counts in this window, `[tokens]`.
    """

    first_token: int
    char_offsets: NDArray[np.int64]
    is_max_context: NDArray[np.bool_]

    def answer_position(self, example: QuestionExample) -> AnswerPosition | None:
        """Return the position of the first answer; None if the example is unlabeled."""
        if example.answers is None:
            return None
        if example.answers and len(self.char_offsets):
            text = example.answers[0].text
            start = example.answers[0].start + len(text) - len(text.lstrip())
            end = start + len(text.strip())
            starts, ends = self.char_offsets[:, 0], self.char_offsets[:, 1]
            answer_tokens = np.flatnonzero((ends > start) & (starts < end))
            # The window holds the whole answer if it has tokens before and after the answer, or if its
            # first and last tokens reach the ends of the answer.
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
        """Yield the spans with the best scores, in any order.

        Args:
            start_scores: for each token of the sequence, its score as first token, `[tokens]`.
            end_scores: for each token of the sequence, its score as last token, `[tokens]`.
            max_length: maximum tokens of a span.
            limit: maximum number of spans.
        """
        num_tokens = len(self.char_offsets)
        if not num_tokens:
            return
        max_length = min(max_length, num_tokens)
        in_window = slice(self.first_token, self.first_token + num_tokens)
        padded_ends = np.concatenate([end_scores[in_window], np.full(max_length, -np.inf, np.float32)])
        # [tokens, max_length]: the scores of the last tokens of spans of 1, 2, ... tokens
        ends = np.lib.stride_tricks.sliding_window_view(padded_ends, max_length)[:num_tokens]
        starts = np.where(self.is_max_context, start_scores[in_window], -np.inf)[:, None]
        span_scores = (starts + ends).reshape(-1)
        limit = min(limit, len(span_scores))
        for index in np.argpartition(-span_scores, limit - 1)[:limit]:
            if np.isfinite(span_scores[index]):
                first, extra_tokens = divmod(int(index), max_length)
                start, end = self.char_offsets[first, 0], self.char_offsets[first + extra_tokens, 1]
                if start < end:
                    yield AnswerCandidate(float(span_scores[index]), int(start), int(end))


def window_starts(num_tokens: int, window_length: int, stride: int) -> Iterator[int]:
    """Yield the index in the passage of the first token of each window."""
    start = 0
    while True:
        yield start
        if start + window_length >= num_tokens:
            return
        start += min(window_length, stride)


def max_context_windows(starts: Sequence[int], num_tokens: int, window_length: int) -> NDArray[np.int64]:
    """Return, for each token of a passage, the index of the window in which it counts, `[tokens]`."""
    best_window, best_context = np.zeros(num_tokens, np.int64), np.full(num_tokens, -1.0)
    for index, start in enumerate(starts):
        tokens = np.arange(start, min(start + window_length, num_tokens))
        # As in the reference code of BERT: the shorter side decides, then the length of the window.
        context = np.minimum(tokens - start, tokens[::-1] - start) + 0.01 * len(tokens)
        is_better = context > best_context[tokens]
        best_window[tokens[is_better]], best_context[tokens[is_better]] = index, context[is_better]
    return best_window


def unique_candidates(best_first: Iterable[AnswerCandidate], limit: int) -> list[AnswerCandidate]:
    """Return the best candidate of each span, at most `limit` candidates in all."""
    by_span: dict[tuple[int, int], AnswerCandidate] = {}
    for candidate in best_first:
        by_span.setdefault((candidate.start, candidate.end), candidate)
        if len(by_span) == limit:
            break
    return list(by_span.values())
