"""A question on a passage, whose answer is a piece of it, or that has none.

A passage longer than the limit is read through windows that overlap. Of several
windows with a token, the one counts where the token has most context on its shorter
side. An answer is the characters of the passage from its first token to its last, so
it is written as the passage has it, whatever the tokenizer makes of accents or capitals.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.model.heads import SpanOutput, SpanTargets
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.examples import QuestionExample
from albertine.tasks.metrics.squad import squad_metrics
from albertine.tasks.settings import SequenceSettings
from albertine.tasks.types.task_type import (
    EncodedExample,
    Ids,
    Metrics,
    SampleScores,
    SequenceBuilder,
    TaskSample,
    TaskType,
    identical_predictions,
    require_label,
)
from albertine.text.tokenizer import Tokenizer
from albertine.train.trainable import ObjectiveLoss


@dataclass(frozen=True)
class AnswerPosition:
    """Where the answer starts and ends in a window, and whether it is there at all."""

    start: int
    end: int
    answerable: int


@dataclass(frozen=True)
class PassageWindow:
    """The part of a passage that a sample sees.

    Attributes:
        first_token: index of its first token in the sequence.
        char_offsets: the characters of each of its tokens.
        is_max_context: whether a token has its best context here.
    """

    first_token: int
    char_offsets: NDArray[np.int64]
    is_max_context: NDArray[np.bool_]


@dataclass(frozen=True)
class AnswerCandidate:
    """A piece of the passage that may be the answer."""

    score: float
    start: int
    end: int


class SpanExtraction(TaskType):
    """The answer as a piece of the passage.

    Attributes:
        no_answer_threshold: above it, there is no answer; found on dev.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        sequence: SequenceSettings,
        max_length: int,
        dropout: float,
        *,
        allows_no_answer: bool,
        answerable: bool,
    ):
        self._builder = SequenceBuilder(tokenizer, max_length)
        self._literal_tokenizer = tokenizer.with_split_special_tokens()
        self._sequence = sequence
        self.allows_no_answer, self.no_answer_threshold = allows_no_answer, 0.0
        self.head_settings = HeadSettings("span", answerable=answerable, dropout=dropout)
        self.objectives = ("span", "answerable") if answerable else ("span",)

    # From a question to windows.

    def encode(self, examples: Sequence[QuestionExample]) -> list[EncodedExample]:
        """Encode questions; the windows of one are its samples."""
        question_ids = self._builder.encode([one.question for one in examples])
        # A passage always has half of the room at least.
        max_question_length = min(self._sequence.max_question_length, (self._builder.max_length - 3) // 2)
        passages = list(dict.fromkeys(one.context for one in examples))  # many questions ask about one
        encoded_passages = dict(
            zip(passages, self._literal_tokenizer.encode_with_offsets(passages), strict=True)
        )
        return [
            self._encode_example(one, question[:max_question_length], *encoded_passages[one.context])
            for one, question in zip(examples, question_ids, strict=True)
        ]

    def _encode_example(
        self, example: QuestionExample, question: Ids, ids: list[int], char_offsets: list[tuple[int, int]]
    ) -> EncodedExample:
        window_length = self._builder.max_length - len(question) - 3
        starts = list(_window_starts(len(ids), window_length, self._sequence.stride))
        offsets = np.array(char_offsets, np.int64).reshape(-1, 2)
        passage_ids = self._builder.without_special_tokens(np.array(ids, np.int32))
        max_context_window = _max_context_windows(starts, len(ids), window_length)
        samples, windows = [], []
        for number, start in enumerate(starts):
            inside = slice(start, start + window_length)
            token_ids, segments = self._builder.build(question, passage_ids[inside])
            window = PassageWindow(len(question) + 2, offsets[inside], max_context_window[inside] == number)
            samples.append(TaskSample((token_ids,), (segments,), self._answer_position(example, window)))
            windows.append(window)
        return EncodedExample(tuple(samples), tuple(windows))

    def _answer_position(self, example: QuestionExample, window: PassageWindow) -> AnswerPosition | None:
        """Find the answer in a window; what is not wholly there is not there."""
        if example.answers is None:
            return None
        if example.answers and len(window.char_offsets):
            text = example.answers[0].text
            start = example.answers[0].start + len(text) - len(text.lstrip())
            end = start + len(text.strip())
            answer_tokens = np.flatnonzero(
                (window.char_offsets[:, 1] > start) & (window.char_offsets[:, 0] < end)
            )
            # Whole: the window reaches over both ends of it, up to characters that no token stands for.
            if len(answer_tokens):
                covers_start = answer_tokens[0] > 0 or window.char_offsets[0, 0] <= start
                covers_end = (
                    answer_tokens[-1] + 1 < len(window.char_offsets) or window.char_offsets[-1, 1] >= end
                )
                if covers_start and covers_end:
                    return AnswerPosition(
                        window.first_token + int(answer_tokens[0]),
                        window.first_token + int(answer_tokens[-1]),
                        1,
                    )
        return AnswerPosition(0, 0, 0)

    # What the head is to find out.

    def targets(self, samples: Sequence[TaskSample]) -> SpanTargets:
        """Return where the answers are."""
        start, end, answerable = (
            torch.tensor([getattr(sample.target, key) for sample in samples], dtype=torch.int64)
            for key in ("start", "end", "answerable")
        )
        return SpanTargets(start, end, answerable if self.head_settings.answerable else None)

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return how many windows there are."""
        return (len(samples),) * len(self.objectives)

    def objective_losses(
        self, output: SpanOutput, targets: SpanTargets, strip: Strip
    ) -> Sequence[ObjectiveLoss]:
        """Return the losses, how many windows have both ends right, how many know if there is one."""
        assert output.loss is not None
        with torch.no_grad():
            minimum = torch.finfo(torch.float32).min
            start, end = (
                strip.pad(one.float(), minimum).argmax(1) if len(strip) else targets.start
                for one in (output.start_logits, output.end_logits)
            )
            correct = ((start == targets.start) & (end == targets.end)).sum()
        if output.answerable_logits is None or targets.answerable is None:
            return (ObjectiveLoss(output.loss, correct),)
        answerable_loss = torch.nn.functional.binary_cross_entropy_with_logits(
            output.answerable_logits.float(), targets.answerable.float(), reduction="sum"
        ) / max(1, len(strip))
        answerable_correct = ((output.answerable_logits > 0) == (targets.answerable == 1)).sum()
        return (
            ObjectiveLoss(output.loss - answerable_loss, correct),
            ObjectiveLoss(answerable_loss, answerable_correct),
        )

    # From scores to an answer.

    def sample_scores(self, output: SpanOutput, strip: Strip) -> list[SampleScores]:
        """Return of each window its tokens' scores as start and as end, and that of being answerable."""
        start, end = (one.float().cpu().numpy() for one in (output.start_logits, output.end_logits))
        answerable = np.zeros(len(strip), np.float32)
        if output.answerable_logits is not None:
            answerable = output.answerable_logits.float().cpu().numpy()
        boundaries = strip.offsets.numpy()
        return [
            np.concatenate([start[a:b], end[a:b], answerable[at : at + 1]])
            for at, (a, b) in enumerate(pairwise(boundaries.tolist()))
        ]

    def prediction(
        self, example: QuestionExample, encoded: EncodedExample, scores: Sequence[SampleScores]
    ) -> dict[str, Any]:
        """Return the best answer of all windows, what comes near it, and any doubt that there is one."""
        found: list[AnswerCandidate] = []
        no_answer_score = np.inf
        for window, row in zip(encoded.details, scores, strict=True):
            size = len(row) // 2
            start, end = row[:size], row[size : 2 * size]
            no_answer_score = min(
                no_answer_score, -row[-1] if self.head_settings.answerable else start[0] + end[0]
            )
            found += self._candidates(window, start, end)
        best = _unique_candidates(sorted(found, key=lambda one: -one.score), self._sequence.num_candidates)
        if not self.head_settings.answerable:
            no_answer_score = no_answer_score - best[0].score if best else np.inf
        no_answer_score = round(float(no_answer_score), 6) if best else 1e9
        texts = [example.context[one.start : one.end] for one in best]
        probabilities = _softmax(np.array([one.score for one in best]))
        is_unanswered = self.allows_no_answer and no_answer_score > self.no_answer_threshold
        answer: dict[str, Any] = {"answer": texts[0] if texts and not is_unanswered else ""}
        if texts and not is_unanswered:
            answer |= {"start": best[0].start, "end": best[0].end}
        if self.allows_no_answer:
            margin = min(50.0, max(-50.0, no_answer_score - self.no_answer_threshold))
            answer |= {
                "no_answer": no_answer_score,
                "no_answer_probability": round(1 / (1 + math.exp(-margin)), 6),
                "otherwise": texts[0] if texts else "",
            }
        answer["best"] = [
            {"text": text, "start": one.start, "probability": round(float(probability), 6)}
            for text, one, probability in zip(texts, best, probabilities, strict=True)
        ]
        return answer

    def _candidates(
        self, window: PassageWindow, start: SampleScores, end: SampleScores
    ) -> Iterator[AnswerCandidate]:
        """Yield the best pieces of a window, none longer than answers may be."""
        count = len(window.char_offsets)
        if not count:
            return
        max_length = min(self._sequence.max_answer_length, count)
        inside = slice(window.first_token, window.first_token + count)
        padded = np.concatenate([end[inside], np.full(max_length, -np.inf, np.float32)])
        ends = np.lib.stride_tricks.sliding_window_view(padded, max_length)[:count]
        scores = np.where(window.is_max_context, start[inside], -np.inf)[:, None] + ends
        flat = scores.reshape(-1)
        num_candidates = min(2 * self._sequence.num_candidates, len(flat))
        for at in np.argpartition(-flat, num_candidates - 1)[:num_candidates]:
            if np.isfinite(flat[at]):
                first, extra_tokens = divmod(int(at), max_length)
                left, right = window.char_offsets[first, 0], window.char_offsets[first + extra_tokens, 1]
                if left < right:
                    yield AnswerCandidate(float(flat[at]), int(left), int(right))

    def compute_metrics(
        self, examples: Sequence[QuestionExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Score as the official script of SQuAD does."""
        references = [
            [answer.text for answer in require_label(one.answers, one.location, "answers")]
            for one in examples
        ]
        predicted = [answer.get("otherwise", answer["answer"]) for answer in predictions]
        no_answer_scores = [answer["no_answer"] for answer in predictions] if self.allows_no_answer else None
        return squad_metrics(references, predicted, no_answer_scores, self.no_answer_threshold)

    def fit_threshold(
        self, examples: Sequence[QuestionExample], predictions: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Find the threshold above which there is no answer."""
        if self.allows_no_answer:
            self.no_answer_threshold = self.compute_metrics(examples, predictions)["best_f1_threshold"]
        return self.allows_no_answer

    def collapse_reason(
        self, examples: Sequence[QuestionExample], predictions: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Say so if nothing is ever answered."""
        if not self.allows_no_answer:
            return None
        has_answer = [bool(one.answers) for one in examples]
        return identical_predictions(
            [bool(one["answer"]) for one in predictions],
            has_answer,
            lambda any_: "some piece" if any_ else "none",
        )


def _window_starts(num_tokens: int, window_length: int, stride: int) -> Iterator[int]:
    """Yield where the windows of a passage begin."""
    start = 0
    while True:
        yield start
        if start + window_length >= num_tokens:
            return
        start += min(window_length, stride)


def _max_context_windows(starts: Sequence[int], num_tokens: int, window_length: int) -> NDArray[np.int64]:
    """Return for each token the window in which it has most context on its shorter side."""
    best, context = np.zeros(num_tokens, np.int64), np.full(num_tokens, -1.0)
    for number, start in enumerate(starts):
        inside = np.arange(start, min(start + window_length, num_tokens))
        shorter = np.minimum(inside - start, inside[::-1] - start) + 0.01 * len(inside)
        better = shorter > context[inside]
        best[inside[better]], context[inside[better]] = number, shorter[better]
    return best


def _unique_candidates(found: list[AnswerCandidate], limit: int) -> list[AnswerCandidate]:
    """Keep the best of those with the same characters, and so many in all."""
    kept: dict[tuple[int, int], AnswerCandidate] = {}
    for one in found:
        kept.setdefault((one.start, one.end), one)
        if len(kept) == limit:
            break
    return list(kept.values())


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(scores - scores.max(initial=-np.inf))
    return np.asarray(exponentials / exponentials.sum())
