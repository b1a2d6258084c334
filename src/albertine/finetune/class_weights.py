"""Weights of the labels in the training loss, so that rare labels count as much as frequent ones.

The loss of a step is the weighted mean over its targets: the sum of weight times loss, divided by the
sum of the weights. The sum of the weights takes the place of the number of targets, which the
trainer sums over micro-batches and processes, so it does not matter how a step is divided.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.losses import ObjectiveLoss
from albertine.tasks.registry import TASK_TYPES
from albertine.tasks.sequences import TaskSample
from albertine.tasks.task import Task
from albertine.tasks.types.task_type import TaskType


class ClassWeights:
    """A weight for each label, with the weighted loss of a task type whose targets are label ids.

    Attributes:
        weights: the weights, [labels], in fp64.
    """

    def __init__(self, weights: Tensor):
        self.weights = weights.double()

    def target_counts(self, targets: Tensor) -> Sequence[float]:
        """Return the sum of the weights of targets, for the only objective; negative targets are ignored."""
        return (float(self.weights[targets[targets >= 0]].sum()),)

    def objective_losses(self, logits: Tensor, targets: Tensor) -> Sequence[ObjectiveLoss]:
        """Return the weighted mean cross-entropy, and the weighted number of correct predictions.

        Args:
            logits: logits of the labels, [targets, labels].
            targets: label ids, [targets]; negative ones are ignored.
        """
        weights = self.weights.to(logits.device, torch.float32)
        summed = functional.cross_entropy(logits.float(), targets, weights, reduction="sum")
        target_weights = weights[targets.clamp(min=0)] * (targets >= 0)
        correct = (target_weights * (logits.argmax(1) == targets)).sum()
        total = target_weights.sum()
        return (ObjectiveLoss(summed / total.clamp(min=torch.finfo(torch.float32).tiny), correct),)


def check_class_weights(task: Task) -> None:
    """Raise `InputError` if the targets of a task are not label ids, which could have weights."""
    if not task.task_type.targets_are_labels:
        names = ", ".join(name for name, one in TASK_TYPES.items() if one.targets_are_labels)
        raise InputError(
            f"--train.class-weights: --task {task.name} is {task.task_type.title}, whose labels have no "
            f"weights; the types that have them: {names}"
        )


def balanced_class_weights(task_type: TaskType, samples: Sequence[TaskSample]) -> ClassWeights:
    """Return weights in inverse proportion to the frequency of a label; their mean over all targets is 1.

    A label that no sample has, and no loss needs, has the weight 1.

    Args:
        task_type: gives the targets of samples.
        samples: the training samples.
    """
    targets = task_type.targets(samples)
    counts = torch.bincount(targets[targets >= 0], minlength=task_type.head_settings.labels).double()
    is_known = counts > 0
    weights = counts.sum() / (is_known.sum() * counts.clamp(min=1))
    return ClassWeights(torch.where(is_known, weights, torch.ones_like(weights)))
