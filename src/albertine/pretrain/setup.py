"""Prepares a pre-training run: resolves its settings, and loads or makes its model.

Resolved settings contain every value that the run uses, also those that depend on the corpus or the
checkpoint. So the settings file of a run, which holds them, is enough to repeat the run.
"""

from dataclasses import fields, replace
from pathlib import Path

import torch

from albertine import progress
from albertine.corpus.corpus import Corpus, check_same_tokenizer
from albertine.errors import InputError
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load, load_masked_lm
from albertine.interop.transformers_config import checkpoint_predicts_next_tokens
from albertine.model.model import Model, check_memory
from albertine.model.strip_states import check_can_exit
from albertine.pretrain.curriculum import GROW, growing_depth
from albertine.pretrain.default_length import with_default_length
from albertine.pretrain.local_start import apply_local_start
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import HeadSettings, ModelSettings
from albertine.text.tokenizer import has_tokenizer, load_tokenizer
from albertine.train.duration import check_has_steps
from albertine.train.schedule import LearningRateSchedule

PRETRAIN_HEAD = HeadSettings(kind="pretrain")
_MASKED_HEAD = "head.masked."


def resolved_settings(
    settings: PretrainSettings,
    corpus: Corpus,
    init_model_settings: ModelSettings | None,
    world_size: int = 1,
) -> PretrainSettings:
    """Return the settings of a run, with all defaults that depend on other values filled in.

    These are the length of the run, the architecture (that of the checkpoint), the vocabulary size, the
    maximum length of samples, the stages of a growing depth, the learning rate and the warm-up. Raises
    `InputError` if the vocabulary of the corpus, the samples or the curriculum do not fit the model, or if
    a batch cannot hold a sample.

    Args:
        settings: requested settings; those in `settings.explicit_keys` are not changed.
        corpus: the corpus, which gives the vocabulary size.
        init_model_settings: model settings of the checkpoint to start from; None if there is none.
        world_size: number of processes that share a batch.
    """
    check_has_steps(settings.train)
    settings = with_default_length(settings, corpus, world_size)
    model, explicit_keys = settings.model, settings.explicit_keys
    if init_model_settings is not None:
        model = model_from_checkpoint(init_model_settings, model, explicit_keys)
    elif "model.vocab_size" not in explicit_keys:
        model = replace(model, vocab_size=len(corpus.tokenizer))
    objective = settings.objective
    if "objective.max_length" not in explicit_keys:
        objective = replace(objective, max_length=min(objective.max_length, model.max_length))
    curriculum = settings.curriculum
    if curriculum.depth == GROW:
        depth = resolved_growth(settings, model, has_checkpoint=init_model_settings is not None)
        curriculum = replace(curriculum, depth=depth)
    schedule = LearningRateSchedule.from_settings(settings.train)
    train = replace(settings.train, lr=schedule.peak_lr, warmup=schedule.warmup)
    resolved = replace(
        settings, corpus=corpus.location, model=model, objective=objective, curriculum=curriculum, train=train
    )
    _check_corpus_fits_model(resolved, corpus, has_checkpoint=init_model_settings is not None)
    _check_curriculum_and_batch(resolved, world_size)
    if resolved.train.exits:
        check_can_exit(resolved.model)
    if resolved.train.patience is not None and not corpus.manifest.documents["dev"]:
        raise InputError(
            f"--train.patience {resolved.train.patience}: {corpus.folder} has no held-out text; "
            "build it with --held-out, or leave the option out"
        )
    if settings.device == "cpu" or not torch.cuda.is_available():
        # Weights, gradients and at least one moment, which ranks can share.
        check_memory(model, bytes_per_parameter=max(4, 12 / world_size))
    return resolved


def resolved_growth(settings: PretrainSettings, model: ModelSettings, *, has_checkpoint: bool) -> str | None:
    """Return the stages of a growing depth; None if a preset asks for it and the model has another start.

    Raises `InputError` if the user asks for it and the layers of the model do not share their weights.
    """
    is_requested = "curriculum.depth" in settings.explicit_keys
    if is_requested and not model.shares_all_layers:
        raise InputError(
            f"--curriculum.depth {GROW}: depth can only grow where layers have nothing of their own: "
            'share = "all", groups = 1, step_rank = 0 and step_vectors = false; this model has '
            f'share = "{model.share}", groups = {model.groups}, step_rank = {model.step_rank} and '
            f"step_vectors = {str(model.step_vectors).lower()}"
        )
    if not is_requested and (has_checkpoint or not model.shares_all_layers):
        return None
    return growing_depth(model.layers, settings.train.steps)


def _check_corpus_fits_model(settings: PretrainSettings, corpus: Corpus, *, has_checkpoint: bool) -> None:
    """Raise `InputError` if the model is too small for the vocabulary, the pairs or the longest sample.

    A checkpoint determines the sizes of the model, so no message suggests to change them then.
    """
    model, vocab_size = settings.model, len(corpus.tokenizer)
    if model.vocab_size < vocab_size:
        advice = (
            "build the corpus with the checkpoint's tokenizer"
            if has_checkpoint
            else "raise or remove the setting"
        )
        raise InputError(
            f"model.vocab_size = {model.vocab_size}: the vocabulary of {corpus.folder} has {vocab_size:,} "
            f"tokens; {advice}"
        )
    if settings.objective.pair != "none" and model.segments < 2:
        raise InputError(
            f"model.segments = {model.segments}: pairs need two segments; use --objective.pair none"
            + ("" if has_checkpoint else ", or --model.segments 2")
        )
    longest_sample = settings.longest_sample()
    if longest_sample > model.max_length:
        length_option = "--curriculum.length" if settings.curriculum.length else "--objective.max-length"
        raise InputError(
            f"samples of {longest_sample} tokens: the model takes at most {model.max_length}; "
            f"reduce {length_option}" + ("" if has_checkpoint else ", or raise --model.max-length")
        )


def _check_curriculum_and_batch(settings: PretrainSettings, world_size: int) -> None:
    """Raise `InputError` if a stage is deeper than the model or a batch is too small for the samples."""
    depth_stages = settings.curriculum.stages("depth")
    if depth_stages and max(depth_stages.values) > settings.model.layers:
        raise InputError(
            f'--curriculum.depth "{settings.curriculum.depth}": the model has only '
            f"{settings.model.layers} layers; raise --model.layers, or lower the depths"
        )
    longest_sample = settings.longest_sample()
    if settings.train.batch_tokens < longest_sample * world_size:
        per_process = f" for each of {world_size} processes" if world_size > 1 else ""
        raise InputError(
            f"--train.batch-tokens {settings.train.batch_tokens}: must hold a sample of {longest_sample} "
            f"tokens{per_process}; raise it to at least {longest_sample * world_size}"
        )


def check_causal_fraction(settings: PretrainSettings) -> None:
    """Raise `InputError` if a step cannot have masked and causal samples, or if these would see too much.

    Args:
        settings: settings from `resolved_settings`, not those of a trial, whose steps are smaller.
    """
    causal = settings.objective.exact_causal_fraction
    samples = settings.train.batch_tokens // settings.longest_sample()
    # Where samples repeat, two neighbouring steps may share the one that each would have.
    needed = 1 if settings.objective.distinct_epochs is None else 2
    if causal and samples * min(causal, 1 - causal) < needed:
        raise InputError(
            f"--objective.causal-fraction {float(causal):g}: a step of {samples:,} samples is too small to "
            "have masked and causal ones; raise --train.batch-tokens, or give a fraction nearer to 0.5"
        )
    if causal and settings.model.mark_matches:
        raise InputError(
            "--objective.causal-fraction: not for a model with mark_matches, which shows a token whether it "
            "occurs later"
        )


_CHANGEABLE_FIELDS = ("dropout", "attention_dropout", "layers")  # may differ from those of the checkpoint


def model_from_checkpoint(
    init_model_settings: ModelSettings, requested: ModelSettings, explicit_keys: frozenset[str]
) -> ModelSettings:
    """Return the model settings of a checkpoint, with the requested dropout and number of layers.

    Raises `InputError` if another architecture is requested.
    """
    has_preset = "model.preset" in explicit_keys
    changes = {
        name: getattr(requested, name)
        for name in _CHANGEABLE_FIELDS
        if has_preset or f"model.{name}" in explicit_keys
    }
    layers = init_model_settings.layers
    if changes.get("layers", layers) != layers and not init_model_settings.shares_all_layers:
        raise InputError(
            f"model.layers = {requested.layers}: the checkpoint of --init-from has {layers} layers; only a "
            f"model whose layers all share their weights can change its depth; use --model.layers {layers}"
        )
    for field in fields(init_model_settings):
        name, key = field.name, f"model.{field.name}"
        # A preset has a vocabulary size of its own, but naming a preset does not ask for that size.
        is_requested = key in explicit_keys or (has_preset and name != "vocab_size")
        if (
            name not in _CHANGEABLE_FIELDS
            and is_requested
            and getattr(requested, name) != getattr(init_model_settings, name)
        ):
            advice = "remove the setting" if key in explicit_keys else "remove the preset"
            raise InputError(
                f"{key} = {getattr(requested, name)}: the checkpoint of --init-from has "
                f"{getattr(init_model_settings, name)}; {advice}"
            )
    return replace(init_model_settings, **changes)


def load_init_checkpoint(settings: PretrainSettings, corpus: Corpus) -> Model | None:
    """Return the model of the checkpoint to start from; None if the settings name none."""
    source = settings.init_from
    if source is None:
        return None
    model = load_pretrained_checkpoint(source, corpus)
    if not settings.objective.causal_fraction and checkpoint_predicts_next_tokens(locate_checkpoint(source)):
        progress.print_message(
            f"{source}: it also predicts next tokens, which this run does not train; to keep that, give "
            "--objective.causal-fraction"
        )
    asks_for_start = settings.unigram_start and "unigram_start" in settings.explicit_keys
    if asks_for_start and not has_new_masked_head(model):
        progress.print_message(f"{source}: has an MLM head, whose bias the run takes; no unigram start")
    return model


def has_new_masked_head(init_model: Model | None) -> bool:
    """Return whether a run starts with a new MLM head: it has no checkpoint, or one without such a head."""
    return init_model is None or any(name.startswith(_MASKED_HEAD) for name in init_model.missing_parameters)


def load_pretrained_checkpoint(source: str, corpus: Corpus, *, predicts_masks: bool = False) -> Model:
    """Return the model of a checkpoint, with a head of pre-training.

    Raises `InputError` if its tokenizer is not that of the corpus.

    Args:
        source: a folder or a hub name.
        corpus: the corpus.
        predicts_masks: whether to refuse a checkpoint without a masked-LM head, such as a fine-tuned model.
    """
    folder = locate_checkpoint(source)
    model = load_masked_lm(folder, source) if predicts_masks else load(folder, PRETRAIN_HEAD)
    if model.head_settings.kind != PRETRAIN_HEAD.kind:
        model = load(folder, PRETRAIN_HEAD)
    _check_checkpoint_tokenizer(source, folder, corpus)
    model_vocab_size, corpus_vocab_size = model.settings.vocab_size, len(corpus.tokenizer)
    if model_vocab_size < corpus_vocab_size:
        raise InputError(
            f"{source}: its vocabulary has {model_vocab_size:,} tokens, that of {corpus.folder} "
            f"{corpus_vocab_size:,}; build the corpus with the tokenizer of the checkpoint"
        )
    return model


def _check_checkpoint_tokenizer(source: str, folder: Path, corpus: Corpus) -> None:
    """Raise `InputError` if a checkpoint has a tokenizer and it is not that of the corpus."""
    if not has_tokenizer(folder):
        progress.print_message(f"{source}: has no tokenizer; assuming the tokenizer of {corpus.folder}")
        return
    check_same_tokenizer(source, load_tokenizer(folder).fingerprint, corpus)


def untrained_model(model_settings: ModelSettings, settings: PretrainSettings) -> Model:
    """Return a model whose encoder has the weights with which a pre-training run begins.

    Args:
        model_settings: settings of the model.
        settings: settings of the run; only the seed and the choice of the start are used.
    """
    model = Model(model_settings, PRETRAIN_HEAD, seed=settings.train.seed)
    if replace(settings, model=model_settings).uses_local_start:
        apply_local_start(model, settings.train.seed, model_settings.layers)
    return model


def make_model(settings: PretrainSettings, init_model: Model | None) -> Model:
    """Return the model of a run, with the weights of `init_model` or random ones."""
    head = replace(PRETRAIN_HEAD, next_tokens=settings.objective.causal_fraction > 0)
    model = Model(settings.model, head, seed=settings.train.seed)
    if init_model is not None:
        model.load_state_dict(init_model.state_dict())
    return model
