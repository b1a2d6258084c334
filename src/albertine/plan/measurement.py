"""The time of a training step on this machine, from steps that it takes for about ten seconds.

The steps are those of pre-training, on random tokens: samples are drawn, forward and backward pass of a
micro-batch, then the update. A run with more micro-batches per step, or a fine-tuning run with another head,
is scaled by its FLOPs. So is a model that is too slow for a few steps in ten seconds: smaller micro-batches
or fewer of its layers are measured.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import torch

from albertine import progress
from albertine.corpus.batches import Batch
from albertine.corpus.settings import PairTask
from albertine.device import peak_flops, synchronized_time
from albertine.display import counted
from albertine.model.cost import Precision, pretraining_flops
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.model.parameter_counts import count_parameters
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.strip import Strip
from albertine.plan.estimate import StepTime
from albertine.plan.random_samples import RandomSamples
from albertine.plan.workload import Stage, Workload
from albertine.pretrain.setup import PRETRAIN_HEAD
from albertine.settings import ModelSettings
from albertine.train.gradients import make_gradients
from albertine.train.optimizers import Optimizers

_SECONDS = 10.0
_MIN_PASSES = 3  # timed in each stage, after one pass that prepares kernels
_PASS_SHARE = 0.15  # of the seconds of a stage, which a pass may take
_GUESSED_EFFICIENCY = 0.4  # share of the rate of matrix products, to choose how much to measure


@dataclass(frozen=True)
class MeasuredStep:
    """What was measured.

    Attributes:
        token_seconds: seconds per token of forward and backward pass, for each stage of the run.
        update_seconds: seconds of clipping and of the update of the optimizer.
        drawing_seconds: seconds per token of drawing samples, for each stage; 0 if training does not wait.
        note: what was measured, in words.
    """

    token_seconds: Sequence[float]
    update_seconds: float
    drawing_seconds: Sequence[float]
    note: str

    def step_time(self, workload: Workload) -> StepTime:
        """Return the time of a step, on average over the run."""
        shares = [stage.share * workload.step_tokens for stage in workload.stages]
        passes, drawing = (
            sum(share * one for share, one in zip(shares, seconds, strict=True))
            for seconds in (self.token_seconds, self.drawing_seconds)
        )
        return StepTime(passes, self.update_seconds, communication=0.0, drawing=drawing)


def measure_step(
    workload: Workload, device: torch.device, precision: Precision, micro_batch_tokens: int
) -> MeasuredStep:
    """Measure forward and backward passes and updates for about ten seconds.

    Args:
        workload: the run.
        device: the device.
        precision: precision of the matrix products.
        micro_batch_tokens: tokens of a micro-batch of the run.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    progress.print_message("measuring this machine for about ten seconds")
    started = time.monotonic()
    rate = _GUESSED_EFFICIENCY * peak_flops(dtype, device)
    seconds = _SECONDS / len(workload.stages)
    trials = [_make_trial(workload, stage, micro_batch_tokens, rate * seconds) for stage in workload.stages]
    deepest = max(trial.depths[-1] for trial in trials)
    model_settings = replace(workload.model, layers=_divisible(workload.model, deepest))
    measured = _TrainingModel(workload, model_settings, device, dtype)
    token_seconds, drawing_seconds = [], []
    update_seconds: list[float] = []
    for stage, trial in zip(workload.stages, trials, strict=True):
        pair: PairTask = "sop" if workload.model.segments > 1 else "none"
        samples = RandomSamples(trial.length, trial.masked_fraction, workload.model.vocab_size, pair)
        pass_seconds, updates = measured.time_passes(trial, samples.batch(trial.sequences), seconds)
        token_seconds.append(pass_seconds * stage.flops / trial.flops)
        update_seconds += updates
        # A GPU computes meanwhile.
        waits = device.type == "cpu" and workload.is_pretraining
        drawing_seconds.append(samples.drawing_seconds() if waits else 0.0)
    # The update takes time in proportion to the parameters.
    parameters = count_parameters(workload.model).total / count_parameters(model_settings).total
    note = f"measured here for {time.monotonic() - started:.0f} s, {_device_name(device)}"
    if model_settings.layers < workload.model.layers:
        note += f", with {model_settings.layers} of {workload.model.layers} layers"
    return MeasuredStep(token_seconds, median(update_seconds) * parameters, drawing_seconds, note)


@dataclass(frozen=True)
class _Trial:
    """A micro-batch to measure.

    Attributes:
        sequences: number of sequences.
        length: tokens of each.
        masked_fraction: fraction of the tokens to predict.
        depths: numbers of layers after which the head predicts.
        flops: FLOPs per token of forward and backward pass.
    """

    sequences: int
    length: int
    masked_fraction: float
    depths: tuple[int, ...]
    flops: float


def _make_trial(workload: Workload, stage: Stage, micro_batch_tokens: int, stage_flops: float) -> _Trial:
    """Return the micro-batch that is measured for a stage: that of the run, if there is time for it."""
    sequences = max(1, micro_batch_tokens // stage.length)
    affordable = stage_flops * _PASS_SHARE / (stage.flops * stage.length)
    depths = stage.depths
    if affordable < 1:
        deepest = max(1, math.floor(depths[-1] * affordable))
        depths = (*(depth for depth in depths if depth < deepest), _divisible(workload.model, deepest))
    sequences = max(1, min(sequences, int(affordable)))
    flops = pretraining_flops(
        workload.model, stage.length, depths, stage.masked_fraction, recompute=workload.train.recompute
    )
    return _Trial(sequences, stage.length, stage.masked_fraction, depths, flops)


def _divisible(model: ModelSettings, layers: int) -> int:
    """Return the smallest number of layers, at least that given, that the groups of the model divide."""
    return model.groups * math.ceil(layers / model.groups)


class _TrainingModel:
    """A model with random weights, its gradients and its optimizers.

    Attributes:
        model: the model, on its device.
    """

    def __init__(self, workload: Workload, model: ModelSettings, device: torch.device, dtype: torch.dtype):
        train = workload.train
        self.model, self._device = Model(model, PRETRAIN_HEAD), device
        self.model.configure(ComputeOptions(dtype, train.recompute, train.compile, train.kernels))
        self.model.to(device).train()
        self._optimizers, self._gradients = Optimizers(self.model, train, dtype), make_gradients(self.model)

    def time_passes(self, trial: _Trial, batch: Batch, seconds: float) -> tuple[float, list[float]]:
        """Return the median seconds per token of forward and backward passes, and those of each update."""
        strip = batch.strip.to(self._device)
        targets = _to_device(batch.targets, self._device)
        passes: list[float] = []
        updates: list[float] = []
        self._pass(trial, strip, targets)
        self._update()
        started = time.monotonic()
        while len(passes) < _MIN_PASSES or time.monotonic() - started < seconds:
            passes.append(self._timed(lambda: self._pass(trial, strip, targets)))
            if sum(updates) <= sum(passes):  # an update may take longer than many passes
                updates.append(self._timed(self._update))
        return median(passes) / len(strip.tokens), updates

    def _timed(self, function: Callable[[], None]) -> float:
        started = synchronized_time(self._device)
        function()
        return synchronized_time(self._device) - started

    def _pass(self, trial: _Trial, strip: Strip, targets: PretrainingTargets) -> None:
        if len(trial.depths) == 1:
            outputs = [self.model(strip, targets, depth=trial.depths[0])]
        else:
            outputs = self.model.exit_outputs(strip, targets, trial.depths)
        sum(output.loss for output in outputs).backward()

    def _update(self) -> None:
        """Take an optimizer step that changes no weight, as the trainer does."""
        self._gradients.clip(float(self._gradients.norm()), 1e-6)
        self._optimizers.step(0.0)
        self._gradients.zero()


def _to_device(targets: PretrainingTargets, device: torch.device) -> PretrainingTargets:
    masked = MaskedLMTargets(targets.masked.indices.to(device), targets.masked.labels.to(device))
    return PretrainingTargets(masked, targets.pair_labels.to(device))


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {counted(torch.get_num_threads(), 'thread')}"
