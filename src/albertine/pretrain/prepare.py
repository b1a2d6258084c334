"""From what a person set to what a run is: sizes follow the corpus and the checkpoint, rates the batch.

What comes out has nothing left open, so that it can be written down and run again.
"""

from dataclasses import fields, replace
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.interop.hub import locate
from albertine.interop.load import load
from albertine.model.network import Model
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import MODELS, HeadSettings, ModelSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.train.schedule import Schedule

PRETRAIN = HeadSettings(kind="pretrain")


def settled(
    settings: PretrainSettings,
    corpus: Corpus,
    start: ModelSettings | None,
    given: frozenset[str],
    processes: int = 1,
) -> PretrainSettings:
    """Settle what was left open.

    Args:
        settings: what was asked.
        corpus: the corpus.
        start: the network of the checkpoint to start from, if there is one.
        given: the keys that a person gave, as in "model.layers".
        processes: how many share a batch.
    """
    model = settings.model
    if start is not None:
        model = _continued(start, model, given)
    pieces = len(corpus.tokenizer)
    if start is None and "model.vocab_size" not in given:
        model = replace(model, vocab_size=pieces)
    if model.vocab_size < pieces:
        raise InputError(f"{corpus.folder}: has {pieces:,} pieces, the model only {model.vocab_size:,}")
    objective = settings.objective
    if objective.pair != "none" and model.segments < 2:
        raise InputError(
            f"model.segments = {model.segments}: pairs take two; "
            "give --model.segments 2, or --objective.pair none"
        )
    if "objective.max_length" not in given:
        objective = replace(objective, max_length=min(objective.max_length, model.max_length))
    schedule = Schedule.of(settings.train)
    train = replace(settings.train, lr=schedule.lr, warmup=schedule.warmup)
    folder = corpus.folder.resolve()
    found = replace(settings, corpus=folder, model=model, objective=objective, train=train)
    if found.longest() > model.max_length:
        raise InputError(
            f"samples of {found.longest()} pieces: the model takes {model.max_length}; "
            "shorten --objective.max-length" + ("" if start else ", or give --model.max-length")
        )
    depth = found.curriculum.stages("depth")
    if depth and max(depth.values) > model.layers:
        raise InputError(
            f'--curriculum.depth "{found.curriculum.depth}": the model has {model.layers} layers; '
            "give --model.layers"
        )
    if train.batch_tokens < found.longest() * processes:
        of = f" for each of {processes} processes" if processes > 1 else ""
        raise InputError(
            f"--train.batch-tokens {train.batch_tokens}: must hold a sample of {found.longest()} pieces{of}"
        )
    return found


_MAY_DIFFER = ("dropout", "attention_dropout", "layers")


def _continued(start: ModelSettings, asked: ModelSettings, given: frozenset[str]) -> ModelSettings:
    """Return the model of a checkpoint with what may differ from it: depth, if it is shared, and dropout."""
    named = "model.preset" in given
    wanted = {key: getattr(asked, key) for key in _MAY_DIFFER if named or f"model.{key}" in given}
    if wanted.get("layers", start.layers) != start.layers and not (
        start.share == "all" and start.groups == 1
    ):
        raise InputError(
            f"model.layers = {asked.layers}: the checkpoint has {start.layers} layers of its own; "
            "only a fully shared one can go deeper"
        )
    for field in fields(start):
        key, name = field.name, f"model.{field.name}"
        # Presets have the published vocabulary; every corpus has its own.
        counts = name in given or (named and key != "vocab_size")
        if key not in _MAY_DIFFER and counts and getattr(asked, key) != getattr(start, key):
            raise InputError(
                f"{name} = {getattr(asked, key)}: the checkpoint of --init has {getattr(start, key)}; "
                "leave it out"
            )
    return replace(start, **wanted)


def starting_point(source: str | None, corpus: Corpus) -> Model | None:
    """Load the checkpoint to start from, if there is one, and see that it speaks the corpus's language."""
    if source is None:
        return None
    return checkpoint_of(source, corpus)


def checkpoint_of(source: str, corpus: Corpus) -> Model:
    """Load a checkpoint with its pre-training head, if it reads the pieces of a corpus."""
    if source in MODELS:
        raise InputError(f"{source}: a preset, with nothing learned yet; name a checkpoint")
    folder = locate(source)
    model = load(folder, PRETRAIN)
    _refuse_stranger(source, folder, corpus)
    known, pieces = model.model.vocab_size, len(corpus.tokenizer)
    if known < pieces:
        raise InputError(f"{source}: knows {known:,} pieces, {corpus.folder} has {pieces:,}")
    return model


def _refuse_stranger(source: str, folder: Path, corpus: Corpus) -> None:
    """Refuse a checkpoint with another tokenizer; one that brings none is taken to fit."""
    try:
        fingerprint = load_tokenizer(folder).fingerprint
    except InputError:
        progress.say(f"{source}: brings no tokenizer; taking it to be that of {corpus.folder}")
        return
    refuse_other_tokenizer(source, fingerprint, corpus)


def refuse_other_tokenizer(source: str, fingerprint: str, corpus: Corpus) -> None:
    """Refuse a checkpoint whose tokenizer is not the corpus's."""
    if fingerprint != corpus.manifest.tokenizer:
        raise InputError(
            f"{source}: its tokenizer ({fingerprint}) is not that of {corpus.folder} "
            f"({corpus.manifest.tokenizer}); build the corpus with --tokenizer {source}"
        )


def network_of(settings: PretrainSettings, start: Model | None) -> Model:
    """Make the network of a run: fresh, or with the weights of a checkpoint."""
    network = Model(settings.model, PRETRAIN, seed=settings.train.seed)
    if start is not None:
        network.load_state_dict(start.state_dict())
    return network


def corpus_of(folder: Path | None) -> Corpus:
    """Open the corpus that was named."""
    if folder is None:
        raise InputError("--corpus is missing: a folder that `albertine corpus build` made")
    return Corpus(folder)
