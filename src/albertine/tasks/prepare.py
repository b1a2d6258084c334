"""From what a person names to what runs need: examples, encoded once for all of them, and the model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from albertine import progress
from albertine.corpus.chance import ask, uniform
from albertine.errors import InputError
from albertine.interop.config import settings_in
from albertine.interop.hub import locate
from albertine.interop.load import load_checkpoint
from albertine.model.network import Model
from albertine.settings import MODELS, HeadSettings, ModelSettings
from albertine.tasks.card import COLUMNS, Card, labels_among
from albertine.tasks.examples import Choice, Example, Labelled, Question, Tagged
from albertine.tasks.kinds.kind import Kind, Sheet, in_chunks
from albertine.tasks.settings import DataSettings, FinetuneSettings
from albertine.tasks.table14 import row_for
from albertine.tasks.task import Task, find, unanswered
from albertine.text.documents import Troubles
from albertine.text.tokenizer import Tokenizer, load_tokenizer

_HELD_OUT = 11  # what the hash is asked for
_TOGETHER = 2048
_MANY = 20  # labels, of which no two examples need have the same


@dataclass(frozen=True)
class Prepared:
    """What runs on one task and one checkpoint share.

    Attributes:
        folder: the checkpoint to start from.
        tokenizer: its.
        network: its network's settings.
        task: what it is tuned on.
        card: the task as the tuned model will know it.
        kind: what encodes and reads.
        train: sheets to learn from.
        dev: examples and sheets to measure on.
    """

    folder: Path
    tokenizer: Tokenizer
    network: ModelSettings
    task: Task
    card: Card
    kind: Kind
    train: Sequence[Sheet]
    dev: Sequence[tuple[Example, Sheet]]

    @property
    def samples(self) -> int:
        """How many samples there are to learn from."""
        return sum(len(sheet.samples) for sheet in self.train)


def prepare(source: str | None, settings: FinetuneSettings) -> Prepared:
    """Read the examples, find the labels, encode everything."""
    task = find(settings.task)
    folder = _start(source, settings.init_from)
    tokenizer, network = load_tokenizer(folder), settings_in(folder)
    train, dev = _examples(task, settings)
    longest = _longest(settings, task, network)
    card = card_for(task, [*train, *dev], settings, longest)  # a rare label may be in one of them alone
    dropout = 0.1 if settings.classifier_dropout is None else settings.classifier_dropout
    kind = card.reader(tokenizer, answerable=card.maybe_none, dropout=dropout)
    sheets, dev_sheets = (_encoded(kind, each) for each in (train, dev))
    pairs = list(zip(dev, dev_sheets, strict=True))
    return Prepared(folder, tokenizer, network, task, card, kind, sheets, pairs)


def _start(source: str | None, init_from: str | None) -> Path:
    if source is not None and init_from is not None:
        raise InputError(f"{source} and --init-from {init_from}: two models to start from; give one")
    wanted = source or init_from
    if wanted is None:
        raise InputError("MODEL is missing: a run, a checkpoint's folder or a hub name to start from")
    if wanted in MODELS:
        raise InputError(f"{wanted}: a preset, with nothing learned and no tokenizer; name a checkpoint")
    return locate(wanted)


def _longest(settings: FinetuneSettings, task: Task, network: ModelSettings) -> int:
    asked = settings.reading.max_length
    if asked is not None and asked > network.max_length:
        raise InputError(f"--reading.max-length {asked}: the model takes {network.max_length} pieces")
    return asked or min(row_for(task.name).max_length, network.max_length)


def read_examples(
    task: Task, data: str, part: str, settings: DataSettings, *, solved: bool, options: int | None = None
) -> list[Example]:
    """Read all examples of a part, at least one; questions have so many options, or as many as the first."""
    troubles = Troubles(skip=settings.on_error == "skip")
    coming = alike(task.examples(data, part, settings, troubles, solved=solved), options, troubles)
    found = list(progress.track(coming, f"Reading {part}", unit="examples"))
    tell(troubles)
    if not found:
        raise InputError(f"{data}: no examples in {part}")
    untold = next((one for one in found if solved and unanswered(one)), None)
    if untold is not None:
        raise InputError(f"{untold.place}: does not say what is right, which training and scoring need")
    return found


def alike(examples: Iterable[Example], options: int | None, troubles: Troubles) -> Iterator[Example]:
    """Yield all but questions with another number of options, among which one network cannot choose."""
    for one in examples:
        if isinstance(one, Choice):
            options = options or len(one.options)
            if len(one.options) != options:
                troubles.meet(one.place, f"{len(one.options)} options, where others have {options}")
                continue
        yield one


def tell(troubles: Troubles) -> None:
    """Say what was left out."""
    if troubles.count:
        progress.say(f"{troubles.count:,} rows left out, as {troubles.places[0]}")


def _examples(task: Task, settings: FinetuneSettings) -> tuple[list[Example], list[Example]]:
    """Return examples to learn from, and to measure on."""
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, a file, or hub:OWNER/NAME")
    dev_part = task.parts("dev", settings.dev or settings.data)[0]
    train = read_examples(task, settings.data, "train", settings, solved=True)
    has_dev = task.official and (Path(settings.data).is_dir() or settings.data.startswith("hub:"))
    dev = settings.dev or (settings.data if has_dev else None)
    if dev is not None:
        options = len(train[0].options) if isinstance(train[0], Choice) else None
        return train, read_examples(task, dev, dev_part, settings, solved=True, options=options)
    if len(train) < 2:
        raise InputError(f"{settings.data}: one example, and none to measure on; name --dev")
    drawn = uniform(ask(settings.train.seed, _HELD_OUT, np.arange(len(train))))
    count = min(len(train) - 1, max(1, round(settings.held_out * len(train))))
    held = set(np.argsort(drawn, kind="stable")[:count].tolist())
    progress.say(f"{settings.data}: {count:,} of {len(train):,} examples held out to measure on")
    return (
        [one for at, one in enumerate(train) if at not in held],
        [one for at, one in enumerate(train) if at in held],
    )


def card_for(task: Task, examples: Sequence[Example], settings: FinetuneSettings, longest: int) -> Card:
    """Return a task's card; labels of one's own are those of the examples."""
    labels, scores = task.labels, task.scores
    options, maybe_none = 4, task.maybe_none
    first = examples[0]
    match first:
        case Labelled() if task.kind == "classify" and not labels:
            labels = labels_among([one.label for one in examples if isinstance(one, Labelled)])
            scores = (*scores, "f1") if len(labels) == 2 else scores
            if len(labels) > max(_MANY, len(examples) / 2):
                raise InputError(
                    f"{settings.data}: {len(labels):,} labels in {len(examples):,} examples; "
                    "name the right column with --label, or take --task regress for numbers"
                )
            if len(labels) < 2:
                raise InputError(f"{settings.data}: all labels are {labels[0]}; there must be two at least")
        case Tagged():
            labels = labels_among(
                [tag for one in examples if isinstance(one, Tagged) for tag in one.tags or ()]
            )
        case Choice():
            options = len(first.options)
        case Question() if not task.official:
            maybe_none = any(isinstance(one, Question) and one.answers == () for one in examples)
    columns = {key: getattr(settings, key) for key in COLUMNS}
    return Card(
        task=task.name,
        kind=task.kind,
        labels=labels,
        scores=scores,
        options=options,
        maybe_none=maybe_none,
        max_length=longest,
        reading=replace(settings.reading, max_length=longest),
        columns=columns,
    )


def _encoded(kind: Kind, examples: Sequence[Example]) -> list[Sheet]:
    chunks = progress.track(
        list(in_chunks(examples, _TOGETHER)), "Encoding", unit=f"times {_TOGETHER:,} examples"
    )
    return [sheet for chunk in chunks for sheet in kind.sheets(chunk)]


def network_for(
    prepared: Prepared, head: HeadSettings, dropout: float, seed: int, *, fresh: bool = False
) -> Model:
    """Return the checkpoint's network under the task's head, its own dropout, and maybe fresh weights."""
    settings = replace(prepared.network, dropout=dropout, attention_dropout=dropout)
    if fresh:
        model = Model(settings, head, seed=seed)
    else:
        loaded = load_checkpoint(prepared.folder, head, seed=seed)
        settings = replace(loaded.model, dropout=dropout, attention_dropout=dropout)
        model = Model(settings, head, seed=None)
        model.load_state_dict(loaded.state_dict())
    model.labels = prepared.card.labels
    return model
