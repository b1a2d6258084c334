"""Tuning on a task as work for the loop: samples in an order drawn anew in every epoch."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.errors import InputError
from albertine.interop.huggingface import checkpoint_writer
from albertine.model.cost import count_flops
from albertine.model.heads import SpanTargets
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.randomness import random_bits
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import Example
from albertine.tasks.metrics.scores import primary_metric
from albertine.tasks.scorer import Scorer
from albertine.tasks.types.span_extraction import SpanExtraction
from albertine.tasks.types.task_type import EncodedExample, TaskSample, TaskType, strip_from_samples
from albertine.text.tokenizer import Tokenizer
from albertine.train.distributed import Distributed
from albertine.train.sharding import full_tensor
from albertine.train.step_metrics import StepMetrics
from albertine.train.trainable import ObjectiveLoss, StepBatch

_ORDER_STREAM = 9  # what the hash is asked for


class TrainingCollapsed(Exception):  # noqa: N818  # a turn of events, which the run answers
    """All answers of the model are one and the same."""


@dataclass(frozen=True)
class FinetuneMicroBatch:
    """Samples that are computed at once."""

    strip: Strip
    targets: Any
    target_counts: Sequence[int]

    def to(self, device: torch.device) -> "FinetuneMicroBatch":
        """Move it to a device."""
        targets = self.targets
        if isinstance(targets, SpanTargets):
            answerable = None if targets.answerable is None else targets.answerable.to(device)
            targets = SpanTargets(targets.start.to(device), targets.end.to(device), answerable)
        else:
            targets = targets.to(device)
        return FinetuneMicroBatch(self.strip.to(device), targets, self.target_counts)


class Finetuning:
    """Tuning on the samples of some sheets, measured on others."""

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
        collapse_check_step: int,
        is_sharded: bool = False,
    ):
        self.samples = [sample for sheet in train for sample in sheet.samples]
        self._dev, self._task_type, self._card, self._tokenizer = dev, task_type, card, tokenizer
        self._model_settings, self._batch_size, self._seed = model_settings, batch_size, seed
        self._distributed, self._micro_batch_tokens, self._collapse_check_step = (
            distributed,
            micro_batch_tokens,
            collapse_check_step,
        )
        self._is_sharded = is_sharded
        self.objectives = tuple(task_type.objectives)
        self._samples_taken, self._predictions_varied = 0, False
        self._epoch, self._order = -1, np.empty(0, np.int64)

    # Where in the data.

    @property
    def data_position(self) -> dict[str, Any]:
        """How many samples have been taken, and whether answers have ever differed."""
        return {"place": self._samples_taken, "varied": self._predictions_varied}

    def seek(self, step: int, data_position: dict[str, Any]) -> None:  # noqa: ARG002  # the place says it all
        """Go to a place."""
        self._samples_taken, self._predictions_varied = (
            int(data_position["place"]),
            bool(data_position["varied"]),
        )

    def close(self) -> None:
        """Let go of nothing: samples lie in memory."""

    @property
    def data_fingerprint(self) -> dict[str, Any]:
        """What tells the samples from any others."""
        held_out = [sample for _, sheet in self._dev for sample in sheet.samples]
        return {
            "samples": len(self.samples),
            "sha256": _digest(self.samples),
            "held_out": len(held_out),
            "held_out_sha256": _digest(held_out),
        }

    def check_same_data(self, fingerprint: dict[str, Any]) -> None:
        """Refuse other examples than the run began with."""
        if fingerprint != self.data_fingerprint:
            raise InputError(
                f"the examples are not those that the run began with ({fingerprint['samples']:,} samples and "
                f"{fingerprint['held_out']:,} to measure on then, {self.data_fingerprint['samples']:,} and "
                f"{self.data_fingerprint['held_out']:,} now, or others); bring those back, or name another --out"
            )

    # What is learned.

    def after_step(self, network: Model, step: int) -> None:
        """Nothing does."""

    def objective_changes(self, step: int) -> bool:  # noqa: ARG002
        """Tell that every step asks for the same."""
        return False

    def next_batch(self, step: int) -> StepBatch:  # noqa: ARG002  # the place says it all
        """Take this process's part of the next samples."""
        batch = [self.samples[at] for at in self._next_indices()]
        local_samples = batch[self._distributed.rank :: self._distributed.world_size]
        micro_batches = [
            self._micro_batch(part) for part in _split_by_tokens(local_samples, self._micro_batch_tokens)
        ]
        tokens = sum(sample.num_tokens for sample in local_samples)
        longest = max((len(ids) for sample in local_samples for ids in sample.ids), default=1)
        flops = 3 * tokens * count_flops(self._model_settings, longest).forward_per_token
        return StepBatch(micro_batches, tokens, flops, self._micro_batch([]))

    def _next_indices(self) -> list[int]:
        """Return which samples come next, over the end of an epoch if need be."""
        found = []
        for place in range(self._samples_taken, self._samples_taken + self._batch_size):
            epoch, at = divmod(place, len(self.samples))
            if epoch != self._epoch:
                self._epoch, self._order = epoch, epoch_order(self._seed, epoch, len(self.samples))
            found.append(int(self._order[at]))
        self._samples_taken += self._batch_size
        return found

    def _micro_batch(self, samples: Sequence[TaskSample]) -> FinetuneMicroBatch:
        return FinetuneMicroBatch(
            strip_from_samples(samples),
            self._task_type.targets(samples),
            self._task_type.target_counts(samples),
        )

    def compute_losses(
        self, model: Any, micro_batch: FinetuneMicroBatch, step: int
    ) -> Sequence[ObjectiveLoss]:
        """Compute the objectives on a piece."""
        return self._task_type.objective_losses(
            model(micro_batch.strip, micro_batch.targets), micro_batch.targets, micro_batch.strip
        )

    # How it goes.

    def evaluate(self, model: Any, step: int) -> dict[str, float]:
        """Score the answers on dev; find the threshold where some questions have none."""
        scorer = Scorer(model, self._task_type, self._distributed.device, self._micro_batch_tokens)
        # Spread weights are gathered by all at once, so then all score all.
        local_indices = (
            range(len(self._dev))[self._distributed.rank :: self._distributed.world_size]
            if not self._is_sharded
            else range(len(self._dev))
        )
        local_scores = scorer.score([self._dev[at][1] for at in local_indices])
        scores_by_index = dict(
            pair
            for part in self._distributed.all_gather(list(zip(local_indices, local_scores, strict=True)))
            for pair in part
        )
        examples = [example for example, _ in self._dev]

        def predict() -> list[dict[str, Any]]:
            return [
                self._task_type.prediction(example, sheet, scores_by_index[at])
                for at, (example, sheet) in enumerate(self._dev)
            ]

        predictions = predict()
        if self._task_type.fit_threshold(examples, predictions):
            predictions = predict()
        metrics = self._task_type.compute_metrics(examples, predictions)
        collapse = self._task_type.collapse_reason(examples, predictions)
        if collapse and step >= self._collapse_check_step and not self._predictions_varied:
            raise TrainingCollapsed(collapse)
        self._predictions_varied = self._predictions_varied or (step > 0 and not collapse)
        return metrics

    def score_to_minimize(self, metrics: dict[str, float]) -> float:
        """Return how far the task's score is from the best there could be."""
        return 1.0 - primary_metric(self._card.task, metrics)

    def diagnose(self, metrics: StepMetrics) -> str | None:  # noqa: ARG002
        """Say nothing between evaluations."""
        return None

    def checkpoint_writer(self, model: Model, step: int) -> Callable[[Path], None]:  # noqa: ARG002
        """Return what writes the model with its tokenizer and its card."""
        parameters = {name: full_tensor(one.detach()) for name, one in model.named_parameters()}
        write_model = checkpoint_writer(model, tokenizer=self._tokenizer, parameters=parameters)
        card = self._card
        if isinstance(self._task_type, SpanExtraction):
            card = replace(card, no_answer_threshold=self._task_type.no_answer_threshold)

        def write(folder: Path) -> None:
            write_model(folder)
            card.write(folder)

        return write


def _digest(samples: Sequence[TaskSample]) -> str:
    digest = hashlib.sha256()
    for sample in samples:
        for ids in sample.ids:
            digest.update(ids.tobytes())
        target = sample.target
        digest.update(target.tobytes() if isinstance(target, np.ndarray) else repr(target).encode())
    return digest.hexdigest()


def epoch_order(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """Return the order of an epoch, the same whenever it is asked for."""
    return np.argsort(random_bits(seed, _ORDER_STREAM, epoch, np.arange(count)), kind="stable")


def _split_by_tokens(samples: Sequence[TaskSample], max_tokens: int) -> Iterator[list[TaskSample]]:
    """Cut samples into pieces of at most so many tokens; one that has more is a piece by itself."""
    group: list[TaskSample] = []
    num_tokens = 0
    for sample in samples:
        if group and num_tokens + sample.num_tokens > max_tokens:
            yield group
            group, num_tokens = [], 0
        group.append(sample)
        num_tokens += sample.num_tokens
    if group:
        yield group
