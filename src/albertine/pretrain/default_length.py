"""The length of a run and the size of its batches where the user gives neither.

A small corpus is read again and again with new masks, as BERT's pre-training read its text. A run of few
tokens takes small batches, because it needs some thousand steps.
"""

import math
from dataclasses import replace
from pathlib import Path

from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.pretrain.settings import PretrainSettings
from albertine.train import duration
from albertine.train.settings import DEFAULT_EPOCHS, DEFAULT_MAX_BATCH_TOKENS, DEFAULT_MAX_STEPS

_MIN_STEPS = 4_000  # fewer only if the batches are as small as they may be
_MIN_BATCH_TOKENS, _MIN_BATCH_SAMPLES = 4_096, 8
_GPU_WIDTH = 768


def with_default_length(settings: PretrainSettings, corpus: Corpus, world_size: int = 1) -> PretrainSettings:
    """Return settings with numbers of steps and of tokens in a batch, where they are 0."""
    train = settings.train
    wanted_tokens = DEFAULT_EPOCHS * _tokens_of_epoch(settings, corpus)
    if not train.batch_tokens:
        # With steps alone, the run may have any number of tokens, so its batches are as large as by default.
        tokens = math.inf if train.steps else wanted_tokens
        train = replace(train, batch_tokens=fitting_batch_tokens(settings, tokens, world_size))
    if not train.steps:
        steps = min(DEFAULT_MAX_STEPS, max(1, math.ceil(wanted_tokens / train.batch_tokens)))
        if (train.warmup or 0) > steps:
            raise InputError(
                f"--train.warmup {train.warmup}: longer than the {steps:,} steps in which the run reads its "
                f"corpus {DEFAULT_EPOCHS} times; give --train.steps"
            )
        train = replace(train, steps=steps)
    return settings if train is settings.train else replace(settings, train=train)


def _tokens_of_epoch(settings: PretrainSettings, corpus: Corpus) -> float:
    return settings.objective.text_fraction * corpus.manifest.tokens["train"]


def describe_default_length(settings: PretrainSettings, corpus: Corpus, *, on_cpu: bool = False) -> str:
    """Return the length that `with_default_length` gave a run, and how to give another one.

    Args:
        settings: settings of the run.
        corpus: its corpus.
        on_cpu: whether it runs on a CPU, for which a wide model is too slow.
    """
    train, tokens = settings.train, _tokens_of_epoch(settings, corpus)
    epochs = train.steps * train.batch_tokens / max(1, tokens)
    text = (
        f"{train.steps:,} steps of {train.batch_tokens:,} tokens, which read the {tokens:,.0f} tokens of the "
        f"corpus {epochs:,.1f} times; --train.steps or --train.minutes gives another length"
    )
    if on_cpu and settings.model.hidden_size >= _GPU_WIDTH:
        text += (
            f"; a model {settings.model.hidden_size} wide is for a GPU: on a CPU, --model albertine-tiny "
            "takes hours instead of days"
        )
    return text


def fitting_batch_tokens(settings: PretrainSettings, tokens: float, world_size: int = 1) -> int:
    """Return the tokens of a batch for a run of so many tokens: a power of two, at most the default."""
    batch_tokens = DEFAULT_MAX_BATCH_TOKENS
    smallest = max(_MIN_BATCH_TOKENS, max(_MIN_BATCH_SAMPLES, world_size) * settings.longest_sample())
    while batch_tokens >= 2 * smallest and tokens < _MIN_STEPS * batch_tokens:
        batch_tokens //= 2
    return batch_tokens


def stored_length(run: Path) -> tuple[int, int] | None:
    """Return steps and tokens per batch of a run that has a checkpoint; None if it has none."""
    steps, batch_tokens = (
        duration.stored_number(run, key, PretrainSettings) for key in ("steps", "batch_tokens")
    )
    return None if steps is None or batch_tokens is None else (steps, batch_tokens)


def with_stored_length(settings: PretrainSettings, stored: tuple[int, int] | None) -> PretrainSettings:
    """Return settings with the length of a run that has a checkpoint, where it is not given."""
    train = settings.train
    if stored is None or train.minutes is not None:
        return settings
    train = replace(train, steps=train.steps or stored[0], batch_tokens=train.batch_tokens or stored[1])
    return settings if train == settings.train else replace(settings, train=train)
