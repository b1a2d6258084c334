"""The logits of a classification model, for clients that want raw scores in place of probabilities."""

from collections.abc import Sequence
from typing import Any

from albertine.deploy.batcher import BatchFunction, ItemResult
from albertine.inference.ensemble_model import EnsembleModel, TaskModel
from albertine.tasks.scorer import Scorer


def make_logits_function(model: TaskModel) -> BatchFunction | None:
    """Return a function that computes the logits of each example of a batch, by label.

    Return None for a model of another task, and for an ensemble, which averages probabilities.
    """
    task_type = model.task_type.with_logits()
    if isinstance(model, EnsembleModel) or task_type is None:
        return None
    labels, scorer = model.card.labels, Scorer(model.engine, task_type, model.exit_rule)

    def process_batch(examples: Sequence[Any]) -> list[ItemResult]:
        scored = scorer.score_chunk(examples)
        depths: Sequence[float | None] = scored.depths or [None] * len(scored.encoded)
        results = []
        for encoded, (logits,), depth in zip(scored.encoded, scored.scores, depths, strict=True):
            output: dict[str, Any] = {"logits": dict(zip(labels, logits.tolist(), strict=True))}
            if encoded.num_truncated_tokens:
                output["truncated_tokens"] = encoded.num_truncated_tokens
            results.append(ItemResult(output, encoded.num_tokens, depth))
        return results

    return process_batch
