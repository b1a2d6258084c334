"""Span extraction: the answer to a question as a span of a passage, or no answer.

A passage that is too long is read in overlapping windows, one sample each. An answer is
copied from the passage, from its first token to its last, so it keeps the accents and
capitals that a tokenizer may remove.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from albertine.model.losses import ObjectiveLoss
from albertine.model.span_head import SpanOutput, SpanTargets
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import QuestionExample
from albertine.tasks.formats.cells import example_id, parse_answers
from albertine.tasks.formats.rows import RowError, TableRow
from albertine.tasks.metrics.squad import squad_metrics
from albertine.tasks.outcomes import Outcome
from albertine.tasks.sequences import EncodedExample, Ids, SequenceBuilder, TaskSample
from albertine.tasks.settings import DataSettings, SequenceSettings
from albertine.tasks.types.inputs import (
    EXAMPLE_CONTEXT,
    EXAMPLE_QUESTION,
    InputField,
    input_location,
    input_rows,
)
from albertine.tasks.types.json_schema import (
    COUNT,
    NUMBER,
    PROBABILITY,
    TEXT,
    Schema,
    array_of,
    object_of,
)
from albertine.tasks.types.passage_windows import (
    AnswerCandidate,
    PassageWindow,
    max_context_windows,
    unique_candidates,
    window_starts,
)
from albertine.tasks.types.span_outcome import span_outcome
from albertine.tasks.types.task_type import (
    Metrics,
    Prediction,
    SampleScores,
    TaskType,
    column_options,
    identical_predictions,
    require_label,
)
from albertine.text.tokenizer import Tokenizer

_CERTAINLY_NO_ANSWER = 1e9
_MAX_MARGIN = 50.0  # at larger margins a sigmoid is 0 or 1, but math.exp may overflow


class SpanExtraction(TaskType):
    """The task type "span": the answer to a question as a span of a passage.

    Attributes:
        allows_no_answer: whether questions may have no answer.
        no_answer_threshold: no-answer score above which the predicted answer is empty; fitted on dev.
    """

    name = "span"
    title = "span extraction"
    head_kind = "span"
    finds_in_passage = True
    primary_metrics = ("exact", "f1")
    scores_per_token = True
    similar_task = "squad-1.1"
    table_columns = ("answer", "no_answer_score", "best_answer")
    column_settings = ("context", "question", "answers", "id")
    optional_columns = ("answers", "id")
    prediction_description = "where the answer is"
    score_title = "F1 of the words of the answer"

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

    @classmethod
    def from_card(
        cls, card: TaskCard, tokenizer: Tokenizer, *, answerable: bool, dropout: float
    ) -> "SpanExtraction":
        """Return the task type of a model, from its task card."""
        task_type = cls(
            tokenizer,
            card.sequence,
            card.max_length,
            dropout,
            allows_no_answer=card.allows_no_answer,
            answerable=answerable,
        )
        task_type.no_answer_threshold = card.no_answer_threshold
        return task_type

    @classmethod
    def complete_card(cls, card: TaskCard, examples: Sequence[QuestionExample], source: str) -> TaskCard:  # noqa: ARG003
        """Return the card; for the user's own data, with whether questions may have no answer."""
        if card.is_official:
            return card
        return replace(card, allows_no_answer=any(example.answers == () for example in examples))

    def updated_card(self, card: TaskCard) -> TaskCard:
        """Return the card with the fitted threshold."""
        return replace(card, no_answer_threshold=self.no_answer_threshold)

    @classmethod
    def required_columns(cls, columns: DataSettings, *, require_labels: bool) -> dict[str, str]:
        """Return the columns of question, passage and answers, each with its command-line option."""
        return column_options(columns, "question", "context", *(["answers"] if require_labels else []))

    @classmethod
    def example_from_row(
        cls, row: TableRow, columns: DataSettings, *, require_labels: bool
    ) -> QuestionExample:
        """Return the question of a row, with its answers if they are required or can be read."""
        context = row.text(columns.context)
        answers, cell = None, row.cells.get(columns.answers)
        if require_labels:
            answers = tuple(parse_answers(cell, context))
        elif cell is not None:
            with suppress(RowError):
                answers = tuple(parse_answers(cell, context))
        question = row.text(columns.question)
        return QuestionExample(row.location, example_id(row, columns), question, context, answers)

    # Samples.

    def encode(self, examples: Sequence[QuestionExample]) -> list[EncodedExample]:
        """Return one sample for each window of each question."""
        question_ids = self._builder.encode([example.question for example in examples])
        passages = list(dict.fromkeys(example.context for example in examples))  # questions share passages
        encoded_passages = dict(
            zip(passages, self._literal_tokenizer.encode_with_offsets(passages), strict=True)
        )
        return [
            self._encode_example(example, question, *encoded_passages[example.context])
            for example, question in zip(examples, question_ids, strict=True)
        ]

    def _encode_example(
        self, example: QuestionExample, question: Ids, ids: list[int], char_offsets: list[tuple[int, int]]
    ) -> EncodedExample:
        """Return a question with the windows of its passage.

        Args:
            example: the question.
            question: token ids of the question.
            ids: token ids of the passage.
            char_offsets: start and end in characters of each token of the passage.
        """
        # At least half of each sequence is for the passage.
        max_question_length = min(self._sequence.max_question_length, (self._builder.max_length - 3) // 2)
        num_truncated = max(0, len(question) - max_question_length)
        question = question[:max_question_length]
        window_length = self._builder.max_length - len(question) - 3
        starts = list(window_starts(len(ids), window_length, self._sequence.stride))
        offsets = np.array(char_offsets, np.int64).reshape(-1, 2)
        passage_ids = self._builder.without_special_tokens(np.array(ids, np.int32))
        max_context_window = max_context_windows(starts, len(ids), window_length)
        samples, windows = [], []
        for index, start in enumerate(starts):
            in_window = slice(start, start + window_length)
            token_ids, segments = self._builder.build(question, passage_ids[in_window])
            is_max_context = max_context_window[in_window] == index
            window = PassageWindow(len(question) + 2, offsets[in_window], is_max_context)
            samples.append(TaskSample((token_ids,), (segments,), window.answer_position(example)))
            windows.append(window)
        return EncodedExample(tuple(samples), tuple(windows), num_truncated_tokens=num_truncated)

    # Training.

    def targets(self, samples: Sequence[TaskSample]) -> SpanTargets:
        """Return the positions of the answers, each field `[samples]`."""
        start, end, answerable = (
            torch.tensor([getattr(sample.target, key) for sample in samples], dtype=torch.int64)
            for key in ("start", "end", "answerable")
        )
        return SpanTargets(start, end, answerable if self.head_settings.answerable else None)

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return the number of samples, for each objective."""
        return (len(samples),) * len(self.objectives)

    def objective_losses(
        self, output: SpanOutput, targets: SpanTargets, strip: Strip
    ) -> Sequence[ObjectiveLoss]:
        """Return the loss of the spans and, with an answerable head, the loss of answerability."""
        assert output.loss is not None
        with torch.no_grad():
            minimum = torch.finfo(torch.float32).min
            start, end = (
                strip.pad(logits.float(), minimum).argmax(1) if len(strip) else targets.start
                for logits in (output.start_logits, output.end_logits)
            )
            correct = ((start == targets.start) & (end == targets.end)).sum()
        if output.answerable_logits is None or targets.answerable is None:
            return (ObjectiveLoss(output.loss, correct),)
        answerable_loss = functional.binary_cross_entropy_with_logits(
            output.answerable_logits.float(), targets.answerable.float(), reduction="sum"
        ) / max(1, len(strip))
        answerable_correct = ((output.answerable_logits > 0) == (targets.answerable == 1)).sum()
        return (
            ObjectiveLoss(output.loss - answerable_loss, correct),
            ObjectiveLoss(answerable_loss, answerable_correct),
        )

    # Predictions.

    def sample_losses(self, output: SpanOutput, targets: SpanTargets, strip: Strip) -> Sequence[Tensor]:
        """Return the losses of the span and, with an answerable head, of answerability, [samples] each."""
        start, end = (
            functional.cross_entropy(strip.pad(logits.float(), float("-inf")), target, reduction="none")
            for logits, target in ((output.start_logits, targets.start), (output.end_logits, targets.end))
        )
        if output.answerable_logits is None or targets.answerable is None:
            return ((start + end) / 2,)
        answerable = functional.binary_cross_entropy_with_logits(
            output.answerable_logits.float(), targets.answerable.float(), reduction="none"
        )
        return ((start + end) / 2, answerable)

    def sample_scores(self, output: SpanOutput, strip: Strip) -> list[SampleScores]:
        """Return the scores of each window, each `[2 * tokens + 1]`.

        They are the scores of its tokens as start, then as end, and its answerability.
        """
        start_scores, end_scores = (
            logits.float().cpu().numpy() for logits in (output.start_logits, output.end_logits)
        )
        answerable = np.zeros(len(strip), np.float32)
        if output.answerable_logits is not None:
            answerable = output.answerable_logits.float().cpu().numpy()
        boundaries = strip.offsets.numpy()
        return [
            np.concatenate([start_scores[start:end], end_scores[start:end], answerable[index : index + 1]])
            for index, (start, end) in enumerate(pairwise(boundaries.tolist()))
        ]

    def prediction(
        self, example: QuestionExample, encoded: EncodedExample, scores: Sequence[SampleScores]
    ) -> Prediction:
        """Return the best answer of all windows, further candidates, and the no-answer score."""
        candidates, no_answer_score = self._best_candidates(example.context, encoded.details, scores)
        texts = [example.context[candidate.start : candidate.end] for candidate in candidates]
        probabilities = _softmax(np.array([candidate.score for candidate in candidates]))
        is_unanswered = self.allows_no_answer and no_answer_score > self.no_answer_threshold
        answer: Prediction = {"answer": texts[0] if texts and not is_unanswered else ""}
        if texts and not is_unanswered:
            answer |= {"start": candidates[0].start, "end": candidates[0].end}
        if self.allows_no_answer:
            margin = no_answer_score - self.no_answer_threshold
            margin = min(_MAX_MARGIN, max(-_MAX_MARGIN, margin))
            answer |= {
                "no_answer_score": no_answer_score,
                "no_answer_probability": round(1 / (1 + math.exp(-margin)), 6),
                "best_answer": texts[0] if texts else "",
            }
        answer["candidates"] = [
            {"text": text, "start": candidate.start, "probability": round(float(probability), 6)}
            for text, candidate, probability in zip(texts, candidates, probabilities, strict=True)
        ]
        return answer

    def _best_candidates(
        self, context: str, windows: Sequence[PassageWindow], scores: Sequence[SampleScores]
    ) -> tuple[list[AnswerCandidate], float]:
        """Return the best candidates of all windows as whole words, best first, and the no-answer score."""
        candidates: list[AnswerCandidate] = []
        no_answer_score = np.inf
        for window, window_scores in zip(windows, scores, strict=True):
            size = len(window_scores) // 2
            start_scores, end_scores = window_scores[:size], window_scores[size : 2 * size]
            no_answer_score = min(
                no_answer_score,
                -window_scores[-1] if self.head_settings.answerable else start_scores[0] + end_scores[0],
            )
            candidates += window.candidates(
                start_scores,
                end_scores,
                max_length=self._sequence.max_answer_length,
                limit=2 * self._sequence.num_candidates,
            )
        candidates.sort(key=lambda candidate: -candidate.score)
        whole_words = (candidate.extended_to_words(context) for candidate in candidates)
        best = unique_candidates(whole_words, self._sequence.num_candidates)
        if not best:
            return [], _CERTAINLY_NO_ANSWER
        if not self.head_settings.answerable:
            no_answer_score = no_answer_score - best[0].score
        return best, round(float(no_answer_score), 6)

    def parse_inputs(self, inputs: Mapping[str, Any]) -> tuple[list[QuestionExample], bool]:
        """Return examples from `question` and `context`, each one text or a list."""
        rows, is_batch = input_rows(question=inputs.get("question"), context=inputs.get("context"))
        examples = [
            QuestionExample(input_location(index), str(index), question, context)
            for index, (question, context) in enumerate(rows)
        ]
        return examples, is_batch

    def input_fields(self) -> tuple[InputField, ...]:
        """Return the fields of passage and question."""
        return InputField("context", EXAMPLE_CONTEXT), InputField("question", EXAMPLE_QUESTION)

    # Evaluation.

    def prediction_schema(self) -> Schema:
        """Return the JSON schema of a prediction; without an answer it has no `start` and `end`."""
        candidate = object_of({"text": TEXT, "start": COUNT, "probability": PROBABILITY})
        no_answer = {
            "no_answer_score": NUMBER,
            "no_answer_probability": PROBABILITY,
            "best_answer": TEXT,
        }
        return object_of(
            {
                "answer": TEXT,
                "candidates": array_of(candidate),
                **(no_answer if self.allows_no_answer else {}),
            },
            {"start": COUNT, "end": COUNT},
        )

    def compute_metrics(
        self, examples: Sequence[QuestionExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Return the metrics of the official script of SQuAD."""
        references = [
            [answer.text for answer in require_label(example.answers, example.location, "answers")]
            for example in examples
        ]
        answers = [prediction.get("best_answer", prediction["answer"]) for prediction in predictions]
        no_answer_scores = (
            [prediction["no_answer_score"] for prediction in predictions] if self.allows_no_answer else None
        )
        return squad_metrics(references, answers, no_answer_scores, self.no_answer_threshold)

    def evaluation_warning(self, examples: Sequence[QuestionExample]) -> str | None:
        """Return a message if some questions have no answer, but the model always gives one."""
        num_unanswerable = sum(not example.answers for example in examples)
        if self.allows_no_answer or not num_unanswerable:
            return None
        return (
            f"{num_unanswerable:,} of {len(examples):,} questions have no answer, but this model always "
            "gives one, so they count as wrong; if it may give none, use --task squad-2.0"
        )

    def fit_threshold(
        self, examples: Sequence[QuestionExample], predictions: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Fit the no-answer threshold, if questions may have no answer."""
        if not self.allows_no_answer:
            return False
        metrics = self.compute_metrics(examples, predictions)
        self.no_answer_threshold = metrics["best_f1_threshold"]
        num_unanswerable = sum(not example.answers for example in examples)
        if metrics["best_f1"] == num_unanswerable / len(examples):
            # Leaving every question unanswered is best. The official script then returns 0, which is below
            # all probabilities, but these scores can be negative.
            lowest = min(prediction["no_answer_score"] for prediction in predictions)
            self.no_answer_threshold = min(0.0, lowest - 1.0)
        return True

    @classmethod
    def constant_predictions(
        cls, train: Sequence[QuestionExample], examples: Sequence[QuestionExample]
    ) -> tuple[str, list[Prediction]] | None:
        """Return no answer for each question; None if all questions of train have answers."""
        if all(example.answers for example in train):
            return None
        return "never an answer", [{"answer": "", "no_answer_score": _CERTAINLY_NO_ANSWER} for _ in examples]

    def outcome(self, example: QuestionExample, prediction: Mapping[str, Any]) -> Outcome:
        """Return the predicted answer beside the right ones."""
        return span_outcome(example, prediction, allows_no_answer=self.allows_no_answer)

    def collapse_reason(
        self,
        examples: Sequence[QuestionExample],
        predictions: Sequence[Mapping[str, Any]],
        loss: float,  # noqa: ARG002
    ) -> str | None:
        """Return a message if all questions or none are answered, although only some have an answer."""
        if not self.allows_no_answer:
            return None
        return identical_predictions(
            [bool(prediction["answer"]) for prediction in predictions],
            [bool(example.answers) for example in examples],
            lambda is_answered: "a span" if is_answered else "no answer",
        )


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(scores - scores.max(initial=-np.inf))
    return np.asarray(exponentials / exponentials.sum())
