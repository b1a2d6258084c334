"""The number of steps of a fine-tuning run whose length is given in minutes; see `train.duration`."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from albertine import progress
from albertine.errors import InputError
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import FinetuneData
from albertine.finetune.run import build_trainer
from albertine.finetune.settings import (
    GRID_WITHOUT_SWEEP,
    FinetuneSettings,
    FinetuneTrainSettings,
    SweepGrid,
    SweepSettings,
)
from albertine.train import duration
from albertine.train.distributed import Distributed

_DEFAULT_EVALUATIONS = 11  # a tenth of the run apart, and one before the first step


def check_length_and_grid(settings: FinetuneSettings, *, sweep: bool) -> None:
    """Raise `InputError` if minutes are given together with steps or for a sweep, or if a grid has no use.

    Args:
        settings: requested settings.
        sweep: whether the call is a sweep over the grid.
    """
    duration.check_length(settings, settings.train)
    # The stored settings of a sweep's run have its grid, and a dropout from it; they repeat that run. A grid
    # among the options of a command is refused before.
    has_grid = isinstance(settings, SweepSettings) and settings.grid != SweepGrid()
    if has_grid and not sweep and settings.dropout is None:
        raise InputError(GRID_WITHOUT_SWEEP)
    if sweep and settings.dropout is not None:
        raise InputError(f"--dropout {settings.dropout:g}: a sweep takes the values of --grid.dropout")
    if sweep and settings.train.minutes is not None:
        raise InputError(
            f"--train.minutes {settings.train.minutes:g}: the runs of a sweep take the same number of "
            "examples, not the same time; give --train.steps"
        )


def with_all_values(settings: FinetuneSettings, data: FinetuneData) -> FinetuneSettings:
    """Return settings without unset values, for the task, the model and the amount of data."""
    return with_task_defaults(
        settings,
        task=data.task.name,
        model_settings=data.model_settings,
        num_samples=data.num_samples,
        max_length=data.card.max_length,
    )


def with_measured_steps(
    runs: list[Path],
    settings: FinetuneSettings,
    data: FinetuneData,
    distributed: Distributed,
    *,
    num_evaluations: int | None = None,
) -> FinetuneSettings:
    """Return settings with steps in place of minutes; runs that have begun keep their steps.

    Args:
        runs: folders of the runs, which all have the same number of steps.
        settings: requested settings.
        data: examples and checkpoint.
        distributed: the processes.
        num_evaluations: number of evaluations on dev in these minutes; by default that of the settings.
    """
    minutes = settings.train.minutes
    if minutes is None:
        return settings
    # Without a number of steps, the batch size is that for the amount of data. The warm-up may be longer
    # than the default number of steps, which the run does not take.
    trial = with_all_values(replace(settings, train=replace(settings.train, minutes=None, warmup=None)), data)
    trial = replace(trial, train=duration.trial_settings(trial.train))
    steps = distributed.broadcast(
        distributed.run_on_main(lambda: next(filter(None, map(_stored_steps, runs)), None))
    )
    if steps is not None:
        distributed.run_on_main(lambda: duration.print_kept_steps(minutes, steps))
    else:
        with TemporaryDirectory() as folder, progress.quiet_output():
            trainer = build_trainer(Path(folder), trial, data, distributed, can_collapse=False)
            token_seconds = duration.seconds_per_token(trainer, 0, distributed)
        train = replace(settings.train, batch_size=trial.train.batch_size)
        steps = distributed.broadcast(_steps_that_fit(train, data, token_seconds, num_evaluations))
        duration.print_measured_steps(minutes, steps)
    duration.check_warmup_fits(settings.train, steps)
    train = replace(settings.train, minutes=None, steps=steps, batch_size=trial.train.batch_size)
    return replace(settings, train=train)


def _stored_steps(run: Path) -> int | None:
    return duration.stored_number(run, "steps")


def _steps_that_fit(
    train: FinetuneTrainSettings, data: FinetuneData, token_seconds: float, num_evaluations: float | None
) -> int:
    """Return the number of steps that fit, evaluations included."""
    train_tokens = sum(sample.num_tokens for sample in data.train_samples)
    dev_tokens = sum(sample.num_tokens for sample in data.dev_samples)
    minutes, batch_size = train.minutes or 0.0, train.batch_size or 1
    step_seconds = batch_size * train_tokens / data.num_samples * token_seconds
    if num_evaluations is None:
        every = train.evaluate_every
        num_evaluations = _DEFAULT_EVALUATIONS if every is None else 60 * minutes / step_seconds / every + 1
    return duration.steps_that_fit(minutes, step_seconds, num_evaluations * dev_tokens, token_seconds)
