"""The number of steps of a pre-training run whose length is given in minutes; see `train.duration`."""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.model.model import Model
from albertine.pretrain.assembly import build_trainer
from albertine.pretrain.curriculum import CURRICULUM_KEYS
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
        train = replace(train, batch_tokens=train.batch_tokens or stored[1])
        return replace(settings, train=_with_steps(train, steps))

    def seconds_per_token(batch_tokens: int) -> float:
        trial = _trial_settings(settings, batch_tokens, distributed)
        trial = resolved_settings(trial, corpus, init_settings, distributed.world_size)
        with TemporaryDirectory() as folder, progress.quiet_output():
            trainer = build_trainer(Path(folder), trial, corpus, init_model, distributed)
            with closing(trainer):
                seconds = _mean_seconds_per_token(trainer, trial, distributed)
        return float(distributed.broadcast(seconds))

    token_seconds = seconds_per_token(train.batch_tokens or DEFAULT_MAX_BATCH_TOKENS)
    if not train.batch_tokens:
        batch_tokens = fitting_batch_tokens(settings, 60 * minutes / token_seconds, distributed.world_size)
        train = replace(train, batch_tokens=batch_tokens)
        if batch_tokens < min(DEFAULT_MAX_BATCH_TOKENS, _largest_trial(settings, distributed)):
            # A token of a smaller batch can take longer.
            token_seconds = seconds_per_token(batch_tokens)
    return replace(settings, train=_with_steps(train, _steps_that_fit(minutes, train, token_seconds)))


def _with_steps(train: PretrainTrainSettings, steps: int) -> PretrainTrainSettings:
    """Return the settings of a run with a number of steps.

    In a short run, the default of 40 evaluations could take longer than its training.
    """
    train = replace(train, minutes=None, steps=steps)
    every = max(train.evaluation_interval, _MIN_TOKENS_BETWEEN_EVALUATIONS // train.batch_tokens)
    return train if train.evaluate_every else replace(train, evaluate_every=every)


def _trial_settings(
    settings: PretrainSettings, batch_tokens: int, distributed: Distributed
) -> PretrainSettings:
    """Return the settings of a trial, whose steps have at most one micro-batch in each process."""
    batch_tokens = min(batch_tokens, _largest_trial(settings, distributed))
    train = replace(duration.trial_settings(settings.train), batch_tokens=batch_tokens)
    return replace(settings, train=train)


def _largest_trial(settings: PretrainSettings, distributed: Distributed) -> int:
    """Return the tokens of one micro-batch in each process."""
    micro_batch_tokens = training_micro_batch_tokens(settings.train, settings.model, distributed.device)
    return max(micro_batch_tokens, settings.longest_sample()) * distributed.world_size


def _mean_seconds_per_token(trainer: Trainer, trial: PretrainSettings, distributed: Distributed) -> float:
    """Return the mean time of a token over the run, whose stages differ in depth, length or masking."""
    return sum(
        share * duration.seconds_per_token(trainer, math.ceil(start * trial.train.steps), distributed)
        for start, share in _stages(trial)
    )


def _stages(settings: PretrainSettings) -> Iterator[tuple[float, float]]:
    """Yield start and length of each stage of the curriculum, as fractions of the run."""
    starts = {0.0, 1.0}
    for key in CURRICULUM_KEYS:
        stages = settings.curriculum.stages(key)
        starts |= set(stages.starts) if stages else set()
    for start, end in pairwise(sorted(starts)):
        yield start, end - start


def _steps_that_fit(minutes: float, train: PretrainTrainSettings, token_seconds: float) -> int:
    """Return the number of steps that fit, evaluations included."""
    step_seconds = train.batch_tokens * token_seconds
    train = _with_steps(train, max(1, int(60 * minutes / step_seconds)))
    evaluated_tokens = train.evaluation_tokens * train.steps / train.evaluation_interval
    return duration.steps_that_fit(minutes, step_seconds, evaluated_tokens, token_seconds)
