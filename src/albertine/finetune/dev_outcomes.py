"""Computes the predictions of a fine-tuned model on dev: scores, choices, and the worst errors.

Of a large dev a sample is scored, so that time, memory and the size of the file are bounded.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albertine import progress
from albertine.checksums import file_checksum
from albertine.engines.selection import prepare_engine
from albertine.errors import InputError
from albertine.finetune.dev_predictions import (
    ConstantResult,
    DecisionColumns,
    DevPredictions,
    ExampleColumns,
    WorstError,
    WorstText,
)
from albertine.finetune.finetuning import samples_digest
from albertine.finetune.prepare import FinetuneData, encode_examples
from albertine.finetune.settings import FinetuneSettings
from albertine.finetune.train_and_dev import train_and_dev_examples
from albertine.interop.load import load_checkpoint
from albertine.randomness import Stream, random_bits
from albertine.settings.engine import EngineOptions
from albertine.tasks.checkpoint_card import read_card
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example
from albertine.tasks.outcomes import Decision, Outcome, cut_answer
from albertine.tasks.registry import create_task_type, find_task
from albertine.tasks.scorer import Scorer
from albertine.tasks.sequences import EncodedExample, TaskSample
from albertine.tasks.types.task_type import Prediction, TaskType
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.train.checkpoints import MODEL_FILE, CheckpointStore

MAX_EXAMPLES = 10_000
MAX_CHARACTERS = 8_000_000  # of the texts of the examples
MAX_DECISIONS = 200_000
_MAX_WORST = 20
_CHUNK_SIZE = 1024  # examples
_MAX_ID_LENGTH = 64  # characters

Scored = tuple[Example, EncodedExample, Prediction]


def predict_dev(
    folder: Path,
    train: Sequence[Example],
    dev: Sequence[tuple[Example, EncodedExample]],
    device: str = "auto",
) -> DevPredictions:
    """Return the predictions of a fine-tuned model on dev, or on a sample of it.

    Args:
        folder: folder of the model.
        train: its training examples, from which a constant prediction is taken.
        dev: labeled examples, each with its encoding.
        device: where the model runs.
    """
    model = load_checkpoint(folder)
    card = read_card(folder, model.settings, model.head_settings, model.label_names)
    tokenizer = load_tokenizer(folder, model.settings.vocab_size)
    engine = prepare_engine(model, EngineOptions(device, card.precision or "auto"))
    task_type = create_task_type(card, tokenizer, answerable=model.head_settings.answerable)
    scored = list(_predictions(Scorer(engine, task_type), task_type, [dev[one] for one in sampled(dev)]))
    return _summary(folder, card.task, task_type, tokenizer, train, dev, scored)


def evaluated_dev(folder: Path, data: FinetuneData, predictions: Sequence[Prediction]) -> DevPredictions:
    """Return what `predict_dev` does, from the predictions of an evaluation of the same model.

    Args:
        folder: folder of the model.
        data: the task with its dev; its task type has evaluated the model.
        predictions: the prediction for each example of dev.
    """
    scored = [(*data.dev[index], predictions[index]) for index in sampled(data.dev)]
    return _summary(
        folder, data.card.task, data.task_type, data.tokenizer, data.train_examples, data.dev, scored
    )


def _summary(
    folder: Path,
    task: str,
    task_type: TaskType,
    tokenizer: Tokenizer,
    train: Sequence[Example],
    dev: Sequence[tuple[Example, EncodedExample]],
    scored: Sequence[Scored],
) -> DevPredictions:
    """Return the predictions for the scored examples of dev, with the choices and the worst errors."""
    counts = EncodingCounts(tokenizer.special_ids)
    counts.add([encoded for _, encoded, _ in scored])
    outcomes = [task_type.outcome(example, prediction) for example, _, prediction in scored]
    return DevPredictions(
        task=task,
        model_sha256=file_checksum(folder / MODEL_FILE),
        num_dev=len(dev),
        num_truncated=counts.num_truncated_examples,
        unknown_share=counts.unknown_share,
        constant=_constant_result(task_type, train, [example for example, _ in dev]),
        examples=_example_columns(scored, outcomes),
        decisions=decision_columns(outcomes),
        num_wrong=sum(outcome.severity > 0 for outcome in outcomes),
        worst=_worst_errors([example for example, _, _ in scored], outcomes),
    )


def predict_dev_of_run(folder: Path, run: Path, settings: FinetuneSettings) -> DevPredictions:
    """Return the predictions on dev of a model, from the data in the settings of its run.

    Raises `InputError` if these are not the examples that the run held out.

    Args:
        folder: folder of the model.
        run: folder of the run that trained it.
        settings: settings of the run, with the seed that selected its held-out examples.
    """
    model = load_checkpoint(folder)
    card = read_card(folder, model.settings, model.head_settings, model.label_names)
    tokenizer = load_tokenizer(folder, model.settings.vocab_size)
    task_type = create_task_type(card, tokenizer, answerable=model.head_settings.answerable)
    train, dev = train_and_dev_examples(find_task(card.task), settings)
    encoded = encode_examples(task_type, tokenizer, dev, "dev")
    _check_held_out(run, [sample for example in encoded for sample in example.samples], settings)
    return predict_dev(folder, train, list(zip(dev, encoded, strict=True)))


def _check_held_out(run: Path, samples: Sequence[TaskSample], settings: FinetuneSettings) -> None:
    """Raise `InputError` unless these are the samples that a run held out."""
    checkpoint = CheckpointStore(run, 1).newest_valid()
    fingerprint = checkpoint.state.get("data_fingerprint") if checkpoint else None
    known = fingerprint.get("held_out_sha256") if isinstance(fingerprint, dict) else None
    if known is None:
        raise InputError(f"{run}: has no checkpoint, which tells what it held out")
    if known != samples_digest(samples):
        raise InputError(
            f"{settings.dev or settings.data}: not the examples that the run held out; "
            "the data or the version of Albertine has changed"
        )


def sampled(dev: Sequence[tuple[Example, EncodedExample]]) -> list[int]:
    """Return the indices of all examples, or of a random part, in order, if they are too many or too long."""
    num_characters = sum(example.length for example, _ in dev)
    share = min(1.0, MAX_EXAMPLES / max(1, len(dev)), MAX_CHARACTERS / max(1, num_characters))
    return _random_part(len(dev), int(share * len(dev)), Stream.REPORT_EXAMPLES)


def _random_part(total: int, count: int, stream: Stream) -> list[int]:
    """Return `count` of the numbers below `total`, at least one, in order; the same ones in every call."""
    if count >= total:
        return list(range(total))
    order = np.argsort(random_bits(0, stream, np.arange(total)), kind="stable")
    return [int(index) for index in np.sort(order[: max(1, count)])]


def _predictions(
    scorer: Scorer, task_type: TaskType, pairs: Sequence[tuple[Example, EncodedExample]]
) -> Iterator[Scored]:
    starts = progress.track(list(range(0, len(pairs), _CHUNK_SIZE)), "Predictions on dev", unit="chunks")
    for start in starts:
        chunk = pairs[start : start + _CHUNK_SIZE]
        for (example, each), scores in zip(chunk, scorer.score([each for _, each in chunk]), strict=True):
            yield example, each, task_type.prediction(example, each, scores)


def _constant_result(
    task_type: TaskType, train: Sequence[Any], examples: Sequence[Any]
) -> ConstantResult | None:
    constant = task_type.constant_predictions(train, examples)
    if constant is None:
        return None
    description, predictions = constant
    return ConstantResult(description, task_type.compute_metrics(examples, predictions))


def _example_columns(scored: Sequence[Scored], outcomes: Sequence[Outcome]) -> ExampleColumns:
    return ExampleColumns(
        ids=[example.example_id[:_MAX_ID_LENGTH] for example, _, _ in scored],
        lengths=[example.length for example, _, _ in scored],
        truncated_tokens=[encoded.num_truncated_tokens for _, encoded, _ in scored],
        scores=[round(outcome.score, 6) for outcome in outcomes],
        expected_numbers=_numbers(outcome.expected_number for outcome in outcomes),
        predicted_numbers=_numbers(outcome.predicted_number for outcome in outcomes),
    )


def _numbers(numbers: Iterable[float | None]) -> list[float]:
    return [number for number in numbers if number is not None]


def decision_columns(outcomes: Sequence[Outcome]) -> DecisionColumns:
    """Return the choices of outcomes, or a random part of them if there are more than `MAX_DECISIONS`."""
    decisions: list[Decision] = [decision for outcome in outcomes for decision in outcome.decisions]
    kept = _random_part(len(decisions), MAX_DECISIONS, Stream.REPORT_DECISIONS)
    decisions = [decisions[index] for index in kept]
    names = {name for decision in decisions for name in (decision.expected, decision.predicted)}
    index_by_name = {name: index for index, name in enumerate(sorted(names))}
    return DecisionColumns(
        [cut_answer(name) for name in index_by_name],
        [index_by_name[decision.expected] for decision in decisions],
        [index_by_name[decision.predicted] for decision in decisions],
        [round(min(1.0, max(0.0, decision.probability)), 4) for decision in decisions],
        [decision.is_right for decision in decisions],
    )


def _worst_errors(examples: Sequence[Example], outcomes: Sequence[Outcome]) -> list[WorstError]:
    wrong = [number for number, outcome in enumerate(outcomes) if outcome.severity > 0]
    worst = heapq.nlargest(_MAX_WORST, wrong, key=lambda number: outcomes[number].severity)
    return [_worst_error(examples[number], outcomes[number]) for number in worst]


def _worst_error(example: Example, outcome: Outcome) -> WorstError:
    is_one_choice = len(outcome.decisions) == 1
    return WorstError(
        example.example_id[:_MAX_ID_LENGTH],
        outcome.expected,
        outcome.predicted,
        outcome.decisions[0].probability if is_one_choice else None,
        [WorstText(text.name, text.text, [list(mark) for mark in text.marks]) for text in outcome.texts],
    )
