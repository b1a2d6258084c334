"""The exit rule: after which step of depth the prediction for a sequence is taken."""

import math
from dataclasses import dataclass

from albertine.settings.schema import SettingError

EXIT_HELP = (
    "Rule that ends the computation for a sequence before the last step of depth. patience:K: its prediction "
    "stayed the same K times in a row; for numbers patience:K:T, it changed by at most T. confidence:P: the "
    "probability of its prediction is at least P. learned:Q: the model's exit unit has stopped with a "
    "probability of at least Q (default 0.5). Without a rule, every sequence takes all steps."
)
DEPTH_HELP = (
    "Number of steps of depth, by default those of the model; with --exit, the largest number. More than "
    "those of the model are possible if all layers share their weights."
)
PRETRAINED_DEPTH_HELP = (
    "Number of steps of depth, by default those of the model; more are possible if all layers share their "
    "weights."
)
MAX_DEPTH = 1_000
_DEFAULT_QUANTILE = 0.5  # the median of the exits, as in PALBERT


@dataclass(frozen=True)
class ExitRule:
    """When the prediction for a sequence is final.

    Attributes:
        patience: times in a row that the prediction must stay the same; None if this rule is not used.
        confidence: probability that the prediction must have; None if this rule is not used.
        quantile: probability with which the exit unit must have stopped; None if this rule is not used.
        tolerance: largest change of a predicted number that counts as none; None if not given.
        depth: number of steps after which every prediction is final; None for those of the model.
        label_threshold: probability from which the model predicts a label, if it predicts several.
    """

    patience: int | None = None
    confidence: float | None = None
    quantile: float | None = None
    tolerance: float | None = None
    depth: int | None = None
    label_threshold: float = 0.5

    @property
    def can_exit(self) -> bool:
        """Whether sequences may leave before the last step."""
        return any(value is not None for value in (self.patience, self.confidence, self.quantile))


def check_depth(depth: int | None) -> None:
    """Raise `SettingError` if a number of steps of depth is given and no model can have it."""
    if depth is None:
        return
    if isinstance(depth, bool) or not isinstance(depth, int):
        raise SettingError("depth", depth, "must be an integer")
    if not 1 <= depth <= MAX_DEPTH:
        raise SettingError("depth", depth, f"must be between 1 and {MAX_DEPTH:,}")


def make_exit_rule(text: str | None, depth: int | None = None) -> ExitRule | None:
    """Return the rule of the settings `exit` and `depth`; None if neither is given.

    Raises `SettingError` if the text is not a rule.

    Args:
        text: "patience:K", "patience:K:TOLERANCE" for numbers, "confidence:P", "learned" or "learned:Q".
        depth: number of steps of depth.
    """
    check_depth(depth)
    if text is None:
        return None if depth is None else ExitRule(depth=depth)
    name, *values = text.split(":")
    try:
        if name == "patience" and len(values) in (1, 2):
            patience = int(values[0])
            tolerance = float(values[1]) if len(values) == 2 else None
            if 1 <= patience <= MAX_DEPTH and 0 <= (tolerance or 0.0) < math.inf:
                return ExitRule(patience=patience, tolerance=tolerance, depth=depth)
        if name == "confidence" and len(values) == 1 and 0 < float(values[0]) <= 1:
            return ExitRule(confidence=float(values[0]), depth=depth)
        if name == "learned" and len(values) <= 1:
            quantile = float(values[0]) if values else _DEFAULT_QUANTILE
            if 0 < quantile <= 1:
                return ExitRule(quantile=quantile, depth=depth)
    except ValueError:
        pass
    raise SettingError(
        "exit",
        text,
        f"must be patience:K or patience:K:T with K from 1 to {MAX_DEPTH:,} and T at least 0, or "
        "confidence:P, learned or learned:Q with P and Q above 0 and at most 1",
    )
