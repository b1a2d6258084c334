"""The settings of each run of a call: one run for each seed, or for each point of a grid."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Literal

from albertine.errors import InputError
from albertine.finetune.settings import GRID_MAXIMA, FinetuneSettings, SweepSettings

SINGLE_RUN = ""  # name of the only run of a call, whose folder is the output folder


def trials(base: FinetuneSettings, *, sweep: bool) -> Mapping[str, FinetuneSettings]:
    """Return the settings of each run, by its name."""
    if sweep:
        assert isinstance(base, SweepSettings)
        return dict(_grid_points(base))
    if base.seeds == 1:
        return {SINGLE_RUN: base}
    return {f"seed-{seed}": replace(base, train=replace(base.train, seed=seed)) for seed in _seeds(base)}


def _seeds(base: FinetuneSettings) -> range:
    return range(base.train.seed, base.train.seed + base.seeds)


def _grid_points(base: SweepSettings) -> Iterator[tuple[str, FinetuneSettings]]:
    """Yield name and settings of each point of a grid, for each seed."""
    seeds = _seeds(base)
    assert base.train.lr is not None
    assert base.train.batch_size is not None
    rates = list(_grid_values(base, "lr", base.train.lr))
    batch_sizes = list(_grid_values(base, "batch_size", base.train.batch_size))
    dropouts = [value for value, _ in base.grid.values("dropout")]
    for lr, scaled_batch_size, dropout in product(rates, batch_sizes, dropouts):
        batch_size = max(1, round(scaled_batch_size))
        # Every point takes the same number of examples.
        steps = max(1, round(base.train.steps * base.train.batch_size / batch_size))
        warmup = round((base.train.warmup or 0) * steps / base.train.steps)
        evaluate_every = max(1, round((base.train.evaluate_every or 1) * steps / base.train.steps))
        for seed in seeds:
            name = f"lr-{lr:.6g}-batch-{batch_size}-dropout-{dropout:g}" + (
                f"-seed-{seed}" if len(seeds) > 1 else ""
            )
            train = replace(
                base.train,
                lr=lr,
                batch_size=batch_size,
                steps=steps,
                warmup=warmup,
                seed=seed,
                evaluate_every=evaluate_every,
            )
            yield name, replace(base, dropout=dropout, train=train)


def _grid_values(base: SweepSettings, key: Literal["lr", "batch_size"], of_task: float) -> Iterator[float]:
    """Yield the values of a grid; raise `InputError` for a multiple that is above the allowed maximum.

    Args:
        base: settings without unset values.
        key: name of the setting.
        of_task: value of which the grid has multiples.
    """
    for value, is_multiple in base.grid.values(key):
        if is_multiple and value * of_task > (maximum := GRID_MAXIMA[key]):
            raise InputError(
                f"--grid.{key.replace('_', '-')} {value:g}x: {value * of_task:g}, since 1x is {of_task:g}; "
                f"must be at most {maximum:,}"
            )
        yield value * of_task if is_multiple else value
