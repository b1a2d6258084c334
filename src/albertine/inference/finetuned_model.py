"""A fine-tuned model with everything that predictions need: engine, tokenizer, task card and task type."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.engines.engine import Engine
from albertine.engines.exported_folder import open_export, read_settings
from albertine.engines.selection import prepare_engine
from albertine.engines.stepped_engine import SteppedEngine
from albertine.errors import InputError
from albertine.inference.exits import note_missing_exits, rule_for_model
from albertine.interop.hub import TASK_CARD_FILE, is_export, locate_model
from albertine.interop.load import load_checkpoint
from albertine.interop.transformers_config import read_config, states_head
from albertine.model.model import Model
from albertine.model.prediction_heads import MultipleChoiceHead
from albertine.settings.engine import DEFAULT_OPTIONS, EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.card import ANY_OPTIONS, TaskCard
from albertine.tasks.checkpoint_card import card_for_task, read_card
from albertine.tasks.registry import create_task_type, find_task, task_of_card
from albertine.tasks.scorer import Scorer
from albertine.tasks.settings import DataSettings
from albertine.tasks.task import Task
from albertine.tasks.types.task_type import TaskType
from albertine.text.tokenizer import Tokenizer, load_tokenizer


@dataclass(frozen=True)
class FinetunedModel:
    """A fine-tuned model, ready to score examples.

    Attributes:
        source: name given by the user: a run, a folder or a hub name.
        folder: folder of its checkpoint.
        card: task card of the model.
        engine: runs the model.
        tokenizer: tokenizer of the model.
        task_type: encodes examples and computes predictions from scores.
        exit_rule: when a prediction is final; None after all steps of depth.
    """

    source: str
    folder: Path
    card: TaskCard
    engine: Engine
    tokenizer: Tokenizer
    task_type: TaskType
    exit_rule: ExitRule | None = None

    @property
    def task(self) -> Task:
        """The task named in the card."""
        return task_of_card(self.card)

    @property
    def max_length(self) -> int:
        """Maximum tokens of a sequence; longer examples are truncated."""
        return self.card.max_length

    def create_scorer(self) -> Scorer:
        """Return a scorer that runs this model."""
        return Scorer(self.engine, self.task_type, self.exit_rule)


def load_finetuned(
    source: str | Path,
    options: EngineOptions = DEFAULT_OPTIONS,
    *,
    task: str | None = None,
    revision: str | None = None,
    exit_rule: ExitRule | None = None,
    fixed_options: bool = False,
) -> FinetunedModel:
    """Load a fine-tuned model.

    Args:
        source: a run, the folder of a checkpoint or of an export, a URL of these, or a hub name of the last
            two.
        options: device, precision and engine; the precision "auto" is that of the fine-tuning, see
            `finetuned_from_model`.
        task: task of the same type to use in place of the model's own; None for its own.
        revision: branch, tag or commit of a hub repository.
        exit_rule: when a prediction is final; None after all steps of depth.
        fixed_options: see `finetuned_from_model`.
    """
    folder = locate_model(source, revision)
    if is_export(folder):
        return finetuned_from_export(str(source), folder, options, task=task, exit_rule=exit_rule)
    model = load_checkpoint(folder)
    return finetuned_from_model(
        str(source), folder, model, options, task=task, exit_rule=exit_rule, fixed_options=fixed_options
    )


def finetuned_from_model(
    name: str,
    folder: Path,
    model: Model,
    options: EngineOptions = DEFAULT_OPTIONS,
    *,
    task: str | None = None,
    exit_rule: ExitRule | None = None,
    fixed_options: bool = False,
) -> FinetunedModel:
    """Return a fine-tuned model from a loaded `Model` and the tokenizer and task card of its folder.

    Args:
        name: name given by the user, for results and messages.
        folder: folder of the checkpoint.
        model: the model loaded from the folder.
        options: device, precision and engine; the precision "auto" is fp32 for a model that was fine-tuned
            in fp32, and for others bf16 where the device computes it fast.
        task: task of the same type to use in place of the model's own; None for its own.
        exit_rule: when a prediction is final; None after all steps of depth.
        fixed_options: whether all questions have the number of options of the head's settings, also if the
            folder does not state one; always so with an exit rule, which looks at a whole question.
    """
    if not fixed_options and exit_rule is None and not _states_options(model, folder):
        _score_options_singly(model)
    card = read_card(folder, model.settings, model.head_settings, model.label_names)
    engine = prepare_engine(model, _with_precision_of(card, options), can_exit=exit_rule is not None)
    finetuned = _finetuned_from_engine(name, folder, card, engine, task)
    return finetuned if exit_rule is None else _with_exits(finetuned, exit_rule)


def _states_options(model: Model, folder: Path) -> bool:
    """Return whether the folder of a model states how many options a question has, if it is to choose one."""
    if not isinstance(model.head, MultipleChoiceHead) or (folder / TASK_CARD_FILE).exists():
        return True
    file = folder / "config.json"
    return states_head(read_config(file), str(file))


def _score_options_singly(model: Model) -> None:
    """Let questions have any number of options: the weights do not depend on it."""
    assert isinstance(model.head, MultipleChoiceHead)
    model.head.options = model.head.sequences_per_prediction = ANY_OPTIONS
    model.head_settings = replace(model.head_settings, options=ANY_OPTIONS)


def _with_exits(model: FinetunedModel, rule: ExitRule) -> FinetunedModel:
    """Return a model whose predictions are final when a rule says so, if the rule fits it."""
    rule = rule_for_model(rule, model.engine, model.task_type, model.card, model.source)
    if rule.can_exit or rule.depth in range(model.engine.model_settings.layers):
        note_missing_exits(model.engine, model.source)
    return replace(model, exit_rule=rule)


def finetuned_from_export(
    name: str,
    folder: Path,
    options: EngineOptions = DEFAULT_OPTIONS,
    *,
    task: str | None = None,
    exit_rule: ExitRule | None = None,
) -> FinetunedModel:
    """Return a fine-tuned model that was exported into a folder; see `finetuned_from_model`."""
    card = read_card(folder, *read_settings(folder))
    if not (folder / TASK_CARD_FILE).exists():  # `export` always writes it: another one could differ
        raise InputError(f"{folder / TASK_CARD_FILE}: missing; export the model again, with albertine export")
    engine = open_export(folder, _with_precision_of(card, options))
    if exit_rule is not None and not isinstance(engine, SteppedEngine):
        raise InputError(
            f"{name}: this export always applies all layers; for --exit and --depth, export the model with "
            "--exits, or use the checkpoint"
        )
    finetuned = _finetuned_from_engine(name, folder, card, engine, task)
    return finetuned if exit_rule is None else _with_exits(finetuned, exit_rule)


def _with_precision_of(card: TaskCard, options: EngineOptions) -> EngineOptions:
    """Return the options to use: the metrics on dev of a model that was fine-tuned in fp32 are of fp32."""
    is_fp32 = options.precision == "auto" and card.precision == "fp32"
    return replace(options, precision="fp32") if is_fp32 else options


def _finetuned_from_engine(
    name: str, folder: Path, card: TaskCard, engine: Engine, task: str | None
) -> FinetunedModel:
    tokenizer = load_tokenizer(folder, engine.model_settings.vocab_size)
    if task is not None:
        card = adapted_card(card, task, name)
    task_type = create_task_type(card, tokenizer, answerable=engine.head_settings.answerable)
    return FinetunedModel(name, folder, card, engine, tokenizer, task_type)


def adapted_card(card: TaskCard, task: str, name: str) -> TaskCard:
    """Return the card of a model for a task of the same type; print a message if that names the labels.

    Args:
        card: card of the model.
        task: name of the task.
        name: name of the model, for messages.
    """
    adapted = card_for_task(card, find_task(task), name)
    if adapted.labels != card.labels:
        order = ", ".join(adapted.labels)
        progress.print_message(f"{name}: its labels have no names; taken as {order}, in this order")
    return adapted


def resolve_columns(card: TaskCard, settings: DataSettings) -> DataSettings:
    """Return settings with the column names of the card, except for what the user gave.

    The columns that differ from the defaults, and those that every training example had, become
    explicit keys, so that a table without them is refused.
    """
    card_columns: dict[str, Any] = {
        key: value
        for key, value in {**card.columns, "header": card.header}.items()
        if key not in settings.explicit_keys
    }
    resolved = replace(settings, **card_columns)
    needed = resolved.explicit_keys.union(card.always_given)
    return resolved.with_explicit_keys(settings.explicit_keys | needed)
