"""The number of steps of a pre-training run whose length is given in minutes; see `train.duration`."""

import math
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from albertine import progress
from albertine.corpus.batches import collate
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings
from albertine.model.model import Model
from albertine.pretrain.assembly import build_trainer
from albertine.pretrain.default_length import fitting_batch_tokens
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import resolved_settings
from albertine.settings import ModelSettings
from albertine.train import duration
from albertine.train.distributed import Distributed
from albertine.train.micro_batch import training_micro_batch_tokens
from albertine.train.settings import DEFAULT_MAX_BATCH_TOKENS, PretrainTrainSettings
from albertine.train.trainer import Trainer

_MIN_TOKENS_BETWEEN_EVALUATIONS = 160_000


def with_measured_steps(
    settings: PretrainSettings,
    stored: tuple[int, int] | None,
    corpus: Corpus,
    init_model: Model | None,
    init_settings: ModelSettings | None,
    distributed: Distributed,
) -> PretrainSettings:
    """Return settings with steps in place of minutes; a run that has begun keeps its steps.

    Args:
        settings: requested settings.
        stored: steps and tokens per batch of the run, if it has begun.
        corpus: the corpus.
        init_model: the model to start from; None for random weights, or if the run has begun.
        init_settings: model settings of the checkpoint to start from; None if there is none.
        distributed: the processes that train together.
    """
    minutes, train = settings.train.minutes, settings.train
    if minutes is None:
        return settings
    duration.check_length(settings, train)
    if stored is not None:
        steps = stored[0]
        duration.print_kept_steps(minutes, steps)
        train = replace(train, batch_tokens=train.batch_tokens or stored[1])
        return replace(settings, train=with_steps(train, steps))

    def seconds_per_token(batch_tokens: int) -> float:
        largest = _largest_trial(settings, init_settings, distributed)
        trial = _trial_settings(settings, min(batch_tokens, largest))
        trial = resolved_settings(trial, corpus, init_settings, distributed.world_size)
        with TemporaryDirectory() as folder, progress.quiet_output():
            trainer = build_trainer(Path(folder), trial, corpus, init_model, distributed)
            seconds = _mean_seconds_per_token(trainer, trial, corpus, settings.workers, distributed)
        return float(distributed.broadcast(seconds))

    token_seconds = seconds_per_token(train.batch_tokens or DEFAULT_MAX_BATCH_TOKENS)
    if not train.batch_tokens:
        batch_tokens = fitting_batch_tokens(settings, 60 * minutes / token_seconds, distributed.world_size)
        train = replace(train, batch_tokens=batch_tokens)
        if batch_tokens < min(DEFAULT_MAX_BATCH_TOKENS, _largest_trial(settings, init_settings, distributed)):
            # A token of a smaller batch can take longer.
            token_seconds = seconds_per_token(batch_tokens)
    steps = _steps_that_fit(minutes, train, token_seconds, settings.objective.evaluation_passes)
    duration.print_measured_steps(minutes, steps)
    return replace(settings, train=with_steps(train, steps))


def with_steps(train: PretrainTrainSettings, steps: int) -> PretrainTrainSettings:
    """Return the settings of a run with a number of steps.

    In a short run, the default of 40 evaluations could take longer than its training.
    """
    duration.check_warmup_fits(train, steps)
    train = replace(train, minutes=None, steps=steps)
    every = max(train.evaluation_interval, _MIN_TOKENS_BETWEEN_EVALUATIONS // train.batch_tokens)
    return train if train.evaluate_every else replace(train, evaluate_every=every)


def _trial_settings(settings: PretrainSettings, batch_tokens: int) -> PretrainSettings:
    """Return the settings of a trial."""
    train = replace(duration.trial_settings(settings.train), batch_tokens=batch_tokens)
    return replace(settings, workers=0, train=train)


def _largest_trial(
    settings: PretrainSettings, init_settings: ModelSettings | None, distributed: Distributed
) -> int:
    """Return the tokens of one micro-batch in each process, which is the most that a step of a trial has."""
    model = init_settings or settings.model
    micro_batch_tokens = training_micro_batch_tokens(
        settings.train, model, distributed.device, settings.objective.micro_batch_fraction
    )
    return max(micro_batch_tokens, settings.longest_sample()) * distributed.world_size


def _mean_seconds_per_token(
    trainer: Trainer, trial: PretrainSettings, corpus: Corpus, workers: int, distributed: Distributed
) -> float:
    """Return the mean time of a token over the run, whose stages differ in depth, length or masking."""
    mean = 0.0
    for start, end in pairwise(trial.curriculum.boundaries()):
        step = math.ceil(start * trial.train.steps)
        seconds = duration.seconds_per_token(trainer, step, distributed)
        if workers and distributed.device.type == "cuda":  # on a CPU, they would share its cores
            objective, tokens = trial.objective_at(step), trial.train.batch_tokens // distributed.world_size
            drawing = _drawing_seconds_per_token(corpus, objective, tokens) / distributed.world_size
            seconds = seconds_beside_workers(seconds, drawing, workers)
        mean += (end - start) * seconds
    return mean


def seconds_beside_workers(seconds: float, drawing_seconds: float, workers: int) -> float:
    """Return the time of a token in a step whose samples other processes draw meanwhile.

    Args:
        seconds: time of a token in a step that draws its own samples.
        drawing_seconds: the part of it that draws.
        workers: number of the other processes.
    """
    return max(seconds - drawing_seconds, drawing_seconds / workers)


def _drawing_seconds_per_token(corpus: Corpus, objective: ObjectiveSettings, tokens: int) -> float:
    dataset, count = PretrainDataset(corpus, objective), max(1, tokens // objective.max_length)
    started = time.perf_counter()
    batch = collate(dataset.draw(np.arange(count)), count)
    return (time.perf_counter() - started) / len(batch.strip.tokens)


def _steps_that_fit(
    minutes: float, train: PretrainTrainSettings, token_seconds: float, evaluation_passes: int
) -> int:
    """Return the number of steps that fit, evaluations included."""
    step_seconds = train.batch_tokens * token_seconds
    train = with_steps(train, max(1, int(60 * minutes / step_seconds)))
    evaluated_tokens = evaluation_passes * train.evaluation_tokens * train.steps / train.evaluation_interval
    return duration.steps_that_fit(minutes, step_seconds, evaluated_tokens, token_seconds)
