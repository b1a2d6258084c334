"""A pre-training run, from its settings to a folder that is a model."""

from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sampler
from albertine.model.encoder import Computation
from albertine.model.network import Model
from albertine.pretrain.neighbours import look_at_neighbours
from albertine.pretrain.plateau import Plateau
from albertine.pretrain.plot import CURVE, draw
from albertine.pretrain.prepare import corpus_of, network_of, settled, starting_point
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.unigram import Frequencies, start_from
from albertine.pretrain.work import Pretraining
from albertine.settings import ModelSettings, read
from albertine.train.folder import has_checkpoints, occupied, settings_of
from albertine.train.keeper import Keeper
from albertine.train.loop import Trainer
from albertine.train.machine import choose_precision
from albertine.train.ranks import Ranks, joined, same_everywhere
from albertine.train.sharding import spread_out
from albertine.train.trackers import refuse_missing

# What may change when a run goes on: where and how fast it computes, and what it keeps and tells.
_FREE = frozenset(
    {"corpus", "device", "workers"}  # a corpus is known by its checksums, wherever it lies
    | {f"train.{key}" for key in ("at_once", "recompute", "compile", "shard", "track", "keep")}
    | {f"train.{key}" for key in ("save_every", "save_minutes")}
)


def pretrain(run: Path, settings: PretrainSettings, given: frozenset[str]) -> dict[str, float]:
    """Pre-train into a folder, or go on where that was broken off; return the last held-out scores."""
    refuse_missing(settings.train.track)
    corpus = corpus_of(settings.corpus)
    with joined(settings.device) as ranks, ExitStack() as stack:
        known = _begun(run, settings)
        start = None if known else starting_point(settings.init, corpus)
        base = known or (start.model if start else None)
        settings = settled(settings, corpus, base, given, ranks.all)
        ranks.by_first(lambda: stack.enter_context(occupied(run, settings, _FREE)))
        trainer, keeper = assembled(run, settings, corpus, start, ranks)
        if trainer.finished:
            progress.say(f"{run}: has taken all its {settings.train.steps:,} steps")
            if ranks.first and not (run / CURVE).exists():
                draw(run)
            return trainer.scores
        with keeper.open(trainer.saved, asdict(settings)) if ranks.first else nullcontext():
            trainer.run()
        if ranks.first:
            draw(run)
        return trainer.scores


def _begin(network: Model, settings: PretrainSettings, frequencies: Frequencies) -> None:
    """Let fresh weights know what every run would learn first."""
    if settings.unigram_start:
        start_from(network, frequencies)
    if settings.looks_at_neighbours:
        look_at_neighbours(network, settings.train.seed, settings.depth_at(0))


def _begun(run: Path, settings: PretrainSettings) -> ModelSettings | None:
    """Return the network of a run that began with a checkpoint, which it needs no longer."""
    if settings.init is None or not has_checkpoints(run):
        return None
    return read(PretrainSettings, settings_of(run, PretrainSettings)).model


def assembled(
    run: Path,
    settings: PretrainSettings,
    corpus: Corpus,
    start: Model | None,
    ranks: Ranks,
    kind: type[Pretraining] = Pretraining,
) -> tuple[Trainer, Keeper]:
    """Put a run together from settled settings; it goes on from its newest checkpoint, if it has one."""
    frequencies = Frequencies.of(corpus)
    network = network_of(settings, start)
    train = settings.train
    dtype = choose_precision(train.precision, ranks.device)
    network.encoder.computation = Computation(dtype, train.recompute, train.compile)
    if start is None and not has_checkpoints(run):
        _begin(network, settings, frequencies)
    network.to(ranks.device)
    same_everywhere(network, ranks)
    if train.shard and ranks.all > 1:
        spread_out(network, ranks)
    level = frequencies.loss(Sampler(corpus, settings.objective_at(0)))
    plateau = Plateau(settings, level, frequencies.share(corpus.tokenizer.special.unknown))
    at_once = train.at_once or (32_768 if ranks.device.type == "cuda" else 4_096)
    work = kind(corpus, settings, ranks, plateau, max(at_once, settings.longest()))
    keeper = Keeper(run, train, {"mlm": ("unigram", level)})
    return Trainer(network, work, train, keeper, ranks, dtype), keeper
