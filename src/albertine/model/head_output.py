"""The output of a head from its logits, which another library has computed."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from albertine.model.prediction_heads import PredictionOutput
from albertine.model.pretraining_heads import MaskedLMOutput, PretrainingOutput
from albertine.model.span_head import SpanOutput
from albertine.settings import HeadSettings


def output_from_logits(head: HeadSettings, logits: Mapping[str, Tensor]) -> Any:
    """Return the output of a head for a strip, without losses.

    Args:
        head: settings of the head.
        logits: its logits by name, see `Head.logits`; of a multiple-choice head, one for each sequence, which
            is an option.
    """
    match head.kind:
        case "mlm":
            return MaskedLMOutput(None, None, lambda: logits["mlm_logits"])
        case "pretrain":
            masked = MaskedLMOutput(None, None, lambda: logits["mlm_logits"])
            return PretrainingOutput(masked, logits["pair_logits"], None, None)
        case "span":
            boundaries = logits["start_logits"], logits["end_logits"]
            return SpanOutput(*boundaries, logits.get("answerable_logits"), None)
        case "choice":
            return PredictionOutput(logits["logits"].view(-1, head.options), None)
        case "classify" | "multi-label" | "regress" | "token":
            return PredictionOutput(logits["logits"], None)
