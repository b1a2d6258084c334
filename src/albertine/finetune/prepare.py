"""Prepares fine-tuning: encodes the examples once for all runs, and builds the model that a run trains."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from albertine import progress
from albertine.display import counted
from albertine.errors import InputError, did_you_mean
from albertine.finetune.class_weights import check_class_weights
from albertine.finetune.paper_defaults import (
    classifier_dropout,
    selecting_metric,
    task_defaults,
)
from albertine.finetune.rare_labels import rare_label_messages
from albertine.finetune.settings import FinetuneSettings
from albertine.finetune.train_and_dev import evaluation_data, train_and_dev_examples
from albertine.finetune.two_texts import (
    check_has_second_texts,
    check_head,
    check_pairs,
    check_parts,
    check_segments,
    has_text_pairs,
    with_marks,
)
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load_checkpoint
from albertine.interop.transformers_config import checkpoint_model_settings
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.tasks.card import COLUMN_SETTINGS, TaskCard
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example, example_chunks
from albertine.tasks.label_spelling import doubtful_labels
from albertine.tasks.metrics.intervals import wilson_interval
from albertine.tasks.registry import create_task_type, find_task, task_of_card
from albertine.tasks.sequences import EncodedExample, TaskSample
from albertine.tasks.task import Task
from albertine.tasks.types.task_type import TaskType
from albertine.text.tokenizer import Tokenizer, load_tokenizer

_ENCODING_CHUNK = 2048  # examples
_FEW_EXAMPLES = 50  # for evaluation
_MATCH = "encoder.embedding.match"  # parameter of a model that marks matches


@dataclass(frozen=True)
class FinetuneData:
    """Checkpoint, task and encoded examples, which all runs share.

    Attributes:
        checkpoint: folder of the checkpoint to start from.
        tokenizer: tokenizer of the checkpoint.
        model_settings: settings of the checkpoint's encoder.
        task: the task.
        card: task card that the fine-tuned models get.
        task_type: encodes examples and computes predictions from scores.
        train: training examples.
        dev: evaluation examples, each with its encoding.
        train_examples: training examples before their encoding.
    """

    checkpoint: Path
    tokenizer: Tokenizer
    model_settings: ModelSettings
    task: Task
    card: TaskCard
    task_type: TaskType
    train: Sequence[EncodedExample]
    dev: Sequence[tuple[Example, EncodedExample]]
    train_examples: Sequence[Example]

    @property
    def train_samples(self) -> list[TaskSample]:
        """The training samples."""
        return [sample for encoded in self.train for sample in encoded.samples]

    @property
    def dev_samples(self) -> list[TaskSample]:
        """The samples of the evaluation examples."""
        return [sample for _, encoded in self.dev for sample in encoded.samples]

    @property
    def num_samples(self) -> int:
        """Number of training samples."""
        return sum(len(encoded.samples) for encoded in self.train)


def prepare_task(source: str | None, settings: FinetuneSettings) -> FinetuneData:
    """Return the examples of a task, read and encoded, with the checkpoint to start from.

    Args:
        source: a run, the folder of a checkpoint, or a hub name; None if `settings.init_from` names it.
        settings: the user's settings.
    """
    task = find_task(settings.task)
    _check_options(task, settings)
    folder = _find_checkpoint(source, settings.init_from)
    start_settings = checkpoint_model_settings(folder)
    tokenizer = load_tokenizer(folder, start_settings.vocab_size)
    train, dev = train_and_dev_examples(task, settings)
    max_length = _max_length(settings, task, start_settings)
    _check_texts(train, settings, start_settings)
    has_two_texts = task.task_type.finds_in_passage or has_text_pairs(train)
    model_settings = with_marks(start_settings, settings, has_two_texts=has_two_texts)
    card = build_card(task, [*train, *dev], settings, max_length)  # a rare label may be in dev only
    _print_warnings(task, card, settings, train, dev)
    task_type = create_task_type(
        card, tokenizer, answerable=card.allows_no_answer, dropout=classifier_dropout(settings)
    )
    encoded_train = encode_examples(task_type, tokenizer, train, "train")
    encoded_dev = encode_examples(task_type, tokenizer, dev, "dev")
    check_segments([*encoded_train, *encoded_dev], folder, model_settings)
    if settings.mark_matches and not start_settings.mark_matches:
        check_has_second_texts(encoded_train, settings)
    data = FinetuneData(
        checkpoint=folder,
        tokenizer=tokenizer,
        model_settings=model_settings,
        task=task_of_card(card),
        card=card,
        task_type=task_type,
        train=encoded_train,
        dev=list(zip(dev, encoded_dev, strict=True)),
        train_examples=train,
    )
    task_type.fit_target_transform(data.train_samples, str(settings.data))
    return data


def _check_options(task: Task, settings: FinetuneSettings) -> None:
    """Raise `InputError` for an option that the task does not have."""
    check_head(task, settings)
    if settings.train.class_weights != "none":
        check_class_weights(task)


def _check_texts(train: list[Example], settings: FinetuneSettings, model: ModelSettings) -> None:
    """Raise `InputError` if the examples lack the texts that the head compares."""
    if settings.co_matching:
        check_parts(train, settings)
    if settings.matching:
        check_pairs(train, settings, model)


def _print_warnings(
    task: Task,
    card: TaskCard,
    settings: FinetuneSettings,
    train: Sequence[Example],
    dev: Sequence[Example],
) -> None:
    """Print warnings about the examples: too few for evaluation, doubtful labels, rare labels."""
    dev_data = evaluation_data(task, settings)
    if len(dev) < _FEW_EXAMPLES:
        progress.print_message(
            f"{dev_data or settings.data}: {_few_examples(task, card, len(dev), dev_data)}"
        )
    for problem in () if task.labels else doubtful_labels(card.labels):
        progress.print_message(f"{settings.data}: {problem}")
    for message in rare_label_messages(train, dev, str(settings.data), dev_data, header=settings.header):
        progress.print_message(message)


def _few_examples(task: Task, card: TaskCard, count: int, dev_data: str | None) -> str:
    """Return a message about an evaluation on few examples."""
    low, high = wilson_interval(0.5, count)
    effect = "scores depend on chance"
    if task.task_type.targets_are_labels and "accuracy" in task.task_type.selecting_metrics(card):
        effect = f"an accuracy can be wrong by {50 * (high - low):.0f} points by chance alone"
    advice = "give a file with more" if dev_data else "give --dev, or a larger --held-out"
    return f"{counted(count, 'example')} for evaluation, so {effect}; {advice}"


def _find_checkpoint(source: str | None, init_from: str | None) -> Path:
    if source is not None and init_from is not None:
        raise InputError(f"{source} and --init-from {init_from}: two models to start from; give one")
    checkpoint = source or init_from
    if checkpoint is None:
        raise InputError("MODEL is missing: a run, the folder of a checkpoint, or a hub name to start from")
    return locate_checkpoint(checkpoint)


def _max_length(settings: FinetuneSettings, task: Task, model_settings: ModelSettings) -> int:
    max_length = settings.sequence.max_length
    if max_length is not None and max_length > model_settings.max_length:
        raise InputError(
            f"--sequence.max-length {max_length}: the model takes at most {model_settings.max_length} tokens"
        )
    return max_length or min(task_defaults(task.name).max_length, model_settings.max_length)


def build_card(
    task: Task, examples: Sequence[Example], settings: FinetuneSettings, max_length: int
) -> TaskCard:
    """Return the task card; facts that the task does not define, such as labels, come from the examples."""
    card = TaskCard(
        task=task.name,
        type_name=task.type_name,
        labels=task.labels,
        metric_names=task.metric_names,
        allows_no_answer=task.allows_no_answer,
        max_length=max_length,
        sequence=replace(settings.sequence, max_length=max_length),
        columns={key: getattr(settings, key) for key in COLUMN_SETTINGS},
        header=settings.header,
    )
    card = task.task_type.complete_card(card, examples, str(settings.data))
    return _with_metric(card, task, selecting_metric(settings, task.name))


def _with_metric(card: TaskCard, task: Task, metric: str | None) -> TaskCard:
    """Return the card with the metric that selects the best model; raise `InputError` if it is unknown."""
    if metric is None:
        return card
    known = task.task_type.selecting_metrics(card)
    if metric not in known:
        raise InputError(
            f"--metric {metric}: not for --task {task.name}{did_you_mean(metric, known)}; "
            f"one of: {', '.join(known)}"
        )
    names = card.metric_names
    if names and metric not in names:
        names = (*names, metric)
    return replace(card, metric=metric, metric_names=names)


def encode_examples(
    task_type: TaskType, tokenizer: Tokenizer, examples: Sequence[Example], name: str
) -> list[EncodedExample]:
    """Return encoded examples; print how many are truncated, and the share of unknown tokens."""
    counts = EncodingCounts(tokenizer.special_ids)
    encoded: list[EncodedExample] = []
    chunks = progress.track(
        list(example_chunks(examples, _ENCODING_CHUNK)),
        "Encoding",
        unit="chunks",
    )
    for chunk in chunks:
        encoded_chunk = task_type.encode(chunk)
        counts.add(encoded_chunk)
        encoded += encoded_chunk
    counts.print_warnings(name)
    return encoded


def build_model(
    data: FinetuneData, head: HeadSettings, dropout: float, seed: int, *, random_weights: bool = False
) -> Model:
    """Return the model that a run trains: the checkpoint's encoder with a head for the task.

    Args:
        data: the checkpoint and the task.
        head: settings of the head.
        dropout: dropout of the encoder.
        seed: seed of new weights.
        random_weights: whether all weights are new, and only the checkpoint's architecture is kept.
    """
    loaded = None if random_weights else load_checkpoint(data.checkpoint, head, seed=seed)
    settings = data.model_settings if loaded is None else loaded.settings
    settings = replace(
        settings,
        dropout=dropout,
        attention_dropout=dropout,
        mark_matches=data.model_settings.mark_matches,
    )
    model = Model(settings, head, seed=seed if loaded is None else None)
    if loaded is not None:  # dropout is fixed when a model is built, so a new model gets the loaded weights
        new = {} if model.encoder.embedding.match is None else {_MATCH: model.encoder.embedding.match}
        model.load_state_dict({**new, **loaded.state_dict()})
    model.label_names = data.card.labels
    return model
