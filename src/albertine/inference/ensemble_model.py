"""An ensemble of fine-tuned models, used like one model: a small folder that names its members.

    FOLDER/ensemble.json    folder or hub name of each member, and its weight
    FOLDER/task.json        the task card, with the no-answer threshold of the ensemble

The scores of the members are averaged. Members are named by relative paths, so that they can
move together with the ensemble.
"""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from albertine.atomic import atomic_folder
from albertine.display import display_text
from albertine.errors import InputError, check_format
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned
from albertine.input_files import read_json_object
from albertine.interop.hub import ENSEMBLE_FILE, TASK_CARD_FILE, is_ensemble, local_model, refuse_revision
from albertine.settings.engine import DEFAULT_OPTIONS, EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.storage.urls import storage_url
from albertine.tasks.card import TaskCard
from albertine.tasks.checkpoint_card import card_for_task, check_card, read_card_file
from albertine.tasks.registry import create_task_type, find_task, task_of_card
from albertine.tasks.scorer import EnsembleScorer
from albertine.tasks.task import Task
from albertine.tasks.types.task_type import TaskType
from albertine.text.tokenizer import Tokenizer

ENSEMBLE_FORMAT = 1


@dataclass(frozen=True)
class EnsembleModel:
    """An ensemble, ready to score examples.

    Attributes:
        source: name given by the user.
        card: task card of the ensemble.
        members: the models whose scores are averaged.
        weights: weight of each member.
        task_type: computes predictions from averaged scores.
    """

    source: str
    card: TaskCard
    members: Sequence[FinetunedModel]
    weights: Sequence[float]
    task_type: TaskType

    @property
    def task(self) -> Task:
        """The task named in the card."""
        return task_of_card(self.card)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the first member."""
        return self.members[0].tokenizer

    @property
    def max_length(self) -> int:
        """Maximum tokens of a sequence that no member truncates."""
        return min(member.max_length for member in self.members)

    def create_scorer(self) -> EnsembleScorer:
        """Return a scorer that runs all members."""
        return EnsembleScorer(
            [member.create_scorer() for member in self.members], self.weights, self.task_type
        )


TaskModel: TypeAlias = FinetunedModel | EnsembleModel


def load_task_model(
    source: str | Path,
    options: EngineOptions = DEFAULT_OPTIONS,
    *,
    task: str | None = None,
    revision: str | None = None,
    exit_rule: ExitRule | None = None,
    fixed_options: bool = False,
) -> TaskModel:
    """Load a fine-tuned model or an ensemble; see `load_finetuned` for the arguments."""
    if is_ensemble(local := local_model(source)):
        refuse_revision(source, revision)
        return load_ensemble(local, options, task=task, exit_rule=exit_rule)
    return load_finetuned(
        source, options, task=task, revision=revision, exit_rule=exit_rule, fixed_options=fixed_options
    )


def load_ensemble(
    folder: Path,
    options: EngineOptions = DEFAULT_OPTIONS,
    *,
    task: str | None = None,
    exit_rule: ExitRule | None = None,
) -> EnsembleModel:
    """Load the members of an ensemble; `task` replaces the task of its card, and all have the exit rule."""
    entries = _read_members(folder / ENSEMBLE_FILE)
    card_file = folder / TASK_CARD_FILE
    if not card_file.is_file():
        raise InputError(f"{card_file}: missing; create the ensemble again with albertine ensemble")
    card = read_card_file(card_file)
    if task is not None:
        card = card_for_task(card, find_task(task), str(folder))
    members = [
        load_finetuned(
            entry.source,
            options,
            task=card.task,
            revision=entry.revision,
            exit_rule=exit_rule,
            fixed_options=True,
        )
        for entry in entries
    ]
    ensemble = create_ensemble(str(folder), card, members, [entry.weight for entry in entries])
    engine = members[0].engine
    check_card(card, engine.model_settings, engine.head_settings, card_file)
    return ensemble


def create_ensemble(
    source: str, card: TaskCard, members: Sequence[FinetunedModel], weights: Sequence[float]
) -> EnsembleModel:
    """Return an ensemble of loaded models; raise `InputError` if their scores cannot be averaged."""
    first = members[0]
    if (card.type_name, card.labels) != (first.card.type_name, first.card.labels):
        raise InputError(f"{source}: its member {first.source} has another task type or other labels")
    for other in members[1:]:
        check_compatible(first, other)
    answerable = first.engine.head_settings.answerable
    return EnsembleModel(
        source, card, members, weights, create_task_type(card, first.tokenizer, answerable=answerable)
    )


def check_compatible(first: FinetunedModel, other: FinetunedModel) -> None:
    """Raise `InputError` if the scores of two models cannot be averaged."""
    if other.card.type_name != first.card.type_name or other.card.labels != first.card.labels:
        raise InputError(f"{other.source}: has another task type or other labels than {first.source}")
    num_options, other_num_options = (model.engine.head_settings.options for model in (first, other))
    if num_options != other_num_options:
        raise InputError(
            f"{other.source}: chooses between {other_num_options} options, "
            f"{first.source} between {num_options}"
        )
    has_same_tokens = (
        other.tokenizer.fingerprint == first.tokenizer.fingerprint
        and other.card.sequence == first.card.sequence
        and other.card.max_length == first.card.max_length
    )
    if first.task_type.scores_per_token and not has_same_tokens:
        raise InputError(
            f"{other.source}: tokenizes text differently from {first.source}, "
            "so their scores cannot be averaged"
        )
    if other.engine.head_settings.answerable != first.engine.head_settings.answerable:
        raise InputError(
            f"{other.source}: computes the no-answer score differently from {first.source}, "
            "so their scores cannot be averaged"
        )


def write_ensemble(ensemble: EnsembleModel, folder: Path) -> None:
    """Write the folder of an ensemble; one that exists must be the same, from an interrupted call."""
    members = [
        {**_location(member, folder.resolve()), "weight": weight}
        for member, weight in zip(ensemble.members, ensemble.weights, strict=True)
    ]
    text = json.dumps({"format": ENSEMBLE_FORMAT, "members": members}, indent=2, ensure_ascii=False)
    files = {ENSEMBLE_FILE: text + "\n", TASK_CARD_FILE: ensemble.card.to_json()}
    if is_ensemble(folder):
        if any(
            not (folder / name).is_file() or (folder / name).read_bytes() != content.encode()
            for name, content in files.items()
        ):
            raise InputError(f"{folder}: another ensemble; name another folder or remove it")
        return
    with atomic_folder(folder) as partial:
        for name, content in files.items():
            (partial / name).write_text(content, encoding="utf-8")


def _location(member: FinetunedModel, folder: Path) -> dict[str, str]:
    """Return the entry of a member: its path from the ensemble's folder, its URL, or hub name and commit."""
    if (url := storage_url(member.source)) is not None:
        return {"url": url}
    if not Path(member.source).is_dir():
        repository = member.source.partition("@")[0]
        return {"hub": repository, "revision": member.folder.name}  # its folder in the cache is the commit
    path = member.folder.resolve()
    # Folders that share only the root do not move together.
    is_near = os.path.commonpath([path, folder]) != path.anchor
    return {"folder": os.path.relpath(path, folder) if is_near else str(path)}


class _Member(NamedTuple):
    """A member as `ensemble.json` names it."""

    source: str | Path
    revision: str | None
    weight: float


def _read_members(file: Path) -> list[_Member]:
    """Return the members of an ensemble; raise `InputError` if the folder of one is missing."""
    try:
        content = read_json_object(file, "create it again with albertine ensemble")
        check_format(file, content.get("format"), ENSEMBLE_FORMAT, "create the ensemble again")
        members = [_parse_member(file.parent, **entry) for entry in content["members"]]
        if not members:
            raise ValueError("no members")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(
            f"{file}: not an ensemble ({display_text(str(error))}); create it again with albertine ensemble"
        ) from None
    for member in members:
        if isinstance(member.source, Path) and not member.source.is_dir():
            raise InputError(
                f"{file}: its member {member.source} is missing; move it back, or correct its path there"
            )
    return members


def _parse_member(
    parent: Path,
    *,
    weight: float,
    folder: str | None = None,
    url: str | None = None,
    hub: str | None = None,
    revision: str | None = None,
) -> _Member:
    """Return a member from its entry in the file, whose keys are the keyword arguments."""
    if sum(place is not None for place in (folder, url, hub)) != 1:
        raise ValueError("a member needs either a folder, a URL or a hub name")
    if isinstance(weight, bool) or not (math.isfinite(weight) and weight > 0):
        raise ValueError(f"weight {weight}: must be a positive number")
    if hub is not None and revision is not None:
        hub = hub.partition("@")[0]  # earlier versions wrote OWNER/NAME@REVISION beside the commit
    source = str(hub or url) if folder is None else (parent / folder).resolve()
    return _Member(source, revision, weight)
