"""The loss with which fine-tuning trains the exit unit, that of PonderNet: the expected loss, and a prior."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from albertine.model.learned_exit import divergence_from_prior, exit_log_probabilities
from albertine.model.losses import ObjectiveLoss
from albertine.model.strip import Strip
from albertine.tasks.types.task_type import TaskType

EXIT_OBJECTIVE = "exit"


@dataclass(frozen=True)
class ExitPrior:
    """The distribution of exits from which the exit unit should not differ much.

    Attributes:
        stop_probability: probability to stop at each step.
        weight: weight of the divergence in the loss.
    """

    stop_probability: float
    weight: float


def learned_exit_losses(
    model: Any,
    task_type: TaskType,
    strip: Strip,
    targets: Any,
    target_counts: Sequence[float],
    prior: ExitPrior,
) -> list[ObjectiveLoss]:
    """Return the expected loss of each objective under the exits of the unit, and their divergence.

    The number of correct predictions is that after the last step.

    Args:
        model: the model, with an exit unit.
        task_type: gives the loss of each sample.
        strip: the sequences.
        targets: targets of the head's type.
        target_counts: number of targets of each objective, the divergence included.
        prior: the prior of the exits.
    """
    outputs, stop_logits = model.learned_exit_outputs(strip, targets)
    log_probabilities = exit_log_probabilities(stop_logits)  # [steps, samples]
    probabilities = log_probabilities.exp()
    by_step = [task_type.sample_losses(output, targets, strip) for output in outputs]
    at_last_step = task_type.objective_losses(outputs[-1], targets, strip)
    *counts, num_samples = (max(1, count) for count in target_counts)
    losses = [
        ObjectiveLoss((probabilities * torch.stack(sample_losses)).sum() / count, last.correct)
        for *sample_losses, count, last in zip(*by_step, counts, at_last_step, strict=True)
    ]
    divergence = divergence_from_prior(log_probabilities, prior.stop_probability).sum() / num_samples
    not_counted = torch.full_like(divergence, math.nan)
    return [*losses, ObjectiveLoss(prior.weight * divergence, not_counted.detach())]
