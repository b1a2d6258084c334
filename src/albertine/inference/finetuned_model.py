"""A tuned model with all that is needed to ask it: weights, tokenizer, card."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from albertine.device import choose_precision
from albertine.errors import InputError
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load_checkpoint
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.settings import MODEL_PRESETS
from albertine.tasks.card import COLUMN_SETTINGS, TaskCard, card_for_task, read_card
from albertine.tasks.registry import Task, find_task
from albertine.tasks.scorer import Scorer
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.task_type import TaskType
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.train.distributed import choose_device


@dataclass(frozen=True)
class FinetunedModel:
    """A model that answers.

    Attributes:
        source: what the person called it.
        card: the task as it knows it.
        task_type: what encodes examples and reads scores.
    """

    source: str
    card: TaskCard
    model: Model
    tokenizer: Tokenizer
    task_type: TaskType
    device: torch.device

    @property
    def task(self) -> Task:
        """The task that it answers."""
        return find_task(self.card.task)

    def create_scorer(self) -> Scorer:
        """Return what scores examples."""
        return Scorer(self.model, self.task_type, self.device)


def load_finetuned(
    source: str | Path,
    device: str,
    precision: str = "auto",
    *,
    task: str | None = None,
    revision: str | None = None,
) -> FinetunedModel:
    """Open a tuned model: a run, a checkpoint, a hub name; maybe for another task of its kind."""
    name = str(source)
    if name in MODEL_PRESETS:
        raise InputError(f"{name}: a preset, with nothing learned; name a tuned model")
    folder = locate_checkpoint(source, revision)
    return finetuned_from_model(name, folder, load_checkpoint(folder), device, precision, task=task)


def finetuned_from_model(
    name: str, folder: Path, model: Model, device: str, precision: str = "auto", *, task: str | None = None
) -> FinetunedModel:
    """Make a checkpoint that is loaded ready to be asked."""
    tokenizer = load_tokenizer(folder)
    card = read_card(folder, model)
    if task is not None:
        card = card_for_task(card, find_task(task), name)
    torch_device = choose_device(device)
    model.encoder.compute_options = ComputeOptions(choose_precision(precision, torch_device))
    model.to(torch_device).eval()
    task_type = card.create_task_type(tokenizer, answerable=model.head_settings.answerable)
    return FinetunedModel(name, card, model, tokenizer, task_type, torch_device)


def resolve_columns(card: TaskCard, settings: DataSettings, explicit: frozenset[str]) -> DataSettings:
    """Return the columns of a file: those that were named now, else those that the model was tuned with."""
    known: dict[str, Any] = {
        key: value for key, value in card.columns.items() if key in COLUMN_SETTINGS and key not in explicit
    }
    return replace(settings, **known)
