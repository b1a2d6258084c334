"""The runs of a call: one, one for each seed, or one for each point of a grid."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from albertine.finetune.settings import FinetuneSettings, SweepSettings


def trials(base: FinetuneSettings, *, sweep: bool) -> Iterator[tuple[str, FinetuneSettings]]:
    """Yield the settings of each run by its name; nothing if there is only one run."""
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
    for lr, size, dropout in product(rates, batch_sizes, dropouts):
        batch = max(1, round(size))
        steps = max(1, round(base.train.steps * base.train.batch_size / batch))
        warmup = round((base.train.warmup or 0) * steps / base.train.steps)
        for seed in seeds:
            name = f"lr-{lr:.6g}-batch-{batch}-dropout-{dropout:g}" + (
                f"-seed-{seed}" if len(seeds) > 1 else ""
            )
            every = max(1, round((base.train.evaluate_every or 1) * steps / base.train.steps))
            train = replace(
                base.train,
                lr=lr,
                batch_size=batch,
                steps=steps,
                warmup=warmup,
                seed=seed,
                evaluate_every=every,
            )
            yield name, replace(base, dropout=dropout, train=train)
