"""Prepares a model for an exit rule: whether the rule fits the model, and messages about what to expect."""

from dataclasses import replace

from albertine import progress
from albertine.engines.engine import Engine
from albertine.errors import InputError
from albertine.model.depth_plan import depth_plan
from albertine.model.strip_states import check_can_exit
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.card import TaskCard
from albertine.tasks.types.task_type import TaskType

# A predicted number that changes by less than this part of the standard deviation of the training data
# counts as the same.
_NUMBER_TOLERANCE = 0.05


def rule_for_model(
    rule: ExitRule, engine: Engine, task_type: TaskType, card: TaskCard, source: str
) -> ExitRule:
    """Return the rule with what it needs to know of the model; raise `InputError` if it does not fit.

    A rule for numbers needs their tolerance, and one for labels of their own the threshold of the model.

    Args:
        rule: the user's rule.
        engine: runs the model.
        task_type: its task type.
        card: its task card.
        source: name of the model, for messages.
    """
    if rule.depth is not None:
        depth_plan(engine.model_settings, rule.depth)  # raises if the model cannot be so deep
    if not rule.can_exit:
        return rule
    check_can_exit(engine.model_settings)
    depth = rule.depth or engine.model_settings.layers
    if rule.patience is not None and rule.patience >= depth:
        progress.print_message(
            f"--exit patience:{rule.patience}: takes {rule.patience + 1} steps at least, and the model has "
            f"{depth}; nothing exits"
        )
    if rule.quantile is not None:
        if not engine.head_settings.learned_exit:
            raise InputError(
                f"{source}: has no exit unit, which --exit learned needs; finetune --train.exits "
                "--train.learned-exit trains one"
            )
        return rule
    if not task_type.predicts_numbers:
        if rule.tolerance is not None:
            raise InputError(f"--exit: a tolerance is for numbers, but the task is {card.type_name}")
        return replace(rule, label_threshold=card.label_threshold)
    if rule.confidence is not None:
        raise InputError("--exit confidence: a predicted number has no probability; use patience")
    if rule.tolerance is not None:
        return rule
    if card.target_scale is None:
        raise InputError(
            f"{source}: its task card has no target_scale; give the largest change of a number that counts "
            f"as none, as in --exit patience:{rule.patience}:0.1"
        )
    return replace(rule, tolerance=_NUMBER_TOLERANCE * card.target_scale)


def note_missing_exits(engine: Engine, source: str) -> None:
    """Print a message if a model could have been fine-tuned with exits and was not."""
    if engine.head_settings.exits == "none" and engine.model_settings.depth_rule == "fixed":
        progress.print_message(
            f"{source}: fine-tuned without exits, so its early predictions are less accurate; "
            "finetune --train.exits trains them"
        )
