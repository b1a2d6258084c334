"""Evaluation on dev: predictions, metrics, held-out loss, and whether all predictions are the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from albertine.tasks.examples import Example
from albertine.tasks.sequences import EncodedExample, longest_first_groups, strip_from_samples
from albertine.tasks.types.task_type import Metrics, Prediction, SampleScores, TaskType
from albertine.train.distributed import Distributed


@dataclass(frozen=True)
class DevEvaluation:
    """The result of an evaluation on dev.

    Attributes:
        metrics: metrics of the task.
        loss: sum of the mean losses of all objectives.
        collapse_reason: message if all predictions are the same although the labels differ, else None.
        predictions: the prediction for each example.
    """

    metrics: Metrics
    loss: float
    collapse_reason: str | None
    predictions: Sequence[Prediction]


class DevEvaluator:
    """Evaluates models on the same examples; the processes divide the work."""

    def __init__(
        self,
        dev: Sequence[tuple[Example, EncodedExample]],
        task_type: TaskType,
        distributed: Distributed,
        micro_batch_tokens: int,
        *,
        is_sharded: bool,
    ):
        """Store the arguments.

        Args:
            dev: labeled examples, each with its encoding.
            task_type: computes losses, predictions and metrics.
            distributed: the processes.
            micro_batch_tokens: maximum tokens of a micro-batch.
            is_sharded: whether the weights are sharded over the processes.
        """
        self._dev, self._task_type, self._distributed = dev, task_type, distributed
        self._micro_batch_tokens = micro_batch_tokens
        # Each forward pass gathers sharded weights from all processes, so all must compute the same batches.
        indices = range(len(dev))
        self._local_indices = indices if is_sharded else indices[distributed.rank :: distributed.world_size]

    def evaluate(self, model: Any) -> DevEvaluation:
        """Evaluate a model, after fitting the no-answer threshold if the task type has one."""
        examples = [example for example, _ in self._dev]
        scores, loss = self._scores_and_loss(model)

        def predict() -> list[Prediction]:
            return [
                self._task_type.prediction(example, encoded, sample_scores)
                for (example, encoded), sample_scores in zip(self._dev, scores, strict=True)
            ]

        predictions = predict()
        if self._task_type.fit_threshold(examples, predictions):
            predictions = predict()
        return DevEvaluation(
            self._task_type.compute_metrics(examples, predictions),
            loss,
            self._task_type.collapse_reason(examples, predictions, loss),
            predictions,
        )

    def _scores_and_loss(self, model: Any) -> tuple[list[list[SampleScores]], float]:
        """Return the scores of the samples of each example, and the sum of the objectives' mean losses."""
        local_examples = [self._dev[index][1] for index in self._local_indices]
        samples = [sample for encoded in local_examples for sample in encoded.samples]
        scores_by_sample: dict[int, SampleScores] = {}
        loss_sums = torch.zeros(len(self._task_type.objectives), dtype=torch.float64)
        target_counts = torch.zeros_like(loss_sums)
        for indices in longest_first_groups(samples, self._micro_batch_tokens):
            group = [samples[index] for index in indices]
            strip, targets = strip_from_samples(group), self._task_type.targets(group)
            strip, targets = strip.to(self._distributed.device), targets.to(self._distributed.device)
            with torch.no_grad():  # sharded parameters cannot be gathered in `inference_mode`
                output = model(strip, targets)
                losses = self._task_type.objective_losses(output, targets, strip)
            counts = loss_sums.new_tensor(self._task_type.target_counts(group))
            loss_sums += torch.stack([objective.loss for objective in losses]).double().cpu() * counts
            target_counts += counts
            scores_by_sample |= zip(indices, self._task_type.sample_scores(output, strip), strict=True)
        all_scores = (scores_by_sample[index] for index in range(len(samples)))
        local_scores = [[next(all_scores) for _ in encoded.samples] for encoded in local_examples]
        return self._gather_scores(local_scores), self._mean_loss(loss_sums, target_counts)

    def _gather_scores(self, local_scores: list[list[SampleScores]]) -> list[list[SampleScores]]:
        """Return the scores of all examples, from those of each process."""
        pairs_by_rank = self._distributed.all_gather(
            list(zip(self._local_indices, local_scores, strict=True))
        )
        scores_by_index = dict(pair for pairs in pairs_by_rank for pair in pairs)
        return [scores_by_index[index] for index in range(len(self._dev))]

    def _mean_loss(self, loss_sums: torch.Tensor, target_counts: torch.Tensor) -> float:
        """Return the sum of the mean losses.

        With sharded weights every process has all samples; the repetition cancels in a mean.
        """
        numbers = self._distributed.all_reduce_sum([*loss_sums.tolist(), *target_counts.tolist()])
        sums, counts = numbers[: len(loss_sums)], numbers[len(loss_sums) :]
        return sum(total / max(1.0, count) for total, count in zip(sums, counts, strict=True))
