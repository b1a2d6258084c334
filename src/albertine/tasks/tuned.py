"""A tuned model with all that is needed to ask it: weights, tokenizer, card."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from albertine.errors import InputError
from albertine.interop.hub import locate
from albertine.interop.load import load_checkpoint
from albertine.model.encoder import Computation
from albertine.model.network import Model
from albertine.settings import MODELS
from albertine.tasks.card import COLUMNS, Card, card_in, for_task
from albertine.tasks.kinds.kind import Kind
from albertine.tasks.scoring import Scorer
from albertine.tasks.settings import DataSettings
from albertine.tasks.task import Task, find
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.train.machine import choose_precision
from albertine.train.ranks import choose_device


@dataclass(frozen=True)
class Tuned:
    """A model that answers.

    Attributes:
        source: what the person called it.
        card: the task as it knows it.
        kind: what encodes examples and reads scores.
    """

    source: str
    card: Card
    model: Model
    tokenizer: Tokenizer
    kind: Kind
    device: torch.device

    @property
    def task(self) -> Task:
        """The task that it answers."""
        return find(self.card.task)

    def scorer(self) -> Scorer:
        """Return what scores examples."""
        return Scorer(self.model, self.kind, self.device)


def tuned(
    source: str | Path,
    device: str,
    precision: str = "auto",
    *,
    task: str | None = None,
    revision: str | None = None,
) -> Tuned:
    """Open a tuned model: a run, a checkpoint, a hub name; maybe for another task of its kind."""
    name = str(source)
    if name in MODELS:
        raise InputError(f"{name}: a preset, with nothing learned; name a tuned model")
    folder = locate(source, revision)
    return tuned_in(name, folder, load_checkpoint(folder), device, precision, task=task)


def tuned_in(
    name: str, folder: Path, model: Model, device: str, precision: str = "auto", *, task: str | None = None
) -> Tuned:
    """Make a checkpoint that is loaded ready to be asked."""
    tokenizer = load_tokenizer(folder)
    card = card_in(folder, model)
    if task is not None:
        card = for_task(card, find(task), name)
    chosen = choose_device(device)
    model.encoder.computation = Computation(choose_precision(precision, chosen))
    model.to(chosen).eval()
    kind = card.reader(tokenizer, answerable=model.head_settings.answerable)
    return Tuned(name, card, model, tokenizer, kind, chosen)


def columns_of(card: Card, settings: DataSettings, given: frozenset[str]) -> DataSettings:
    """Return the columns of a file: those that were named now, else those that the model was tuned with."""
    known: dict[str, Any] = {
        key: value for key, value in card.columns.items() if key in COLUMNS and key not in given
    }
    return replace(settings, **known)
