"""Prepares a pre-training run: resolves its settings, and loads or makes its model.

Resolved settings have no default left open, so the settings file of a run repeats the run.
"""

from dataclasses import fields, replace
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus, check_same_tokenizer
from albertine.errors import InputError
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load
from albertine.model.model import Model
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import HeadSettings, ModelSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.train.schedule import LearningRateSchedule

PRETRAIN_HEAD = HeadSettings(kind="pretrain")


def resolved_settings(
    settings: PretrainSettings,
    corpus: Corpus,
    init_model: ModelSettings | None,
    world_size: int = 1,
) -> PretrainSettings:
    """Return settings with all sizes and learning rates filled in; raise `InputError` if they do not fit.

    Args:
        settings: settings of the run; those in `explicit_keys` are not changed.
        corpus: the corpus, which gives the vocabulary size.
        init_model: model settings of the checkpoint to start from, if there is one.
        world_size: number of processes that share a batch.
    """
    model, explicit_keys = settings.model, settings.explicit_keys
    if init_model is not None:
        model = _model_from_checkpoint(init_model, model, explicit_keys)
    vocab_size = len(corpus.tokenizer)
    if init_model is None and "model.vocab_size" not in explicit_keys:
        model = replace(model, vocab_size=vocab_size)
    if model.vocab_size < vocab_size:
        raise InputError(f"{corpus.folder}: has {vocab_size:,} tokens, the model only {model.vocab_size:,}")
    objective = settings.objective
    if objective.pair != "none" and model.segments < 2:
        raise InputError(
            f"model.segments = {model.segments}: pairs need two; "
            "use --model.segments 2, or --objective.pair none"
        )
    if "objective.max_length" not in explicit_keys:
        objective = replace(objective, max_length=min(objective.max_length, model.max_length))
    schedule = LearningRateSchedule.from_settings(settings.train)
    train = replace(settings.train, lr=schedule.peak_lr, warmup=schedule.warmup)
    folder = corpus.folder.resolve()
    resolved = replace(settings, corpus=folder, model=model, objective=objective, train=train)
    if resolved.longest_sample() > model.max_length:
        raise InputError(
            f"samples of {resolved.longest_sample()} tokens: the model takes {model.max_length}; "
            "reduce --objective.max-length" + ("" if init_model else ", or raise --model.max-length")
        )
    depth = resolved.curriculum.stages("depth")
    if depth and max(depth.values) > model.layers:
        raise InputError(
            f'--curriculum.depth "{resolved.curriculum.depth}": the model has {model.layers} layers; '
            "give --model.layers"
        )
    if train.batch_tokens < resolved.longest_sample() * world_size:
        per_process = f" for each of {world_size} processes" if world_size > 1 else ""
        raise InputError(
            f"--train.batch-tokens {train.batch_tokens}: must hold a sample of "
            f"{resolved.longest_sample()} tokens{per_process}"
        )
    return resolved


_CHANGEABLE_FIELDS = ("dropout", "attention_dropout", "layers")


def _model_from_checkpoint(
    init_model: ModelSettings, requested: ModelSettings, explicit_keys: frozenset[str]
) -> ModelSettings:
    """Return the model settings of a checkpoint, with the requested dropout and depth."""
    has_preset = "model.preset" in explicit_keys
    changes = {
        key: getattr(requested, key)
        for key in _CHANGEABLE_FIELDS
        if has_preset or f"model.{key}" in explicit_keys
    }
    if changes.get("layers", init_model.layers) != init_model.layers and not (
        init_model.share == "all" and init_model.groups == 1
    ):
        raise InputError(
            f"model.layers = {requested.layers}: the checkpoint has {init_model.layers} unshared layers; "
            "only a model that shares all layers can change its depth"
        )
    for field in fields(init_model):
        key, name = field.name, f"model.{field.name}"
        # The vocabulary size of a preset is the published one, and that of a run follows from the corpus.
        is_requested = name in explicit_keys or (has_preset and key != "vocab_size")
        if (
            key not in _CHANGEABLE_FIELDS
            and is_requested
            and getattr(requested, key) != getattr(init_model, key)
        ):
            raise InputError(
                f"{name} = {getattr(requested, key)}: the checkpoint of --init-from has "
                f"{getattr(init_model, key)}; remove the setting"
            )
    return replace(init_model, **changes)


def load_init_checkpoint(source: str | None, corpus: Corpus) -> Model | None:
    """Return the model of the checkpoint to start from; None if `source` is None."""
    if source is None:
        return None
    return load_pretrained_checkpoint(source, corpus)


def load_pretrained_checkpoint(source: str, corpus: Corpus) -> Model:
    """Return the model of a checkpoint, with its pre-training head.

    Raises `InputError` if its tokenizer is not that of the corpus.
    """
    folder = locate_checkpoint(source)
    model = load(folder, PRETRAIN_HEAD)
    _check_checkpoint_tokenizer(source, folder, corpus)
    model_vocab_size, corpus_vocab_size = model.settings.vocab_size, len(corpus.tokenizer)
    if model_vocab_size < corpus_vocab_size:
        raise InputError(
            f"{source}: has {model_vocab_size:,} tokens, {corpus.folder} has {corpus_vocab_size:,}"
        )
    return model


def _check_checkpoint_tokenizer(source: str, folder: Path, corpus: Corpus) -> None:
    """Raise `InputError` if the tokenizer of a checkpoint is not that of the corpus; it may have none."""
    try:
        fingerprint = load_tokenizer(folder).fingerprint
    except InputError:
        progress.print_message(f"{source}: has no tokenizer; assuming the tokenizer of {corpus.folder}")
        return
    check_same_tokenizer(source, fingerprint, corpus)


def make_model(settings: PretrainSettings, init_model: Model | None) -> Model:
    """Return the model of a run, with the weights of `init_model` or random ones."""
    model = Model(settings.model, PRETRAIN_HEAD, seed=settings.train.seed)
    if init_model is not None:
        model.load_state_dict(init_model.state_dict())
    return model
