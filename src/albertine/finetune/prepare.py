"""From what a person names to what runs need: examples, encoded once for all of them, and the model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from albertine import progress
from albertine.errors import InputError
from albertine.finetune.paper_defaults import task_defaults
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load_checkpoint
from albertine.interop.transformers_config import checkpoint_model_settings
from albertine.model.model import Model
from albertine.randomness import random_bits, uniform
from albertine.settings import MODEL_PRESETS, HeadSettings, ModelSettings
from albertine.tasks.card import COLUMN_SETTINGS, TaskCard, sorted_labels
from albertine.tasks.examples import (
    Example,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from albertine.tasks.registry import Task, find_task, is_unlabelled
from albertine.tasks.settings import DataSettings, FinetuneSettings
from albertine.tasks.types.task_type import EncodedExample, TaskType, batched
from albertine.text.documents import ReadErrors
from albertine.text.tokenizer import Tokenizer, load_tokenizer

_HELD_OUT_STREAM = 11  # what the hash is asked for
_ENCODING_CHUNK = 2048
_MAX_LABELS = 20  # labels, of which no two examples need have the same


@dataclass(frozen=True)
class FinetuneData:
    """What runs on one task and one checkpoint share.

    Attributes:
        checkpoint: the checkpoint to start from.
        tokenizer: its.
        model_settings: its network's settings.
        task: what it is tuned on.
        card: the task as the tuned model will know it.
        task_type: what encodes and reads.
        train: sheets to learn from.
        dev: examples and sheets to measure on.
    """

    checkpoint: Path
    tokenizer: Tokenizer
    model_settings: ModelSettings
    task: Task
    card: TaskCard
    task_type: TaskType
    train: Sequence[EncodedExample]
    dev: Sequence[tuple[Example, EncodedExample]]

    @property
    def num_samples(self) -> int:
        """How many samples there are to learn from."""
        return sum(len(sheet.samples) for sheet in self.train)


def prepare_task(source: str | None, settings: FinetuneSettings) -> FinetuneData:
    """Read the examples, find the labels, encode everything."""
    task = find_task(settings.task)
    folder = _find_checkpoint(source, settings.init_from)
    tokenizer, model_settings = load_tokenizer(folder), checkpoint_model_settings(folder)
    train, dev = _train_and_dev_examples(task, settings)
    max_length = _max_length(settings, task, model_settings)
    card = build_card(task, [*train, *dev], settings, max_length)  # a rare label may be in one of them alone
    dropout = 0.1 if settings.classifier_dropout is None else settings.classifier_dropout
    task_type = card.create_task_type(tokenizer, answerable=card.allows_no_answer, dropout=dropout)
    encoded_train, encoded_dev = (_encode(task_type, each) for each in (train, dev))
    pairs = list(zip(dev, encoded_dev, strict=True))
    return FinetuneData(folder, tokenizer, model_settings, task, card, task_type, encoded_train, pairs)


def _find_checkpoint(source: str | None, init_from: str | None) -> Path:
    if source is not None and init_from is not None:
        raise InputError(f"{source} and --init-from {init_from}: two models to start from; give one")
    wanted = source or init_from
    if wanted is None:
        raise InputError("MODEL is missing: a run, a checkpoint's folder or a hub name to start from")
    if wanted in MODEL_PRESETS:
        raise InputError(f"{wanted}: a preset, with nothing learned and no tokenizer; name a checkpoint")
    return locate_checkpoint(wanted)


def _max_length(settings: FinetuneSettings, task: Task, model_settings: ModelSettings) -> int:
    max_length = settings.sequence.max_length
    if max_length is not None and max_length > model_settings.max_length:
        raise InputError(
            f"--reading.max-length {max_length}: the model takes {model_settings.max_length} pieces"
        )
    return max_length or min(task_defaults(task.name).max_length, model_settings.max_length)


def load_examples(
    task: Task,
    data: str,
    split_name: str,
    settings: DataSettings,
    *,
    require_labels: bool,
    num_options: int | None = None,
) -> list[Example]:
    """Read all examples of a part, at least one; questions have so many options, or as many as the first."""
    troubles = ReadErrors(skip=settings.on_error == "skip")
    examples = with_equal_options(
        task.read_examples(data, split_name, settings, troubles, require_labels=require_labels),
        num_options,
        troubles,
    )
    found = list(progress.track(examples, f"Reading {split_name}", unit="examples"))
    report_skipped(troubles)
    if not found:
        raise InputError(f"{data}: no examples in {split_name}")
    unlabelled = next((one for one in found if require_labels and is_unlabelled(one)), None)
    if unlabelled is not None:
        raise InputError(
            f"{unlabelled.location}: does not say what is right, which training and scoring need"
        )
    return found


def with_equal_options(
    examples: Iterable[Example], num_options: int | None, troubles: ReadErrors
) -> Iterator[Example]:
    """Yield all but questions with another number of options, among which one network cannot choose."""
    for one in examples:
        if isinstance(one, MultipleChoiceExample):
            num_options = num_options or len(one.options)
            if len(one.options) != num_options:
                troubles.handle(one.location, f"{len(one.options)} options, where others have {num_options}")
                continue
        yield one


def report_skipped(troubles: ReadErrors) -> None:
    """Say what was left out."""
    if troubles.count:
        progress.print_message(f"{troubles.count:,} rows left out, as {troubles.locations[0]}")


def _train_and_dev_examples(task: Task, settings: FinetuneSettings) -> tuple[list[Example], list[Example]]:
    """Return examples to learn from, and to measure on."""
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, a file, or hub:OWNER/NAME")
    dev_split = task.split_names("dev", settings.dev or settings.data)[0]
    train = load_examples(task, settings.data, "train", settings, require_labels=True)
    has_dev = task.is_official and (Path(settings.data).is_dir() or settings.data.startswith("hub:"))
    dev = settings.dev or (settings.data if has_dev else None)
    if dev is not None:
        num_options = len(train[0].options) if isinstance(train[0], MultipleChoiceExample) else None
        return train, load_examples(
            task, dev, dev_split, settings, require_labels=True, num_options=num_options
        )
    if len(train) < 2:
        raise InputError(f"{settings.data}: one example, and none to measure on; name --dev")
    random_values = uniform(random_bits(settings.train.seed, _HELD_OUT_STREAM, np.arange(len(train))))
    count = min(len(train) - 1, max(1, round(settings.held_out * len(train))))
    held_out_indices = set(np.argsort(random_values, kind="stable")[:count].tolist())
    progress.print_message(f"{settings.data}: {count:,} of {len(train):,} examples held out to measure on")
    return (
        [one for at, one in enumerate(train) if at not in held_out_indices],
        [one for at, one in enumerate(train) if at in held_out_indices],
    )


def build_card(
    task: Task, examples: Sequence[Example], settings: FinetuneSettings, max_length: int
) -> TaskCard:
    """Return a task's card; labels of one's own are those of the examples."""
    labels, metric_names = task.labels, task.metric_names
    num_options, allows_no_answer = 4, task.allows_no_answer
    first = examples[0]
    match first:
        case TextExample() if task.type_name == "classify" and not labels:
            labels = sorted_labels([one.label for one in examples if isinstance(one, TextExample)])
            metric_names = (*metric_names, "f1") if len(labels) == 2 else metric_names
            if len(labels) > max(_MAX_LABELS, len(examples) / 2):
                raise InputError(
                    f"{settings.data}: {len(labels):,} labels in {len(examples):,} examples; "
                    "name the right column with --label, or take --task regress for numbers"
                )
            if len(labels) < 2:
                raise InputError(f"{settings.data}: all labels are {labels[0]}; there must be two at least")
        case TaggedExample():
            labels = sorted_labels(
                [tag for one in examples if isinstance(one, TaggedExample) for tag in one.tags or ()]
            )
        case MultipleChoiceExample():
            num_options = len(first.options)
        case QuestionExample() if not task.is_official:
            allows_no_answer = any(isinstance(one, QuestionExample) and one.answers == () for one in examples)
    columns = {key: getattr(settings, key) for key in COLUMN_SETTINGS}
    return TaskCard(
        task=task.name,
        type_name=task.type_name,
        labels=labels,
        metric_names=metric_names,
        num_options=num_options,
        allows_no_answer=allows_no_answer,
        max_length=max_length,
        sequence=replace(settings.sequence, max_length=max_length),
        columns=columns,
    )


def _encode(task_type: TaskType, examples: Sequence[Example]) -> list[EncodedExample]:
    chunks = progress.track(
        list(batched(examples, _ENCODING_CHUNK)), "Encoding", unit=f"times {_ENCODING_CHUNK:,} examples"
    )
    return [sheet for chunk in chunks for sheet in task_type.encode(chunk)]


def build_model(
    prepared: FinetuneData, head: HeadSettings, dropout: float, seed: int, *, random_weights: bool = False
) -> Model:
    """Return the checkpoint's network under the task's head, its own dropout, and maybe fresh weights."""
    settings = replace(prepared.model_settings, dropout=dropout, attention_dropout=dropout)
    if random_weights:
        model = Model(settings, head, seed=seed)
    else:
        loaded = load_checkpoint(prepared.checkpoint, head, seed=seed)
        settings = replace(loaded.settings, dropout=dropout, attention_dropout=dropout)
        model = Model(settings, head, seed=None)
        model.load_state_dict(loaded.state_dict())
    model.label_names = prepared.card.labels
    return model
