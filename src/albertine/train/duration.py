"""The number of steps of a run whose length is given in minutes.

A temporary trainer takes a few steps. The number of steps that fit is then stored in the
settings of the run, in place of the minutes. So the run itself does not depend on the clock: it resumes
exactly, and its settings repeat it. See docs/decisions/length-in-minutes.md.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TypeVar

from albertine import progress
from albertine.display import counted
from albertine.errors import InputError
from albertine.settings import Settings
from albertine.train.distributed import Distributed
from albertine.train.run_folder import SETTINGS_FILE, has_checkpoints, read_run_settings
from albertine.train.settings import TrainerSettings
from albertine.train.trainer import Trainer

S = TypeVar("S", bound=TrainerSettings)

TRIAL_STEPS = 10_000  # of the imaginary run from which a trial takes its first steps
_MIN_TIMED_STEPS, _TIMED_SECONDS = 3, 2.0
# An evaluation runs only forward, which is a third of the operations of a training step.
_FORWARD_SHARE = 1 / 3


def check_length(settings: Settings, train: TrainerSettings) -> None:
    """Raise `InputError` if both minutes and steps are given."""
    if train.minutes is not None and "train.steps" in settings.explicit_keys:
        raise InputError(
            f"--train.minutes {train.minutes:g} and --train.steps {train.steps:,}: two lengths of the run; "
            "give one (the settings of a run that was given minutes have its steps)"
        )


def print_kept_steps(minutes: float, steps: int) -> None:
    """Print that a run which has begun keeps its number of steps."""
    progress.print_message(
        f"{minutes:g} minutes: the run keeps its {steps:,} steps, measured when it began; "
        "for another length, name another --out"
    )


def print_measured_steps(minutes: float, steps: int) -> None:
    """Print the number of steps that a run of some minutes gets."""
    progress.print_message(f"{minutes:g} minutes: {steps:,} steps at the speed of the first seconds")


def check_has_steps(train: TrainerSettings) -> None:
    """Raise `InputError` if the length is given in minutes, where only steps are possible."""
    if train.minutes is not None:
        raise InputError(f"--train.minutes {train.minutes:g}: not possible here; give --train.steps")


def check_warmup_fits(train: TrainerSettings, steps: int) -> None:
    """Raise `InputError` if the warm-up is longer than the run.

    Args:
        train: settings with the length in minutes.
        steps: number of steps that fit into the minutes.
    """
    if (train.warmup or 0) > steps:
        raise InputError(
            f"--train.warmup {train.warmup}: longer than the run, which takes {counted(steps, 'step')} in "
            f"{train.minutes or 0:g} minutes; give a shorter one, or leave it out"
        )


def stored_number(run: Path, key: str, settings_type: type[Settings] | None = None) -> int | None:
    """Return "steps" or another number of the table `train` of a run; None if it has no checkpoint.

    Raise `InputError` if the number is missing, or the run is not one of `settings_type`.
    """
    if not has_checkpoints(run):  # a start that failed does not fix the length
        return None
    train = read_run_settings(run, settings_type).values.get("train")
    number = train.get(key) if isinstance(train, Mapping) else None
    if not isinstance(number, int) or number < 1:
        raise InputError(
            f"{run / SETTINGS_FILE}: has no train.{key}; restore the file, or give another --out"
        )
    return number


def trial_settings(train: S) -> S:
    """Return the settings of a trial; its learning rate is 0, so its steps change no weight."""
    return replace(train, minutes=None, steps=TRIAL_STEPS, lr=0.0, warmup=0)


def seconds_per_token(trainer: Trainer, step: int, distributed: Distributed) -> float:
    """Return the median time of a token in a few steps, after one that prepares kernels.

    The main process decides after how many steps all processes stop, because a step needs all of them.
    """
    trainer.time_step(step)
    speeds: list[float] = []
    started, is_done = time.monotonic(), False
    while not is_done:
        speeds.append(trainer.time_step(step))
        is_enough = len(speeds) >= _MIN_TIMED_STEPS and time.monotonic() - started >= _TIMED_SECONDS
        is_done = distributed.broadcast(is_enough)
    return 1 / median(speeds)


def steps_that_fit(minutes: float, step_seconds: float, evaluated_tokens: float, token_seconds: float) -> int:
    """Return the number of steps that fit into the minutes, at least one.

    Args:
        minutes: length of the run.
        step_seconds: time of a training step, on average over the run.
        evaluated_tokens: number of tokens in all evaluations of the run together.
        token_seconds: time of a token in a training step.
    """
    evaluation_seconds = _FORWARD_SHARE * evaluated_tokens * token_seconds
    # Evaluations take at most half of the minutes here; a run with more of them takes longer.
    training_seconds = max(60 * minutes - evaluation_seconds, 30 * minutes)
    return max(1, int(training_seconds / step_seconds))
