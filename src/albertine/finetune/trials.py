"""The settings of each run of a call: one run for each seed, or for each point of a grid."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from albertine.finetune.settings import FinetuneSettings, SweepSettings


def trials(base: FinetuneSettings, *, sweep: bool) -> Iterator[tuple[str, FinetuneSettings]]:
    """Yield name and settings of each run; yield nothing for a single run, which needs no name."""
    seeds = range(base.train.seed, base.train.seed + base.seeds)
    if not sweep:
        if base.seeds > 1:
            for seed in seeds:
                yield f"seed-{seed}", replace(base, train=replace(base.train, seed=seed))
        return
    assert isinstance(base, SweepSettings)
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
