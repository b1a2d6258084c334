"""One run of the pre-training benchmark: one side trains at one learning rate, with evaluations.

Both sides are evaluated on the same held-out samples. These are masked as in the peer's
training (15% single tokens), which differs from Albertine's. Seconds are those of training,
with the loading of batches and without evaluations.
"""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from albertine.bench.peer_pretraining import PeerPretraining
from albertine.bench.settings import PretrainBenchSettings
from albertine.corpus.batches import Batch, collate
from albertine.corpus.corpus import Corpus, open_corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.settings import ObjectiveSettings
from albertine.device import choose_device, choose_precision
from albertine.errors import Diverged
from albertine.pretrain.assembly import build_trainer
from albertine.pretrain.pretraining import Pretraining
from albertine.pretrain.scores import ratio_estimate, sample_sums
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import resolved_settings
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.distributed import Distributed
from albertine.train.metrics_log import MetricsLine, read_metrics
from albertine.train.schedule import LearningRateSchedule, default_warmup
from albertine.train.settings import PretrainTrainSettings

Side = Literal["ours", "peer"]
_EVALUATION_SAMPLES = 400
_LENGTH_SAMPLES = 1000  # from which the mean length of a sample is estimated


@dataclass(frozen=True)
class PretrainBenchRun:
    """One training run.

    Attributes:
        side: "ours" or "peer".
        lr: learning rate.
        steps: number of steps.
        settings: settings of the benchmark.
        evaluations: least number of evaluations after the one before the first step.
    """

    side: Side
    lr: float
    steps: int
    settings: PretrainBenchSettings
    evaluations: int

    @property
    def evaluate_every(self) -> int:
        """Steps between two evaluations."""
        return max(1, self.steps // self.evaluations)


@dataclass(frozen=True)
class PretrainBenchResult:
    """Result of one run.

    Attributes:
        curve: (training seconds, loss) of each evaluation.
        tokens: tokens of all steps.
        seconds: training seconds of all steps.
    """

    curve: list[tuple[float, float]]
    tokens: int
    seconds: float

    @property
    def loss(self) -> float:
        """Loss of the last evaluation."""
        return self.curve[-1][1]

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of training."""
        return self.tokens / self.seconds


def train_side(run: PretrainBenchRun) -> PretrainBenchResult:
    """Run one side in this process."""
    corpus = open_corpus(run.settings.corpus)
    device = choose_device(run.settings.device)
    return (_train_ours if run.side == "ours" else _train_peer)(run, corpus, device)


def _train_ours(run: PretrainBenchRun, corpus: Corpus, device: torch.device) -> PretrainBenchResult:
    """Train as `albertine pretrain` does, with evaluations on the common samples."""
    settings = _settings_of_ours(run, corpus)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / CHECKPOINTS_FOLDER).mkdir()
        distributed = Distributed(0, 1, device)
        trainer = build_trainer(folder, settings, corpus, None, distributed, _PretrainingWithCommonSamples)
        with trainer.recorder.open(-1):
            trainer.train()
        if trainer.state.doctor.rollbacks:  # from here on, it had half the rate
            raise Diverged(f"the run with the learning rate {run.lr:.2g} was rolled back")
        curve = _loss_curve(read_metrics(folder))
    return PretrainBenchResult(curve, trainer.state.tokens, trainer.state.seconds)


def _settings_of_ours(run: PretrainBenchRun, corpus: Corpus) -> PretrainSettings:
    """Return the settings that `albertine pretrain` would have."""
    train = PretrainTrainSettings(
        steps=run.steps,
        batch_tokens=run.settings.batch_tokens,
        lr=run.lr,
        precision=run.settings.precision,
        evaluate_every=run.evaluate_every,
        save_minutes=1e6,
    )
    settings = PretrainSettings(
        corpus=run.settings.corpus,
        model=replace(run.settings.model, vocab_size=len(corpus.tokenizer)),
        objective=ObjectiveSettings(max_length=run.settings.max_length),
        train=train,
    )
    return resolved_settings(settings, corpus, None)


def _loss_curve(lines: Sequence[MetricsLine]) -> list[tuple[float, float]]:
    """Return (training seconds, loss) of each evaluation in the metrics of a run."""
    seconds = {line["step"]: line["seconds"] for line in lines if "seconds" in line} | {0: 0.0}
    losses = {line["step"]: line["held_out_mlm_loss"] for line in lines if "held_out_mlm_loss" in line}
    # The log has null for a loss that is no number.
    return [(seconds[step], math.inf if loss is None else loss) for step, loss in losses.items()]


class _PretrainingWithCommonSamples(Pretraining):
    """Pre-training with evaluations on the common samples."""

    def evaluate(self, model: Any, step: int) -> dict[str, float]:  # noqa: ARG002  # the samples are the same at every step
        samples = common_batches(self.corpus, self.settings.objective.max_length)
        table = sample_sums(model, samples, self.distributed.device, self.corpus.tokenizer.special_ids.mask)
        loss = ratio_estimate(table, "mlm_loss", "num_targets").value
        return {
            "loss": loss,
            "mlm_loss": loss,
            "mlm_accuracy": ratio_estimate(table, "mlm_correct", "num_targets").value,
        }


def _train_peer(run: PretrainBenchRun, corpus: Corpus, device: torch.device) -> PretrainBenchResult:
    """Train with `transformers`, with evaluations at the same steps as Albertine's run."""
    settings = run.settings
    model = replace(settings.model, vocab_size=len(corpus.tokenizer))
    peer = PeerPretraining(model, corpus, device, choose_precision(settings.precision, device))
    batches = common_batches(corpus, settings.max_length)
    dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=settings.max_length))
    schedule = LearningRateSchedule(
        run.lr, default_warmup(run.steps, settings.batch_tokens), run.steps, "linear"
    )
    batch_size = _samples_per_step(settings, dataset)
    curve = [(0.0, peer.masked_lm_loss(batches))]
    seconds, tokens = 0.0, 0
    for step, seconds, tokens in peer.train(dataset, batch_size, schedule):  # noqa: B007  # used after the loop
        if step % run.evaluate_every == 0 or step == run.steps:
            curve.append((seconds, peer.masked_lm_loss(batches)))
    return PretrainBenchResult(curve, tokens, seconds)


def _samples_per_step(settings: PretrainBenchSettings, dataset: PretrainDataset) -> int:
    """Return the number of samples that have about as many tokens as a step of Albertine's run."""
    lengths = dataset.max_lengths(np.arange(_LENGTH_SAMPLES))
    return max(1, round(settings.batch_tokens / float(lengths.mean())))


def common_batches(corpus: Corpus, max_length: int) -> list[Batch]:
    """Return batches of the held-out samples on which both sides are evaluated, with single tokens masked."""
    dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=max_length), "dev")
    samples = dataset.draw(np.arange(min(_EVALUATION_SAMPLES, len(dataset))))
    special = corpus.tokenizer.special_ids
    maskable_ids = np.setdiff1d(np.arange(len(corpus.tokenizer)), list(vars(special).values()))
    rng = np.random.Generator(np.random.PCG64(0))
    masked = [_masked_sample(sample, special.mask, maskable_ids, rng) for sample in samples]
    size = max(1, 4096 // max_length)
    return [collate(masked[start : start + size], size) for start in range(0, len(masked), size)]


def _masked_sample(
    sample: PretrainSample, mask_token_id: int, maskable_ids: Any, rng: np.random.Generator
) -> PretrainSample:
    tokens = sample.original_tokens()
    candidates = np.flatnonzero(np.isin(tokens, maskable_ids))
    positions = np.sort(candidates[rng.random(len(candidates)) < 0.15])
    labels = tokens[positions]
    draws = rng.random(len(positions))
    random_tokens = maskable_ids[rng.integers(0, len(maskable_ids), len(positions))]
    tokens[positions] = np.where(draws < 0.8, mask_token_id, np.where(draws < 0.9, random_tokens, labels))
    return PretrainSample(tokens, sample.segments, positions, labels.astype(np.int32), sample.pair_label)
