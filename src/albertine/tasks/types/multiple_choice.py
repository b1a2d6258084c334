"""Multiple choice: one option of a question, where each option is a sequence with passage and question.

A passage that is too long is truncated at its end. Question and option stay complete, unless they alone
exceed the maximum length: then their beginning is cut.

All questions have the same number of options, except for a model of `transformers`, which states
none: it scores each option by itself, as a sample of its own, so that a question may have any number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine import progress
from albertine.display import counted
from albertine.errors import InputError
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.card import ANY_OPTIONS, TaskCard
from albertine.tasks.examples import Example, MultipleChoiceExample
from albertine.tasks.formats.cells import example_id, option_columns, parse_option, parse_options
from albertine.tasks.formats.rows import TableRow
from albertine.tasks.outcomes import Decision, Outcome, cut_answer, excerpt
from albertine.tasks.sequences import EncodedExample, Ids, SequenceBuilder, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.inputs import (
    EXAMPLE_CONTEXT,
    EXAMPLE_QUESTION,
    InputField,
    check_texts,
    input_location,
    is_list,
)
from albertine.tasks.types.json_schema import COUNT, PROBABILITY, TEXT, Schema, array_of, object_of
from albertine.tasks.types.task_type import (
    Metrics,
    Prediction,
    SampleScores,
    TaskType,
    column_options,
    identical_predictions,
    most_common,
    require_label,
)
from albertine.text.read_errors import ReadErrors
from albertine.text.tokenizer import Tokenizer

_NUM_SPECIAL_TOKENS = 3  # [CLS] and two [SEP]
_MIN_PER_OPTION = 8  # answers; with so many, one that never occurs is no chance
_OPTIONAL_TEXTS = ("context", "question")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_EXAMPLE_OPTIONS = ("in the drawer", "in the garden", "at the market", "on the table", "under the bed")


def _num_options(example: Example) -> int:
    assert isinstance(example, MultipleChoiceExample)
    return len(example.options)


class MultipleChoice(TaskType):
    """The task type "choice": one option of a question; see above for their number."""

    name = "choice"
    title = "multiple choice"
    head_kind = "choice"
    has_parts = True
    similar_task = "race"
    table_columns = ("option", "text", "probability")
    column_settings = ("context", "question", "options", "label", "id")
    optional_columns = ("context", "question", "id")
    prediction_description = "which option"
    objectives = ("choice",)

    def __init__(self, tokenizer: Tokenizer, num_options: int, max_length: int, dropout: float):
        self._builder = SequenceBuilder(tokenizer, max_length)
        self._num_options = num_options
        self.head_settings = HeadSettings("choice", labels=1, options=num_options, dropout=dropout)

    @classmethod
    def from_card(
        cls,
        card: TaskCard,
        tokenizer: Tokenizer,
        *,
        answerable: bool,  # noqa: ARG003
        dropout: float,
    ) -> "MultipleChoice":
        """Return the task type of a model, from its task card."""
        return cls(tokenizer, card.num_options, card.max_length, dropout)

    @classmethod
    def complete_card(
        cls,
        card: TaskCard,
        examples: Sequence[MultipleChoiceExample],
        source: str,  # noqa: ARG003
    ) -> TaskCard:
        """Return the card with the number of options, and with what every question has."""
        always_given = tuple(
            name for name in _OPTIONAL_TEXTS if all(getattr(example, name) for example in examples)
        )
        return replace(card, num_options=len(examples[0].options), always_given=always_given)

    @classmethod
    def required_columns(cls, columns: DataSettings, *, require_labels: bool) -> dict[str, str]:
        """Return the columns of options and label, and those of passage and question if they are named.

        Args:
            columns: settings that hold the names of the columns.
            require_labels: whether the table must have a column of labels.
        """
        named = [name for name in _OPTIONAL_TEXTS if name in columns.explicit_keys]
        required = column_options(columns, *named, *(["label"] if require_labels else []))
        return required | dict.fromkeys(option_columns(columns), "--options")

    @classmethod
    def example_from_row(
        cls, row: TableRow, columns: DataSettings, *, require_labels: bool
    ) -> MultipleChoiceExample:
        """Return the question of a row."""
        options = parse_options(row, columns)
        correct_option = parse_option(row.cells.get(columns.label), options) if require_labels else None
        context, question = (
            "" if row.cells.get(name) is None else row.text(name)
            for name in (columns.context, columns.question)
        )
        return MultipleChoiceExample(
            row.location, example_id(row, columns), context, question, options, correct_option
        )

    @classmethod
    def consistent_examples(
        cls, examples: Iterable[Example], num_options: int | None, errors: ReadErrors
    ) -> Iterator[Example]:
        """Yield the questions with the same number of options; a head chooses among a fixed number.

        If there are only options, print a message: the columns of passage and question may have other names.

        Args:
            examples: all questions.
            num_options: number of options of each question, or `ANY_OPTIONS`; if None, that of most
                questions, all of which are then read first.
            errors: handles the questions with another number of options.
        """
        if num_options is None:
            examples = list(examples)
            num_options = most_common(map(_num_options, examples)) if examples else None
        only_options = False
        num_labeled = num_first = 0
        for index, example in enumerate(examples):
            assert isinstance(example, MultipleChoiceExample)
            only_options = (only_options or index == 0) and not (example.context or example.question)
            num_labeled += example.is_labeled
            num_first += example.correct_option == 0
            if num_options in (len(example.options), ANY_OPTIONS):
                yield example
            else:
                errors.handle(
                    example.location, f"{len(example.options)} options, where others have {num_options}"
                )
        if num_options and not num_first and num_labeled >= _MIN_PER_OPTION * num_options:
            progress.print_message(
                f"none of {num_labeled:,} answers is the first option; if they are numbers that begin with "
                "1, subtract 1 or write letters: here, numbers begin with 0"
            )
        if only_options:
            progress.print_message(
                "no example has a passage or a question, so only the options are compared; "
                "--context and --question name their columns"
            )

    def encode(self, examples: Sequence[MultipleChoiceExample]) -> list[EncodedExample]:
        """Return one sample for each question, with a sequence for each option, or one for each option."""
        texts = [
            text for example in examples for text in (example.context, example.question, *example.options)
        ]
        token_ids = iter(self._builder.encode(texts))
        encoded = []
        for example in examples:
            if self._num_options not in (len(example.options), ANY_OPTIONS):
                raise InputError(
                    f"{example.location}: {len(example.options)} options, "
                    f"where others have {self._num_options}"
                )
            context, question = next(token_ids), next(token_ids)
            options = [next(token_ids) for _ in example.options]
            sequences = [self._build_sequence(context, question, option) for option in options]
            ids, segments, parts = zip(*sequences, strict=True)
            longest = len(context) + len(question) + max(map(len, options)) + _NUM_SPECIAL_TOKENS
            num_truncated = max(0, longest - self._builder.max_length)
            samples: tuple[TaskSample, ...] = (TaskSample(ids, segments, example.correct_option, parts),)
            if self._num_options == ANY_OPTIONS:
                samples = tuple(
                    TaskSample((option_ids,), (option_segments,), parts=(option_parts,))
                    for option_ids, option_segments, option_parts in sequences
                )
            encoded.append(EncodedExample(samples, num_truncated_tokens=num_truncated))
        return encoded

    def _build_sequence(self, context: Ids, question: Ids, option: Ids) -> tuple[Ids, Ids, Ids]:
        """Return token ids, segments and parts of `[CLS] context [SEP] question option [SEP]`.

        The parts are passage, question and option: the start and end of each, `[3, 2]`.
        """
        question_and_option = np.concatenate([question, option])
        max_tokens = self._builder.max_length - _NUM_SPECIAL_TOKENS
        if len(question_and_option) > max_tokens:  # too long even without the passage
            question_and_option = question_and_option[-max_tokens:]
        context = context[: max_tokens - len(question_and_option)]
        ids, segments = self._builder.build(context, question_and_option)
        end = len(ids) - 1
        option_start = max(len(context) + 2, end - len(option))
        bounds = [(1, len(context) + 1), (len(context) + 2, option_start), (option_start, end)]
        return ids, segments, np.array(bounds, np.int32)

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the indices of the correct options, `[samples]`."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.int64)

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return the number of questions."""
        return (len(samples),)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the probabilities of the options for each question, each `[options]`.

        A sample that is one option has its logit instead, `[1]`.
        """
        if self._num_options == ANY_OPTIONS:
            return list(output.logits.float().cpu().numpy())
        return list(output.logits.float().softmax(1).cpu().numpy())

    def prediction(
        self,
        example: MultipleChoiceExample,
        encoded: EncodedExample,  # noqa: ARG002
        scores: Sequence[SampleScores],
    ) -> Prediction:
        """Return the most probable option."""
        probabilities = scores[0]
        if self._num_options == ANY_OPTIONS:
            probabilities = torch.from_numpy(np.concatenate(scores)).softmax(0).numpy()
        best = int(probabilities.argmax())
        return {
            "option": best,
            "letter": _letter(best),
            "text": example.options[best],
            "probability": round(float(probabilities[best]), 6),
            "probabilities": [round(float(probability), 6) for probability in probabilities],
        }

    def parse_inputs(self, inputs: Mapping[str, Any]) -> tuple[list[MultipleChoiceExample], bool]:
        """Return examples from `context`, `question` and `options`; a list of lists of options is a batch."""
        options = inputs.get("options")
        if not options:
            raise InputError("options: missing; a question has at least two")
        is_batch = is_list(options) and is_list(options[0])
        option_lists = options if is_batch else [options]
        if not all(map(is_list, option_lists)):
            raise InputError("options: must be a list of texts, or a list of such lists")
        contexts, questions = (
            _texts_for_questions(name, inputs.get(name), len(option_lists)) for name in _OPTIONAL_TEXTS
        )
        check_texts("context", contexts)
        check_texts("question", questions)
        check_texts("options", [option for option_list in option_lists for option in option_list])
        examples = [
            MultipleChoiceExample(input_location(index), str(index), context, question, tuple(option_list))
            for index, (context, question, option_list) in enumerate(
                zip(contexts, questions, option_lists, strict=True)
            )
        ]
        for example in examples:
            if self._num_options == ANY_OPTIONS and len(example.options) < 2:
                raise InputError(f"options: {len(example.options)}; a question has at least two")
            if self._num_options not in (len(example.options), ANY_OPTIONS):
                raise InputError(
                    f"options: {len(example.options)}; the model chooses between {self._num_options}"
                )
        return examples, is_batch

    def input_fields(self) -> tuple[InputField, ...]:
        """Return the fields of passage, question and options."""
        count = None if self._num_options == ANY_OPTIONS else self._num_options
        padding = ("somewhere else",) * self._num_options
        example_options = [*_EXAMPLE_OPTIONS, *padding][: count or 4]
        return (
            InputField("context", EXAMPLE_CONTEXT, required=False),
            InputField("question", EXAMPLE_QUESTION, required=False),
            InputField("options", "\n".join(example_options), "texts", count=count),
        )

    def prediction_schema(self) -> Schema:
        """Return the JSON schema of a prediction."""
        return object_of(
            {
                "option": COUNT,
                "letter": TEXT,
                "text": TEXT,
                "probability": PROBABILITY,
                "probabilities": array_of(PROBABILITY),
            }
        )

    def compute_metrics(
        self, examples: Sequence[MultipleChoiceExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Return the accuracy, of all questions and of each group."""
        labels = np.array(
            [
                require_label(example.correct_option, example.location, "correct option")
                for example in examples
            ]
        )
        is_correct = labels == np.array([prediction["option"] for prediction in predictions])
        metrics = {"accuracy": float(is_correct.mean())}
        for group in sorted({example.group for example in examples} - {""}, reverse=True):
            in_group = np.array([example.group == group for example in examples])
            metrics[f"accuracy_{group}"] = float(is_correct[in_group].mean())
        return metrics

    @classmethod
    def constant_predictions(
        cls, train: Sequence[MultipleChoiceExample], examples: Sequence[MultipleChoiceExample]
    ) -> tuple[str, list[Prediction]]:
        """Return the option that is most often correct in train for each question."""
        option = most_common(example.correct_option for example in train)
        return f"always option {_letter(option)}", [{"option": option}] * len(examples)

    def outcome(self, example: MultipleChoiceExample, prediction: Mapping[str, Any]) -> Outcome:
        """Return the predicted option beside the right one."""
        correct = require_label(example.correct_option, example.location, "correct option")
        predicted, probability = prediction["option"], prediction["probability"]
        is_right = predicted == correct
        texts = excerpt("passage", example.context), excerpt("question", example.question)
        return Outcome(
            cut_answer(f"{_letter(correct)}: {example.options[correct]}"),
            cut_answer(f"{_letter(predicted)}: {example.options[predicted]}"),
            [shown for shown in texts if shown.text],
            score=float(is_right),
            severity=0.0 if is_right else probability,
            decisions=(Decision(_letter(correct), _letter(predicted), probability, is_right),),
        )

    def collapse_reason(
        self, examples: Sequence[MultipleChoiceExample], predictions: Sequence[Mapping[str, Any]], loss: float
    ) -> str | None:
        """Return a message if the same option is always predicted."""
        return identical_predictions(
            [prediction["option"] for prediction in predictions],
            [example.correct_option for example in examples],
            lambda option: f"option {_letter(option)}",
            loss,
        )


def _letter(option: int) -> str:
    return _LETTERS[option] if option < len(_LETTERS) else str(option)


def _texts_for_questions(name: str, value: Any, count: int) -> Sequence[str]:
    """Return a text for each question: those of a list, or one text (or "") for all."""
    if not is_list(value):
        return ["" if value is None else value] * count
    if len(value) != count:
        texts, lists = counted(len(value), "text"), counted(count, "list")
        raise InputError(f"{name}: {texts} for {lists} of options; give one for each")
    return list(value)
