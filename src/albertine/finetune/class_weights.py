"""Weights of the labels in the training loss, so that rare labels count as much as frequent ones.

The loss of a step is the weighted mean over its targets: the sum of weight times loss, divided by the
sum of the weights. The sum of the weights takes the place of the number of targets, which the
trainer sums over micro-batches and processes, so it does not matter how a step is divided.
"""

from abc import ABC, abstractmethod
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


class ClassWeights(ABC):
    """Weights of the labels, with the weighted loss of a task type.

    Attributes:
        weights: the weights, in fp64.
    """

    def __init__(self, weights: Tensor):
        self.weights = weights.double()

    def target_counts(self, targets: Tensor) -> Sequence[float]:
        """Return the sum of the weights of targets, for the only objective."""
        return (float(self._target_weights(targets, self.weights).sum()),)

    def objective_losses(self, logits: Tensor, targets: Tensor) -> Sequence[ObjectiveLoss]:
        """Return the weighted mean of the losses, and the weighted number of correct decisions."""
        weights = self._target_weights(targets, self.weights.to(logits.device, torch.float32))
        losses, is_correct = self._decisions(logits.float(), targets)
        total = weights.sum().clamp(min=torch.finfo(torch.float32).tiny)
        return (ObjectiveLoss((weights * losses).sum() / total, (weights * is_correct).sum()),)

    @abstractmethod
    def _target_weights(self, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the weight of each target."""

    @abstractmethod
    def _decisions(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each target, and whether its decision is correct."""


class LabelWeights(ClassWeights):
    """A weight for each label, [labels]; targets are label ids, [targets], and -100 is ignored."""

    def _target_weights(self, targets: Tensor, weights: Tensor) -> Tensor:
        return weights[targets.clamp(min=0)] * (targets >= 0)

    def _decisions(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return functional.cross_entropy(logits, targets, reduction="none"), logits.argmax(1) == targets


class LabelSetWeights(ClassWeights):
    """For each label, the weights of its absence and presence, [labels, 2].

    Targets are 0 and 1, [samples, labels].
    """

    def _target_weights(self, targets: Tensor, weights: Tensor) -> Tensor:
        return torch.where(targets > 0, weights[:, 1], weights[:, 0])

    def _decisions(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return losses, (logits > 0) == (targets > 0)


def check_class_weights(task: Task) -> None:
    """Raise `InputError` if the targets of a task are not labels."""
    if not _has_class_weights(task.task_type):
        names = ", ".join(name for name, one in TASK_TYPES.items() if _has_class_weights(one))
        raise InputError(
            f"--train.class-weights: --task {task.name} is {task.task_type.title}, whose labels have no "
            f"weights; the types that have them: {names}"
        )


def _has_class_weights(task_type: TaskType | type[TaskType]) -> bool:
    return task_type.targets_are_labels or task_type.targets_are_label_sets


def balanced_class_weights(task_type: TaskType, samples: Sequence[TaskSample]) -> ClassWeights:
    """Return weights in inverse proportion to the frequency of a label, with a mean of 1 over the targets.

    For sets of labels, each label is a choice of its own: the samples with it weigh as much as those without.
    A label that no target has, so that no loss uses its weight, has the weight 1.

    Args:
        task_type: gives the targets of samples.
        samples: the training samples.
    """
    targets = task_type.targets(samples)
    if task_type.targets_are_label_sets:
        num_with = targets.double().sum(0)
        return LabelSetWeights(_balanced(torch.stack([len(targets) - num_with, num_with], dim=1)))
    counts = torch.bincount(targets[targets >= 0], minlength=task_type.head_settings.labels)
    return LabelWeights(_balanced(counts.double()))


def _balanced(counts: Tensor) -> Tensor:
    """Return weights of classes from their frequencies, [..., classes]; their weighted mean is 1."""
    is_known = counts > 0
    weights = counts.sum(-1, keepdim=True) / (is_known.sum(-1, keepdim=True) * counts.clamp(min=1))
    return torch.where(is_known, weights, 1.0)
