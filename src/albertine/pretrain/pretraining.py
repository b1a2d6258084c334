"""Pre-training as the trainer sees it: masked tokens and sentence pairs of a corpus, under a curriculum."""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.corpus.batches import Batch, BatchLoader, DataPosition, collate
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings
from albertine.display import display_text
from albertine.errors import InputError
from albertine.interop.save_checkpoint import checkpoint_writer
from albertine.json_input import dataclass_from_json
from albertine.model.cost import pretraining_flops
from albertine.model.losses import ObjectiveLoss, mean_over_depths
from albertine.model.model import Model
from albertine.model.pretraining_heads import PretrainingOutput
from albertine.pretrain.plateau import PlateauDetector
from albertine.pretrain.position_extrapolation import Sinusoids
from albertine.pretrain.scores import sample_sums
from albertine.pretrain.settings import PretrainSettings
from albertine.train.distributed import Distributed
from albertine.train.sharding import full_tensor, shard_like
from albertine.train.step_metrics import StepMetrics
from albertine.train.trainable import StepBatch


@dataclass(frozen=True)
class PretrainMicroBatch:
    """A micro-batch of samples.

    Attributes:
        batch: the samples.
        objectives: names of the objectives.
    """

    batch: Batch
    objectives: tuple[str, ...]

    @property
    def target_counts(self) -> tuple[int, ...]:
        """Number of targets of each objective."""
        is_causal, predicted = self.batch.causal_samples > 0, len(self.batch.targets.masked.indices)
        counts = {
            "mlm": 0 if is_causal else predicted,
            "next": predicted if is_causal else 0,
            "pair": len(self.batch.strip) - self.batch.causal_samples,
            "halting": len(self.batch.strip.tokens),
        }
        return tuple(counts[name] for name in self.objectives)

    def to(self, device: torch.device) -> "PretrainMicroBatch":
        """Return the micro-batch on a device."""
        return PretrainMicroBatch(self.batch.to(device), self.objectives)


@dataclass(frozen=True)
class _Position:
    """The position in the data that a checkpoint holds; see `Pretraining.data_position`."""

    sample_index: int = 0
    batch_in_pool: int = 0
    epoch_samples: int = 0


@dataclass(frozen=True)
class _Fingerprint:
    """Checksums of the tokenizer, and of each shard by its file."""

    tokenizer: str
    shards: dict[str, str]


class Pretraining:
    """Data, losses and evaluation of pre-training (a `Trainable`).

    Attributes:
        corpus: the corpus.
        settings: settings from `resolved_settings`.
        distributed: the processes that train together.
        objectives: names of the objectives.
    """

    def __init__(
        self,
        corpus: Corpus,
        settings: PretrainSettings,
        distributed: Distributed,
        plateau_detector: PlateauDetector,
        micro_batch_tokens: int,
    ):
        self.corpus, self.settings, self.distributed = corpus, settings, distributed
        self._plateau_detector, self._micro_batch_tokens = plateau_detector, micro_batch_tokens
        self._has_pairs = settings.objective.pair != "none"
        self._has_halting = settings.model.depth_rule == "halting"
        self._has_causal = settings.objective.causal_fraction > 0
        is_used = {
            "mlm": True, "next": self._has_causal, "pair": self._has_pairs, "halting": self._has_halting
        }  # fmt: skip
        self.objectives = tuple(name for name in is_used if is_used[name])
        self._objective: ObjectiveSettings | None = None
        self._batches: BatchLoader | None = None
        self._batch_iterator: Generator[Batch] | None = None
        self._start_position = asdict(_Position())
        self._extrapolation: Tensor | None = None
        self._held_out_batches: tuple[ObjectiveSettings, list[Batch]] | None = None

    # The position in the data.

    @property
    def data_position(self) -> dict[str, Any]:
        """Position after the last batch, and the number of samples per epoch under the current objective."""
        if self._batches is None:
            return self._start_position
        position = self._batches.position
        return asdict(_Position(position.sample_index, position.batch_in_pool, self._batches.epoch_samples))

    def seek(self, step: int, data_position: dict[str, Any]) -> None:  # noqa: ARG002
        """Continue at a position in the data."""
        self.close()
        position = dataclass_from_json(_Position, data_position)
        self._start_position, self._objective, self._batches = asdict(position), None, None

    def close(self) -> None:
        """Stop the processes that prepare samples."""
        if self._batch_iterator is not None:
            self._batch_iterator.close()
            self._batch_iterator = None

    @property
    def data_fingerprint(self) -> dict[str, Any]:
        """Checksums of the tokenizer and of all shards."""
        manifest = self.corpus.manifest
        shards = {entry.file: entry.sha256 for entry in manifest.shards}
        return asdict(_Fingerprint(manifest.tokenizer_fingerprint, shards))

    def check_same_data(self, fingerprint: Any) -> None:
        """Raise `InputError` if the corpus has other checksums."""
        then, now = (
            dataclass_from_json(_Fingerprint, values) for values in (fingerprint, self.data_fingerprint)
        )
        difference = None
        if then.tokenizer != now.tokenizer:
            difference = f"its tokenizer was {display_text(then.tokenizer)} and is {now.tokenizer}"
        else:
            for file in sorted(then.shards.keys() | now.shards.keys()):
                old, new = then.shards.get(file), now.shards.get(file)
                if old != new:
                    change = "is new" if old is None else "is missing" if new is None else "has changed"
                    difference = f"{display_text(file)} {change}"
                    break
        if difference:
            raise InputError(
                f"{self.corpus.folder}: not the corpus that the run started with: {difference}; "
                "restore that one, or start another run with --init-from"
            )

    # Batches and losses.

    @property
    def loss_ceiling(self) -> float:
        """Loss of a model that knows only token frequencies and guesses the labels of pairs."""
        unigram = self._plateau_detector.unigram_baseline * (2 if self._has_causal else 1)
        ceiling = unigram + (math.log(2) if self._has_pairs else 0.0)
        model = self.settings.model
        return ceiling + (model.halting_cost * (model.layers + 1) if self._has_halting else 0.0)

    def objective_changes(self, step: int) -> bool:
        """Return whether length, masking or depth change with this step."""
        settings, previous = self.settings, max(0, step - 1)
        has_same_objective = settings.objective_at(step) == settings.objective_at(previous)
        return not has_same_objective or settings.depth_at(step) != settings.depth_at(previous)

    def next_batch(self, step: int) -> StepBatch:
        """Return this process's part of the next batch, as micro-batches."""
        objective = self.settings.objective_at(step)
        if objective != self._objective or self._batch_iterator is None:
            self._open_batches(objective)
        assert self._batch_iterator is not None
        batch = next(self._batch_iterator)
        micro_batches = [
            PretrainMicroBatch(part, self.objectives) for part in batch.split(self._micro_batch_tokens)
        ]
        tokens = len(batch.strip.tokens)
        empty = PretrainMicroBatch(collate([], batch.step_samples), self.objectives)
        return StepBatch(micro_batches, tokens, tokens * self._flops_per_token(step), empty)

    def _flops_per_token(self, step: int) -> float:
        objective, depths = self.settings.objective_at(step), self.settings.exit_depths_at(step)
        return pretraining_flops(
            self.settings.model, objective.max_length, depths, objective.predicted_fraction
        )

    def work(self, start: int, end: int) -> float:
        """Return the sum of the FLOPs per token of the steps, all of which have about as many tokens.

        On a GPU it is their number: much of a step is the same with any depth (docs/records/first-gpu.md).
        """
        if self.distributed.device.type != "cpu":
            return end - start
        total = self.settings.train.steps
        bounds = [math.ceil(bound * total) for bound in self.settings.curriculum.boundaries()]
        stages = ((max(start, first), min(end, last)) for first, last in pairwise(bounds))
        return sum((last - first) * self._flops_per_token(first) for first, last in stages if first < last)

    def _open_batches(self, objective: ObjectiveSettings) -> None:
        """Open the batches of an objective at the current position.

        If the objective has changed, an epoch may have another number of samples; then the batches begin
        at the same fraction of the epoch.
        """
        position, dataset = self.data_position, PretrainDataset(self.corpus, objective)
        sample_index, batch_in_pool = position["sample_index"], position["batch_in_pool"]
        if position["epoch_samples"] not in (0, len(dataset)):
            sample_index, batch_in_pool = sample_index * len(dataset) // position["epoch_samples"], 0
        self.close()
        self._objective = objective
        self._batches = BatchLoader(
            dataset,
            self.settings.train.batch_tokens,
            position=DataPosition(sample_index, batch_in_pool),
            rank=self.distributed.rank,
            world_size=self.distributed.world_size,
            workers=self.settings.workers,
        )
        self._batch_iterator = iter(self._batches)

    def compute_losses(
        self, model: Any, micro_batch: PretrainMicroBatch, step: int
    ) -> Sequence[ObjectiveLoss]:
        """Return the loss of each objective on a micro-batch; with exits, a mean over several depths."""
        strip, targets = micro_batch.batch.strip, micro_batch.batch.targets
        depths = self.settings.exit_depths_at(step)
        if len(depths) == 1:
            return self._objective_losses(model, model(strip, targets, depth=depths[0]), micro_batch)
        outputs = model.exit_outputs(strip, targets, depths)
        return mean_over_depths(
            [self._objective_losses(model, output, micro_batch) for output in outputs], depths
        )

    def _objective_losses(
        self, model: Any, out: PretrainingOutput, micro_batch: PretrainMicroBatch
    ) -> list[ObjectiveLoss]:
        """Return the loss of each objective, from the output of the head."""
        targets = micro_batch.batch.targets
        assert out.masked.loss is not None
        assert out.masked.correct is not None
        assert out.pair_loss is not None
        with torch.no_grad():
            pair_correct = (out.pair_logits.argmax(1) == targets.pair_labels).sum()
        counts = dict(zip(self.objectives, micro_batch.target_counts, strict=True))
        losses = {
            # One of both has no targets in this micro-batch.
            **{
                name: ObjectiveLoss(out.masked.loss, out.masked.correct * bool(counts.get(name)))
                for name in ("mlm", "next")
            },
            "pair": ObjectiveLoss(out.pair_loss, pair_correct),
        }
        if self._has_halting:
            cost = model.encoder.halting.weights.mean_cost(len(micro_batch.batch.strip.tokens))
            not_counted = torch.full_like(pair_correct, math.nan, dtype=torch.float32)
            losses["halting"] = ObjectiveLoss(self.settings.model.halting_cost * cost, not_counted)
        return [losses[name] for name in self.objectives]

    def after_step(self, model: Any, step: int) -> None:
        """Extrapolate the embeddings of positions that no sample has reached yet."""
        if not self.settings.uses_local_start:
            return
        positions: Tensor = model.encoder.embedding.positions.weight
        trained_rows, sinusoids = self.settings.longest_sample(step), Sinusoids.for_model(self.settings.model)
        if trained_rows >= len(positions) or not len(sinusoids):
            return
        trained = full_tensor(positions.detach())[:trained_rows]
        if self._extrapolation is None or self._extrapolation.shape[1] != trained_rows:
            self._extrapolation = sinusoids.extrapolation_matrix(trained_rows, len(positions)).to(trained)
        with torch.no_grad():
            positions.copy_(shard_like(torch.cat([trained, self._extrapolation @ trained]), positions))

    # Evaluation and checkpoints.

    def evaluate(self, model: Any, step: int) -> dict[str, float]:
        """Return the metrics on the first samples of the dev split, under the current objective."""
        if not self.corpus.manifest.documents["dev"]:
            return {}
        last_step = max(0, step - 1)
        batches = self._dev_batches(self.settings.objective_at(last_step))
        mask_id = self.corpus.tokenizer.special_ids.mask
        depth = self.settings.depth_at(last_step)
        sums = sample_sums(model, batches, self.distributed.device, mask_id, depth)
        masked, loss, correct, *_, pair_loss, pair_correct, samples = self.distributed.all_reduce_sum(
            [*sums.sum(0).tolist(), len(sums)]
        )
        scores = {"mlm_loss": loss / max(1, masked), "mlm_accuracy": correct / max(1, masked)}
        if self._has_causal:
            sums = sample_sums(
                model, (batch.as_causal() for batch in batches), self.distributed.device, mask_id, depth
            )
            tokens, loss, correct = self.distributed.all_reduce_sum(sums[:, :3].sum(0).tolist())
            scores |= {"next_loss": loss / max(1, tokens), "next_accuracy": correct / max(1, tokens)}
        if self._has_pairs:
            scores |= {"pair_loss": pair_loss / samples, "pair_accuracy": pair_correct / samples}
        return {"loss": sum(value for name, value in scores.items() if name.endswith("loss")), **scores}

    def score_to_minimize(self, metrics: dict[str, float], step: int) -> float:  # noqa: ARG002
        """Return the loss on held-out data."""
        return metrics["loss"]

    def _dev_batches(self, objective: ObjectiveSettings) -> list[Batch]:
        """Return this process's part of the held-out batches, which are made once per objective."""
        if self._held_out_batches is None or self._held_out_batches[0] != objective:
            dataset = PretrainDataset(self.corpus, objective, "dev")
            # A causal batch predicts all tokens, and its logits need as much memory as those of masked ones.
            fraction = objective.mlm_probability if self._has_causal else 1.0
            size = max(1, int(self._micro_batch_tokens * fraction) // objective.max_length)
            sample_count = max(1, self.settings.train.evaluation_tokens // objective.max_length)
            indices = np.arange(min(len(dataset), sample_count))
            chunks = [indices[start : start + size] for start in range(0, len(indices), size)]
            # A batch gathers sharded weights from all processes, so all need as many; some may be empty.
            chunks += [indices[:0]] * (-len(chunks) % self.distributed.world_size)
            own_chunks = chunks[self.distributed.rank :: self.distributed.world_size]
            batches = [collate(dataset.draw(chunk), len(chunk)) for chunk in own_chunks]
            self._held_out_batches = (objective, batches)
        return self._held_out_batches[1]

    def diagnose(self, metrics: StepMetrics) -> str | None:
        """Return a message if the loss is at one of the baselines."""
        return self._plateau_detector.diagnose(metrics)

    def checkpoint_writer(self, model: Model, step: int) -> Callable[[Path], None]:
        """Return a function that writes the model, with its current depth, and the tokenizer."""
        depth = self.settings.depth_at(max(0, step - 1))
        parameters = {name: full_tensor(parameter.detach()) for name, parameter in model.named_parameters()}
        return checkpoint_writer(model, tokenizer=self.corpus.tokenizer, depth=depth, parameters=parameters)
