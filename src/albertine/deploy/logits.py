"""The logits of a classification model, for clients that want raw scores in place of probabilities."""

from collections.abc import Sequence
from typing import Any

from albertine.deploy.batcher import BatchFunction, ItemResult
from albertine.engines.engine import check_finite
from albertine.inference.ensemble_model import EnsembleModel, TaskModel
from albertine.model.heads import PredictionOutput
from albertine.model.strip import Strip
from albertine.tasks.scorer import Scorer
from albertine.tasks.types.classification import Classification
from albertine.tasks.types.task_type import SampleScores


class LogitClassification(Classification):
    """Classification whose scores are logits."""

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the logits of the labels for each sample, each `[labels]`."""
        return list(check_finite(output.logits.float().cpu().numpy()))


def make_logits_function(model: TaskModel) -> BatchFunction | None:
    """Return a function of a batch of examples with the logits by label as output of each of them.

    It is None for models of other tasks, and for an ensemble, which averages probabilities.
    """
    if isinstance(model, EnsembleModel) or not isinstance(model.task_type, Classification):
        return None
    task_type = LogitClassification.from_card(model.card, model.tokenizer, answerable=False, dropout=0.0)
    scorer = Scorer(model.engine, task_type, model.exit_rule)

    def process_batch(examples: Sequence[Any]) -> list[ItemResult]:
        scored = scorer.score_chunk(examples)
        results = []
        for encoded, (logits,) in zip(scored.encoded, scored.scores, strict=True):
            output: dict[str, Any] = {"logits": dict(zip(task_type.labels, logits.tolist(), strict=True))}
            if encoded.num_truncated_tokens:
                output["truncated_tokens"] = encoded.num_truncated_tokens
            results.append(ItemResult(output, encoded.num_tokens))
        return results

    return process_batch
