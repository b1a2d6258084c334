"""Tagging: a tag for each word, predicted at the word's first token."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.display import counted, display_text
from albertine.errors import InputError
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard, has_too_many_labels, sorted_labels
from albertine.tasks.examples import Example, TaggedExample
from albertine.tasks.formats.cells import example_id, parse_words
from albertine.tasks.formats.columns import KeepRequest, MissingColumnError
from albertine.tasks.formats.conll import CONLL_SUFFIXES, read_sentences
from albertine.tasks.formats.data_files import data_suffix
from albertine.tasks.formats.rows import RowError, TableRow
from albertine.tasks.metrics.tagging import entity_type, marks_entities, tagging_metrics
from albertine.tasks.outcomes import Decision, Outcome, cut_answer, excerpt
from albertine.tasks.sequences import EncodedExample, Ids, SequenceBuilder, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.inputs import InputField, check_texts, input_location, is_list
from albertine.tasks.types.json_schema import PROBABILITY, TEXT, Schema, array_of, object_of, one_of
from albertine.tasks.types.task_type import (
    Metrics,
    Prediction,
    SampleScores,
    TaskType,
    column_options,
    identical_predictions,
    most_common,
    require_label,
    unknown_label_error,
)
from albertine.text.read_errors import ReadErrors
from albertine.text.tokenizer import Tokenizer

IGNORE_INDEX = -100  # target of tokens without a tag
_MAX_LISTED_TAGS = 6  # wrong words of an outcome


class Tagging(TaskType):
    """The task type "tag": a tag for each word of a sentence."""

    name = "tag"
    column_settings = ("text", "label", "id")
    title = "tagging"
    head_kind = "token"
    primary_metrics = ()  # depends on the tags
    has_labels = True
    targets_are_labels = True
    scores_per_token = True
    similar_task = "sst-2"
    table_columns = ("tags",)
    prediction_description = "a label for each word"
    decision_unit = "words"
    score_title = "words with the right tag"
    objectives = ("tag",)

    def __init__(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int, dropout: float):
        self._builder = SequenceBuilder(tokenizer, max_length)
        self.labels = tuple(labels)
        self._tag_ids = {tag: index for index, tag in enumerate(self.labels)}
        self.head_settings = HeadSettings("token", labels=len(self.labels), dropout=dropout)

    @classmethod
    def from_card(
        cls,
        card: TaskCard,
        tokenizer: Tokenizer,
        *,
        answerable: bool,  # noqa: ARG003
        dropout: float,
    ) -> "Tagging":
        """Return the task type of a model, from its task card."""
        return cls(tokenizer, card.labels, card.max_length, dropout)

    @classmethod
    def complete_card(cls, card: TaskCard, examples: Sequence[TaggedExample], source: str) -> TaskCard:
        """Return the card with the tags of the examples as labels; raise `InputError` if they are no tags."""
        tags = sorted_labels(tag for example in examples for tag in example.tags or ())
        num_words = sum(len(example.words) for example in examples)
        if len(tags) < 2:
            raise InputError(
                f"{source}: all tags are {display_text(''.join(tags))}; there must be at least two"
            )
        if has_too_many_labels(len(tags), num_words):
            raise InputError(
                f"{source}: {len(tags):,} tags of {num_words:,} words; the last column of a CoNLL file, or "
                "that of --label, must have the tags"
            )
        return replace(card, labels=tags)

    @classmethod
    def read_examples(
        cls,
        source: str,
        columns: DataSettings,
        errors: ReadErrors,
        *,
        require_labels: bool,
        require_ids: bool,
        keep: KeepRequest | None = None,
    ) -> Iterator[Example]:
        """Yield the sentences of a table or of a file in CoNLL's layout."""
        if data_suffix(Path(source)) in CONLL_SUFFIXES:
            yield from read_sentences(Path(source), errors, require_tags=require_labels)
            return
        try:
            yield from super().read_examples(
                source, columns, errors, require_labels=require_labels, require_ids=require_ids, keep=keep
            )
        except MissingColumnError as error:
            if data_suffix(Path(source)) != ".tsv":
                raise
            advice = "if each line has a word and its tag, rename the file to .conll"
            raise MissingColumnError(f"{error}; {advice}") from None

    @classmethod
    def required_columns(cls, columns: DataSettings, *, require_labels: bool) -> dict[str, str]:
        """Return the columns of words and tags, each with its command-line option."""
        return column_options(columns, "text", *(["label"] if require_labels else []))

    @classmethod
    def example_from_row(cls, row: TableRow, columns: DataSettings, *, require_labels: bool) -> TaggedExample:
        """Return the words and the tags of a row."""
        words = parse_words(row.cells.get(columns.text), columns.text)
        tags = parse_words(row.cells.get(columns.label), columns.label) if require_labels else None
        if not words:
            raise RowError("has no words")
        if tags is not None and len(tags) != len(words):
            raise RowError(
                f"{counted(len(words), 'word')} and {counted(len(tags), 'tag')}; each word needs a tag"
            )
        return TaggedExample(row.location, example_id(row, columns), words, tags)

    def encode(self, examples: Sequence[TaggedExample]) -> list[EncodedExample]:
        """Return sentences as samples; a sentence that is too long is split between words."""
        token_ids = iter(self._builder.encode([word for example in examples for word in example.words]))
        unknown = np.array([self._builder.tokenizer.special_ids.unk], np.int32)
        encoded = []
        for example in examples:
            full_words = [next(token_ids) for _ in example.words]
            words = [word[: self._builder.max_length - 2] for word in full_words]
            num_truncated = max((len(a) - len(b) for a, b in zip(full_words, words, strict=True)), default=0)
            # A word has no tokens if the tokenizer ignores all its characters.
            words = [word if len(word) else unknown for word in words]
            if example.tags is None:
                tag_ids = [IGNORE_INDEX] * len(words)
            else:
                tag_ids = [self._tag_id(example, tag) for tag in example.tags]
            chunks = self._chunks(words, tag_ids)
            samples = tuple(self._sample(*chunk) for chunk in chunks)
            encoded.append(EncodedExample(samples, num_truncated_tokens=num_truncated))
        return encoded

    def _tag_id(self, example: TaggedExample, tag: str) -> int:
        tag_id = self._tag_ids.get(tag)
        if tag_id is None:
            raise unknown_label_error(example.location, "tag", tag, self.labels)
        return tag_id

    def _chunks(self, words: list[Ids], tag_ids: list[int]) -> list[tuple[list[Ids], list[int]]]:
        """Return the words and tags of a sentence in chunks that fit into a sequence."""
        chunks: list[tuple[list[Ids], list[int]]] = [([], [])]
        num_tokens, max_tokens = 0, self._builder.max_length - 2
        for word, tag_id in zip(words, tag_ids, strict=True):
            if num_tokens + len(word) > max_tokens:
                chunks.append(([], []))
                num_tokens = 0
            chunks[-1][0].append(word)
            chunks[-1][1].append(tag_id)
            num_tokens += len(word)
        return chunks

    def _sample(self, words: list[Ids], tag_ids: list[int]) -> TaskSample:
        ids, segments = self._builder.build(np.concatenate([np.empty(0, np.int32), *words]))
        first_tokens = 1 + np.cumsum([0, *(len(word) for word in words[:-1])])[: len(words)]
        # Row 0 has the tag ids at the first tokens of words. Row 1 is 1 there, also for unlabeled words.
        target = np.full((2, len(ids)), IGNORE_INDEX, np.int64)
        target[0, first_tokens], target[1, first_tokens] = tag_ids, 1
        return TaskSample((ids,), (segments,), target)

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the tag id of each token, `[tokens]`: `IGNORE_INDEX` except at the first token of a word."""
        tag_ids = [sample.target[0] for sample in samples]
        return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *tag_ids]))

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return the number of tagged words."""
        return (sum(int((sample.target[0] != IGNORE_INDEX).sum()) for sample in samples),)

    def sample_losses(self, output: PredictionOutput, targets: Tensor, strip: Strip) -> Sequence[Tensor]:
        """Return the sum over the words of each sample of the cross-entropy of their tags, [samples]."""
        (token_losses,) = super().sample_losses(output, targets, strip)
        return (strip.pad(token_losses).sum(1),)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:
        """Return the probabilities of the tags for each token of each sample, each `[tokens * tags]`."""
        probabilities = output.logits.float().softmax(1).cpu().numpy()
        boundaries = strip.offsets[1:-1].numpy()
        return [sample.reshape(-1) for sample in np.split(probabilities, boundaries)]

    def prediction(
        self, example: TaggedExample, encoded: EncodedExample, scores: Sequence[SampleScores]
    ) -> Prediction:
        """Return the most probable tag of each word."""
        at_first_tokens = []
        for sample, sample_scores in zip(encoded.samples, scores, strict=True):
            token_probabilities = sample_scores.reshape(-1, len(self.labels))
            at_first_tokens.append(token_probabilities[sample.target[1] == 1])
        word_probabilities = np.concatenate(at_first_tokens)  # [words, tags]
        best = word_probabilities.argmax(1)
        return {
            "words": list(example.words),
            "tags": [self.labels[tag_id] for tag_id in best],
            "probabilities": [
                round(float(probabilities[tag_id]), 6)
                for probabilities, tag_id in zip(word_probabilities, best, strict=True)
            ],
        }

    def parse_inputs(self, inputs: Mapping[str, Any]) -> tuple[list[TaggedExample], bool]:
        """Return examples from `text`: a sentence, a list of words, or a list of lists of words."""
        text = inputs.get("text")
        if text is None:
            raise InputError("text: missing; give a sentence or a list of words")
        is_batch = is_list(text) and bool(text) and is_list(text[0])
        if not isinstance(text, str) and not is_list(text):
            raise InputError(f"text: must be a sentence or a list of words, not {type(text).__name__}")
        sentences = [
            tuple(sentence.split() if isinstance(sentence, str) else sentence)
            for sentence in (text if is_batch else [text])
        ]
        words = [word for sentence in sentences for word in sentence]
        check_texts("text", words)
        # A word may hold a space, as some numbers do; where most do, they are sentences.
        spaced = [word for word in words if " " in word]
        if 2 * len(spaced) > len(words):
            raise InputError(
                f"text: {display_text(spaced[0])} is not one word; a list holds the words of one sentence; "
                "for several sentences, give a list of lists of words"
            )
        examples = [
            TaggedExample(input_location(index), str(index), words) for index, words in enumerate(sentences)
        ]
        return examples, is_batch

    def input_fields(self) -> tuple[InputField, ...]:
        """Return the field of the sentence."""
        return (InputField("text", "Ida went to the market in Hull .", "words"),)

    def prediction_schema(self) -> Schema:
        """Return the JSON schema of a prediction."""
        return object_of(
            {
                "words": array_of(TEXT),
                "tags": array_of(one_of(self.labels)),
                "probabilities": array_of(PROBABILITY),
            }
        )

    def compute_metrics(
        self, examples: Sequence[TaggedExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Return the accuracy per word and, if tags have prefixes such as B- and I-, metrics of entities."""
        tags = [require_label(example.tags, example.location, "tags") for example in examples]
        return tagging_metrics(tags, [prediction["tags"] for prediction in predictions], self.labels)

    @classmethod
    def selecting_metrics(cls, card: TaskCard) -> tuple[str, ...]:
        """Return the accuracy per word and, if the tags mark entities, the metrics of entities."""
        of_entities = ("f1", "precision", "recall") if marks_entities(card.labels) else ()
        return (*of_entities, "accuracy")

    @classmethod
    def primary_metric_names(cls, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """Return the F1 of entities, or the accuracy per word if tags mark no entities."""
        return ("f1",) if "f1" in metrics else ("accuracy",)

    @classmethod
    def constant_predictions(
        cls, train: Sequence[TaggedExample], examples: Sequence[TaggedExample]
    ) -> tuple[str, list[Prediction]]:
        """Return the most common tag of train for each word."""
        tag = most_common(tag for example in train for tag in example.tags or ())
        return f"always \u201c{cut_answer(tag)}\u201d", [
            {"tags": [tag] * len(example.words)} for example in examples
        ]

    def outcome(self, example: TaggedExample, prediction: Mapping[str, Any]) -> Outcome:
        """Return the predicted tags of wrong words beside the right ones.

        Decisions are between types: the tags B-PER and I-PER are both PER.
        """
        tags = require_label(example.tags, example.location, "tags")
        words = list(zip(example.words, tags, prediction["tags"], prediction["probabilities"], strict=True))
        wrong = [word for word in words if word[1] != word[2]]
        ends = list(accumulate(len(word) + 1 for word in example.words))
        marks = [
            (end - 1 - len(word[0]), end - 1)
            for end, word in zip(ends, words, strict=True)
            if word[1] != word[2]
        ]
        return Outcome(
            _tag_list([(word, tag) for word, tag, _, _ in wrong]),
            _tag_list([(word, tag) for word, _, tag, _ in wrong]),
            (excerpt("", " ".join(example.words), marks),),
            score=1 - len(wrong) / max(1, len(words)),
            severity=max((probability for _, _, _, probability in wrong), default=0.0),
            decisions=[
                Decision(entity_type(tag), entity_type(predicted), probability, tag == predicted)
                for _, tag, predicted, probability in words
            ],
        )

    def collapse_reason(
        self, examples: Sequence[TaggedExample], predictions: Sequence[Mapping[str, Any]], loss: float
    ) -> str | None:
        """Return a message if all predicted tags are the same."""
        predicted_tags = [tag for prediction in predictions for tag in prediction["tags"]]
        tags = [tag for example in examples for tag in example.tags or ()]
        return identical_predictions(predicted_tags, tags, str, loss)


def _tag_list(tagged_words: Sequence[tuple[str, str]]) -> str:
    """Return words with their tags as text; of many, only the first ones."""
    listed = ", ".join(f"{word}: {tag}" for word, tag in tagged_words[:_MAX_LISTED_TAGS])
    more = len(tagged_words) - _MAX_LISTED_TAGS
    return cut_answer(listed) + (f" and {more:,} more" if more > 0 else "")
