"""One run of tuning, which starts again more gently if it collapses.

A run whose answers have all become one by its middle is not waited for: it begins anew
at half the rate with twice the warm-up, a few times, and says so.
"""

import json
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree

from albertine import progress
from albertine.model.encoder import Computation
from albertine.tasks.prepare import Prepared, network_for
from albertine.tasks.rates import scales_for
from albertine.tasks.scoring import at_once_on
from albertine.tasks.settings import FinetuneSettings
from albertine.tasks.work import Collapsed, Tuning
from albertine.train.folder import has_checkpoints, occupied
from albertine.train.journal import JOURNAL, held_out_scores, read_journal
from albertine.train.keeper import Keeper
from albertine.train.loop import Trainer
from albertine.train.machine import choose_precision
from albertine.train.ranks import Ranks
from albertine.train.sharding import spread_out
from albertine.train.snapshots import FOLDER, Snapshots
from albertine.whole import new_file

_ATTEMPTS = "attempts.json"
_MOST_RESTARTS = 2
_LEAST_STEPS = 100  # a shorter run has hardly begun: nothing is said of it
# What may change when a run goes on: where data lie and how fast it computes, what it keeps and tells.
_FREE = frozenset(
    {"data", "dev", "device", "seeds", "grid.lr", "grid.batch", "grid.dropout"}
    | {f"train.{key}" for key in ("at_once", "recompute", "compile", "shard", "track", "keep")}
    | {f"train.{key}" for key in ("save_every", "save_minutes")}
)


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        name: of the run's folder; empty where there is one run.
        lr: the highest rate, after restarts.
        step: the step of its best model.
        scores: of that, on dev.
        restarts: how often it had collapsed.
    """

    name: str
    lr: float
    batch: int
    dropout: float
    seed: int
    steps: int
    step: int
    scores: dict[str, float]
    restarts: int


def make(run: Path, name: str, settings: FinetuneSettings, prepared: Prepared, ranks: Ranks) -> Outcome:
    """Make one run, and make it again if it collapses."""
    with ExitStack() as stack:
        ranks.by_first(lambda: stack.enter_context(occupied(run, settings, _FREE)))
        restarts = ranks.from_first(_attempts(run) if ranks.first else None)
        while True:
            trainer, keeper = assembled(
                run, settings, prepared, ranks, restarts, judged=restarts < _MOST_RESTARTS
            )
            try:
                if not trainer.finished:
                    told = asdict(settings)
                    with keeper.open(trainer.saved, told) if ranks.first else nullcontext():
                        trainer.run()
                break
            except Collapsed as collapse:
                restarts += 1
                ranks.by_first(lambda what=str(collapse), tries=restarts: _start_anew(run, what, tries))  # type: ignore[misc]
        step, scores = ranks.from_first(_best(run) if ranks.first else None)
        assert settings.train.lr is not None
        return Outcome(
            name,
            settings.train.lr * 0.5**restarts,
            settings.train.batch or 0,
            settings.dropout or 0.0,
            settings.train.seed,
            settings.train.steps,
            step,
            scores,
            restarts,
        )


def assembled(
    run: Path,
    settings: FinetuneSettings,
    prepared: Prepared,
    ranks: Ranks,
    restarts: int = 0,
    *,
    judged: bool = True,
) -> tuple[Trainer, Keeper]:
    """Put a run together; it goes on from its newest checkpoint, if it has one.

    Args:
        run: its folder.
        settings: settled.
        prepared: what it is tuned on.
        ranks: the processes.
        restarts: how often it has collapsed.
        judged: whether it may collapse; if not, it is what it is.
    """
    train = settings.train
    assert train.lr is not None
    assert train.warmup is not None
    train = replace(train, lr=train.lr * 0.5**restarts, warmup=min(train.steps, train.warmup * 2**restarts))
    head, dropout = prepared.kind.head, settings.dropout or 0.0
    with progress.quietly(has_checkpoints(run)):  # weights of its own will take the place of these
        network = network_for(prepared, head, dropout, train.seed, fresh=settings.fresh)
    dtype = choose_precision(train.precision, ranks.device)
    network.encoder.computation = Computation(dtype, train.recompute, train.compile)
    if train.freeze_embeddings:
        network.encoder.embedding.requires_grad_(False)
    network.to(ranks.device)
    if train.shard and ranks.all > 1:
        spread_out(network, ranks)
    at_once = train.at_once or at_once_on(ranks.device)
    work = Tuning(
        prepared.train,
        prepared.dev,
        prepared.kind,
        prepared.card,
        prepared.tokenizer,
        prepared.network,
        batch=train.batch or 1,
        seed=train.seed,
        ranks=ranks,
        at_once=at_once,
        judged_from=max(_LEAST_STEPS, train.steps // 2) if judged else train.steps + 1,
        spread=train.shard and ranks.all > 1,
    )
    keeper = Keeper(run, train, {}, shows="best")
    return Trainer(network, work, train, keeper, ranks, dtype, scales_for(network, train.layer_decay)), keeper


def _attempts(run: Path) -> int:
    file = run / FOLDER / _ATTEMPTS
    return int(json.loads(file.read_text(encoding="utf-8"))["restarts"]) if file.exists() else 0


def _start_anew(run: Path, what: str, restarts: int) -> None:
    """Forget a run that has collapsed, and tell."""
    # Broken off in here, the run goes on with an older checkpoint of the same attempt, or begins it anew.
    for folder in sorted((run / FOLDER).glob("step-*"), reverse=True):
        rmtree(folder)
    (run / JOURNAL).unlink(missing_ok=True)
    with new_file(run / FOLDER / _ATTEMPTS) as file:
        file.write_text(json.dumps({"restarts": restarts, "last": what}), encoding="utf-8")
    progress.say(
        f"{run}: collapsed, {what}; starting again at {0.5**restarts:g} of the rate, "
        f"with {2**restarts} times the warm-up"
    )


def _best(run: Path) -> tuple[int, dict[str, float]]:
    """Return step and scores of the model that the folder is."""
    newest = Snapshots(run, 1).newest()
    assert newest
    step = int(newest.state["best"]["step"])
    measured = [held_out_scores(line) for line in read_journal(run) if line["step"] == step]
    return step, [scores for scores in measured if scores][-1]
