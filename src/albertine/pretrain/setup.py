"""From what a person set to what a run is: sizes follow the corpus and the checkpoint, rates the batch.

What comes out has nothing left open, so that it can be written down and run again.
"""

from dataclasses import fields, replace
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load
from albertine.model.model import Model
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import MODEL_PRESETS, HeadSettings, ModelSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.train.schedule import LearningRateSchedule

PRETRAIN_HEAD = HeadSettings(kind="pretrain")


def resolved_settings(
    settings: PretrainSettings,
    corpus: Corpus,
    init_model: ModelSettings | None,
    given_keys: frozenset[str],
    world_size: int = 1,
) -> PretrainSettings:
    """Settle what was left open.

    Args:
        settings: what was asked.
        corpus: the corpus.
        init_model: the network of the checkpoint to start from, if there is one.
        given_keys: the keys that a person gave, as in "model.layers".
        world_size: how many share a batch.
    """
    model = settings.model
    if init_model is not None:
        model = _model_from_checkpoint(init_model, model, given_keys)
    vocab_size = len(corpus.tokenizer)
    if init_model is None and "model.vocab_size" not in given_keys:
        model = replace(model, vocab_size=vocab_size)
    if model.vocab_size < vocab_size:
        raise InputError(f"{corpus.folder}: has {vocab_size:,} pieces, the model only {model.vocab_size:,}")
    objective = settings.objective
    if objective.pair != "none" and model.segments < 2:
        raise InputError(
            f"model.segments = {model.segments}: pairs take two; "
            "give --model.segments 2, or --objective.pair none"
        )
    if "objective.max_length" not in given_keys:
        objective = replace(objective, max_length=min(objective.max_length, model.max_length))
    schedule = LearningRateSchedule.from_settings(settings.train)
    train = replace(settings.train, lr=schedule.peak_lr, warmup=schedule.warmup)
    folder = corpus.folder.resolve()
    resolved = replace(settings, corpus=folder, model=model, objective=objective, train=train)
    if resolved.longest_sample() > model.max_length:
        raise InputError(
            f"samples of {resolved.longest_sample()} pieces: the model takes {model.max_length}; "
            "shorten --objective.max-length" + ("" if init_model else ", or give --model.max-length")
        )
    depth = resolved.curriculum.stages("depth")
    if depth and max(depth.values) > model.layers:
        raise InputError(
            f'--curriculum.depth "{resolved.curriculum.depth}": the model has {model.layers} layers; '
            "give --model.layers"
        )
    if train.batch_tokens < resolved.longest_sample() * world_size:
        of = f" for each of {world_size} processes" if world_size > 1 else ""
        raise InputError(
            f"--train.batch-tokens {train.batch_tokens}: must hold a sample of {resolved.longest_sample()} pieces{of}"
        )
    return resolved


_CHANGEABLE_FIELDS = ("dropout", "attention_dropout", "layers")


def _model_from_checkpoint(
    init_model: ModelSettings, requested: ModelSettings, given_keys: frozenset[str]
) -> ModelSettings:
    """Return the model of a checkpoint with what may differ from it: depth, if it is shared, and dropout."""
    has_preset = "model.preset" in given_keys
    wanted = {
        key: getattr(requested, key)
        for key in _CHANGEABLE_FIELDS
        if has_preset or f"model.{key}" in given_keys
    }
    if wanted.get("layers", init_model.layers) != init_model.layers and not (
        init_model.share == "all" and init_model.groups == 1
    ):
        raise InputError(
            f"model.layers = {requested.layers}: the checkpoint has {init_model.layers} layers of its own; "
            "only a fully shared one can go deeper"
        )
    for field in fields(init_model):
        key, name = field.name, f"model.{field.name}"
        # Presets have the published vocabulary; every corpus has its own.
        is_requested = name in given_keys or (has_preset and key != "vocab_size")
        if (
            key not in _CHANGEABLE_FIELDS
            and is_requested
            and getattr(requested, key) != getattr(init_model, key)
        ):
            raise InputError(
                f"{name} = {getattr(requested, key)}: the checkpoint of --init has {getattr(init_model, key)}; "
                "leave it out"
            )
    return replace(init_model, **wanted)


def load_init_checkpoint(source: str | None, corpus: Corpus) -> Model | None:
    """Load the checkpoint to start from, if there is one, and see that it speaks the corpus's language."""
    if source is None:
        return None
    return load_pretrained_checkpoint(source, corpus)


def load_pretrained_checkpoint(source: str, corpus: Corpus) -> Model:
    """Load a checkpoint with its pre-training head, if it reads the pieces of a corpus."""
    if source in MODEL_PRESETS:
        raise InputError(f"{source}: a preset, with nothing learned yet; name a checkpoint")
    folder = locate_checkpoint(source)
    model = load(folder, PRETRAIN_HEAD)
    _check_checkpoint_tokenizer(source, folder, corpus)
    model_vocab_size, corpus_vocab_size = model.settings.vocab_size, len(corpus.tokenizer)
    if model_vocab_size < corpus_vocab_size:
        raise InputError(
            f"{source}: knows {model_vocab_size:,} pieces, {corpus.folder} has {corpus_vocab_size:,}"
        )
    return model


def _check_checkpoint_tokenizer(source: str, folder: Path, corpus: Corpus) -> None:
    """Refuse a checkpoint with another tokenizer; one that brings none is taken to fit."""
    try:
        fingerprint = load_tokenizer(folder).fingerprint
    except InputError:
        progress.print_message(f"{source}: brings no tokenizer; taking it to be that of {corpus.folder}")
        return
    check_same_tokenizer(source, fingerprint, corpus)


def check_same_tokenizer(source: str, fingerprint: str, corpus: Corpus) -> None:
    """Refuse a checkpoint whose tokenizer is not the corpus's."""
    if fingerprint != corpus.manifest.tokenizer_fingerprint:
        raise InputError(
            f"{source}: its tokenizer ({fingerprint}) is not that of {corpus.folder} "
            f"({corpus.manifest.tokenizer_fingerprint}); build the corpus with --tokenizer {source}"
        )


def make_network(settings: PretrainSettings, init_network: Model | None) -> Model:
    """Make the network of a run: fresh, or with the weights of a checkpoint."""
    network = Model(settings.model, PRETRAIN_HEAD, seed=settings.train.seed)
    if init_network is not None:
        network.load_state_dict(init_network.state_dict())
    return network


def open_corpus(folder: Path | None) -> Corpus:
    """Open the corpus that was named."""
    if folder is None:
        raise InputError("--corpus is missing: a folder that `albertine corpus build` made")
    return Corpus(folder)
