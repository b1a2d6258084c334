"""The settings of each run of a call: one run for each seed, or for each point of a grid."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from albertine.finetune.settings import FinetuneSettings, SweepSettings

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
    rates = [value * base.train.lr if is_multiple else value for value, is_multiple in base.grid.values("lr")]
    batch_sizes = [
        value * base.train.batch_size if is_multiple else value
        for value, is_multiple in base.grid.values("batch_size")
    ]
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
