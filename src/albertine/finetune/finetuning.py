"""Fine-tuning as a `Trainable`: batches in a new order each epoch, losses, evaluation on dev."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.checksums import json_checksum
from albertine.errors import InputError
from albertine.finetune.class_weights import ClassWeights
from albertine.finetune.dev_evaluation import DevEvaluation, DevEvaluator
from albertine.finetune.learned_exit import EXIT_OBJECTIVE, ExitPrior, learned_exit_losses
from albertine.finetune.model_selection import LOSS, score_to_minimize
from albertine.interop.safetensors_file import write_tensors
from albertine.interop.save_checkpoint import checkpoint_writer
from albertine.json_input import JsonError, dataclass_from_json
from albertine.model.cost import count_flops
from albertine.model.losses import ObjectiveLoss, mean_over_depths
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.randomness import Stream, random_bits
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import Example
from albertine.tasks.registry import task_of_card
from albertine.tasks.sequences import EncodedExample, TaskSample, split_by_tokens, strip_from_samples
from albertine.tasks.types.task_type import Prediction, TaskType
from albertine.text.tokenizer import Tokenizer
from albertine.train.checkpoints import TRAINED_WEIGHTS_FILE
from albertine.train.distributed import Distributed
from albertine.train.sharding import full_tensor
from albertine.train.step_metrics import StepMetrics
from albertine.train.trainable import StepBatch

_DIVERGED_LOSS = 1.5  # held-out loss, relative to that before training


class TrainingCollapsed(Exception):  # noqa: N818  # not an error: the run restarts
    """All predictions on dev have been the same, up to the middle of the run or until the loss diverged."""


@dataclass(frozen=True)
class FinetuneMicroBatch:
    """Samples that one forward and backward pass computes.

    Attributes:
        strip: the sequences of the samples.
        targets: the targets of the samples, in the form that the head takes.
        target_counts: number of targets of each objective, or the sum of their weights.
    """

    strip: Strip
    targets: Any
    target_counts: Sequence[float]

    def to(self, device: torch.device) -> "FinetuneMicroBatch":
        """Return the micro-batch on a device."""
        return FinetuneMicroBatch(self.strip.to(device), self.targets.to(device), self.target_counts)


@dataclass(frozen=True)
class _Position:
    """What a checkpoint holds; see `Finetuning.data_position`."""

    samples_taken: int
    predictions_varied: bool
    untrained_loss: float | None = None


class Finetuning:
    """The `Trainable` of fine-tuning: trains on the samples of encoded examples and evaluates on dev.

    Attributes:
        samples: the training samples.
        objectives: names of the objectives.
        predictions: those of the last evaluation, one for each example of dev; None before the first one,
            and in all processes but the main one.
    """

    def __init__(
        self,
        train: Sequence[EncodedExample],
        dev: Sequence[tuple[Example, EncodedExample]],
        task_type: TaskType,
        card: TaskCard,
        tokenizer: Tokenizer,
        model_settings: Any,
        *,
        batch_size: int,
        seed: int,
        distributed: Distributed,
        micro_batch_tokens: int,
        collapse_check_step: int | None,
        is_sharded: bool = False,
        trains_exits: bool = False,
        exit_prior: ExitPrior | None = None,
        class_weights: ClassWeights | None = None,
        start_sha256: str | None = None,
    ):
        """Store the data and the settings of a run.

        Args:
            train: training examples.
            dev: evaluation examples, each with its encoding.
            task_type: encodes examples and computes losses, predictions and metrics.
            card: task card that checkpoints get.
            tokenizer: tokenizer that checkpoints get.
            model_settings: settings of the encoder, from which the cost of a step is computed.
            batch_size: samples of a step, over all processes.
            seed: seed of the order of the samples.
            distributed: the processes.
            micro_batch_tokens: maximum tokens of a micro-batch.
            collapse_check_step: first step whose evaluation raises `TrainingCollapsed` even if the loss has
                not diverged; None if no evaluation raises it.
            is_sharded: whether the weights are sharded over the processes.
            trains_exits: whether the head is trained after every step of depth.
            exit_prior: prior of the exits, if an exit unit is trained, too; else None.
            class_weights: weights of the labels in the training loss; None if all count the same.
            start_sha256: checksum of the encoder to start from; None if its weights are new.
        """
        self.samples = [sample for encoded in train for sample in encoded.samples]
        self._dev, self._task_type, self._card, self._tokenizer = dev, task_type, card, tokenizer
        self._model_settings, self._batch_size, self._seed = model_settings, batch_size, seed
        self._distributed, self._micro_batch_tokens = distributed, micro_batch_tokens
        self._evaluator = DevEvaluator(dev, task_type, distributed, micro_batch_tokens, is_sharded=is_sharded)
        self._collapse_check_step = collapse_check_step
        self._trains_exits, self._exit_prior = trains_exits, exit_prior
        self._class_weights, self._start_sha256 = class_weights, start_sha256
        self.objectives = (*task_type.objectives, *([EXIT_OBJECTIVE] if exit_prior else []))
        self.predictions: Sequence[Prediction] | None = None
        self._samples_taken, self._predictions_varied, self._untrained_loss = 0, False, math.inf
        self._epoch, self._order = -1, np.empty(0, np.int64)

    # Position in the data.

    @property
    def data_position(self) -> dict[str, Any]:
        """Samples taken, whether predictions on dev have ever differed, and the loss before training."""
        untrained_loss = self._untrained_loss if math.isfinite(self._untrained_loss) else None
        return asdict(_Position(self._samples_taken, self._predictions_varied, untrained_loss))

    def seek(self, step: int, data_position: dict[str, Any]) -> None:  # noqa: ARG002
        """Continue at a position in the data."""
        position = dataclass_from_json(_Position, data_position)
        self._samples_taken, self._predictions_varied = position.samples_taken, position.predictions_varied
        self._untrained_loss = math.inf if position.untrained_loss is None else position.untrained_loss

    def close(self) -> None:
        """Do nothing: no process prepares batches."""

    @property
    def data_fingerprint(self) -> dict[str, Any]:
        """Numbers and hashes of samples and start, and the transform of targets, as JSON values."""
        held_out = [sample for _, encoded in self._dev for sample in encoded.samples]
        return {
            "num_samples": len(self.samples),
            "sha256": samples_digest(self.samples),
            "num_held_out": len(held_out),
            "held_out_sha256": samples_digest(held_out),
            "start_sha256": self._start_sha256,
            "labels_sha256": json_checksum(self._card.labels),
            **self._task_type.target_transform,
        }

    def check_same_data(self, fingerprint: Any) -> None:
        """Raise `InputError` if samples or weights are not those that the run started with."""
        current = self.data_fingerprint
        if not isinstance(fingerprint, dict):
            raise JsonError("expected an object")
        start = current.pop("start_sha256")
        fingerprint = dict(fingerprint)
        if fingerprint.pop("start_sha256", start) != start:  # earlier versions wrote none
            raise InputError(
                "the run started from other weights than the model to start from has now; name another --out"
            )
        labels = current.pop("labels_sha256")
        stored_labels = fingerprint.pop("labels_sha256", labels)  # earlier versions wrote none
        if fingerprint.keys() != current.keys():
            raise InputError(
                "the run was started by an older version of Albertine, which did not standardize numbers; "
                "name another --out"
            )
        for name in ("num_samples", "num_held_out"):
            if not isinstance(fingerprint[name], int):
                raise JsonError(f"{name} is not an integer")
        if fingerprint != current:
            raise InputError(
                f"the examples differ from those that the run started with ({fingerprint['num_samples']:,} "
                f"samples and {fingerprint['num_held_out']:,} held out then, {current['num_samples']:,} and "
                f"{current['num_held_out']:,} now); restore them, or name another --out"
            )
        if stored_labels != labels:
            raise InputError(
                "the labels are spelled in another way than those that the run started with; restore them, "
                "or name another --out"
            )

    # Training.

    @property
    def loss_ceiling(self) -> float:
        """Infinity: how large a loss is normal depends on the task."""
        return math.inf

    def after_step(self, model: Model, step: int) -> None:
        """Do nothing: only the optimizer updates weights."""

    def objective_changes(self, step: int) -> bool:  # noqa: ARG002
        """Return False: the objectives are the same in every step."""
        return False

    def work(self, start: int, end: int) -> float:
        """Return the number of steps: all of them cost the same, up to the lengths of the texts."""
        return end - start

    def next_batch(self, step: int) -> StepBatch:  # noqa: ARG002
        """Return this process's part of the next batch."""
        batch = [self.samples[index] for index in self._next_indices()]
        local_samples = batch[self._distributed.rank :: self._distributed.world_size]
        groups = split_by_tokens(local_samples, lambda sample: sample.num_tokens, self._micro_batch_tokens)
        micro_batches = [self._micro_batch(group) for group in groups]
        tokens = sum(sample.num_tokens for sample in local_samples)
        longest = max((len(ids) for sample in local_samples for ids in sample.ids), default=1)
        # The backward pass takes twice the operations of the forward pass.
        flops = 3 * tokens * count_flops(self._model_settings, longest).forward_per_token
        return StepBatch(micro_batches, tokens, flops, self._micro_batch([]))

    def _next_indices(self) -> list[int]:
        """Advance by one batch and return its sample indices; a batch may span two epochs."""
        indices = []
        for position in range(self._samples_taken, self._samples_taken + self._batch_size):
            epoch, position_in_epoch = divmod(position, len(self.samples))
            if epoch != self._epoch:
                self._epoch, self._order = epoch, epoch_order(self._seed, epoch, len(self.samples))
            indices.append(int(self._order[position_in_epoch]))
        self._samples_taken += self._batch_size
        return indices

    def _micro_batch(self, samples: Sequence[TaskSample]) -> FinetuneMicroBatch:
        targets = self._task_type.targets(samples)
        counts: list[float] = [*self._task_type.target_counts(samples)]
        if self._class_weights is not None:
            counts = [*self._class_weights.target_counts(targets)]
        if self._exit_prior is not None:
            counts.append(len(samples))
        return FinetuneMicroBatch(strip_from_samples(samples), targets, counts)

    def compute_losses(
        self,
        model: Any,
        micro_batch: FinetuneMicroBatch,
        step: int,  # noqa: ARG002
    ) -> Sequence[ObjectiveLoss]:
        """Return the loss of each objective on a micro-batch; with exits, a mean over the steps of depth."""
        strip, targets = micro_batch.strip, micro_batch.targets
        if not self._trains_exits:
            return self._objective_losses(model(strip, targets), targets, strip)
        if self._exit_prior is not None:
            counts = micro_batch.target_counts
            return learned_exit_losses(model, self._task_type, strip, targets, counts, self._exit_prior)
        outputs = model.exit_outputs(strip, targets)
        losses = [self._objective_losses(output, targets, strip) for output in outputs]
        return mean_over_depths(losses, range(1, len(outputs) + 1))

    def _objective_losses(self, output: Any, targets: Any, strip: Strip) -> Sequence[ObjectiveLoss]:
        if self._class_weights is not None:
            return self._class_weights.objective_losses(output.logits, targets)
        return self._task_type.objective_losses(output, targets, strip)

    # Evaluation.

    def evaluate(self, model: Any, step: int) -> dict[str, float]:
        """Return the metrics and the loss on dev.

        Raises:
            TrainingCollapsed: if all predictions have been the same up to this step, and either the loss has
                diverged or the step is late enough.
        """
        self.predictions = None  # so that the memory of a large dev is free
        evaluation = self._evaluator.evaluate(model)
        if self._distributed.is_main:
            self.predictions = evaluation.predictions
        if step == 0:  # predictions may vary by chance
            self._untrained_loss = evaluation.loss
        else:
            self._predictions_varied = self._predictions_varied or not evaluation.collapse_reason
            self._check_not_collapsed(evaluation, step)
        return {**evaluation.metrics, LOSS: evaluation.loss}

    def _check_not_collapsed(self, evaluation: DevEvaluation, step: int) -> None:
        if self._collapse_check_step is None or self._predictions_varied:
            return
        has_diverged = not evaluation.loss <= _DIVERGED_LOSS * self._untrained_loss  # also if it is NaN
        if has_diverged or step >= self._collapse_check_step:
            raise TrainingCollapsed(f"{evaluation.collapse_reason} up to step {step:,}")

    def score_to_minimize(self, metrics: dict[str, float], step: int) -> float:
        """Return the number by which evaluations are compared; see `model_selection`."""
        return score_to_minimize(task_of_card(self._card), metrics, step)

    def diagnose(self, metrics: StepMetrics) -> str | None:  # noqa: ARG002
        """Return None: fine-tuning has no diagnosis of its progress."""
        return None

    def checkpoint_writer(self, model: Model, step: int) -> Callable[[Path], None]:  # noqa: ARG002
        """Return a function that writes the model with its tokenizer and its task card."""
        parameters = {name: full_tensor(parameter.detach()) for name, parameter in model.named_parameters()}
        saved = self._task_type.weights_to_save(parameters)
        trained = {name: parameters[name].cpu().clone() for name in saved}
        write_model = checkpoint_writer(model, tokenizer=self._tokenizer, parameters=parameters | saved)
        card = self._task_type.updated_card(self._card)

        def write(folder: Path) -> None:
            write_model(folder)
            card.write(folder)
            if trained:
                write_tensors(trained, folder / TRAINED_WEIGHTS_FILE)

        return write


def samples_digest(samples: Iterable[TaskSample]) -> str:
    """Return the SHA-256 of the token ids and targets of samples."""
    digest = hashlib.sha256()
    for sample in samples:
        for ids in sample.ids:
            digest.update(ids.tobytes())
        target = sample.target
        if is_dataclass(target) and not isinstance(target, type):  # its repr has the name of the class
            target = astuple(target)
        digest.update(target.tobytes() if isinstance(target, np.ndarray) else repr(target).encode())
    return digest.hexdigest()


def epoch_order(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """Return a permutation of the sample indices, [count], which depends only on the arguments."""
    return np.argsort(random_bits(seed, Stream.FINETUNING_ORDER, epoch, np.arange(count)), kind="stable")
