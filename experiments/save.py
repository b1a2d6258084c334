"""Writes the model of an experiment as a folder that `albertine` opens, if it has that network."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.interop.save_checkpoint import checkpoint_writer
from albertine.model.model import Model
from albertine.settings import HeadSettings
from experiments.network import VariantModel


def published_modules(model: VariantModel, published: Model) -> list[tuple[nn.Module, nn.Module]]:
    """Return the modules of a model, each with that of ALBERT or of a preset `albertine-*`."""
    encoder, original = model.encoder, published.encoder
    head: Any = published.head
    is_first = encoder.variation.norm == "before"
    embedding, block, ffn = original.embedding, original.attention[0], original.ffn[0]
    pairs: list[tuple[Any, Any]] = [
        (encoder.tokens, embedding.tokens),
        (encoder.segments, embedding.segments),
        (encoder.norm, embedding.norm),
        (encoder.projection, embedding.projection),
        (encoder.qkv, block.qkv),
        (encoder.out, block.out),
        (encoder.norms["attention_in" if is_first else "attention_out"], block.norm),
        (encoder.up, ffn.up),
        (encoder.down, ffn.down),
        (encoder.norms["ffn_in" if is_first else "ffn_out"], ffn.norm),
        (model.dense, head.masked.dense),
        (model.norm, head.masked.norm),
        (model.pooler, head.pooler.dense),
        (model.pair, head.pair),
    ]
    if is_first:
        pairs.append((encoder.norms["last"], original.last_norm))
    if not encoder.variation.rotary:
        pairs.append((encoder.positions, embedding.positions))
    return pairs


def check_save(model: VariantModel, corpus: Corpus, folder: Path) -> None:
    """Raise `InputError` if a model cannot be written into a folder; create the folders above it."""
    if folder.exists():
        raise InputError(f"--save-to {folder}: exists; give another folder")
    if other := _differences(model, _published_model(model, corpus)):
        raise InputError(
            f"--save-to {folder}: a model folder holds ALBERT or a preset albertine-*, which have no "
            f"{', '.join(other)}; leave out --save-to"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)


def _published_model(model: VariantModel, corpus: Corpus) -> Model:
    """Return an ALBERT, or a preset `albertine-*`, of the sizes of a model."""
    v = model.encoder.variation
    settings = replace(
        v.model_settings(len(corpus.tokenizer)), norm_first=v.norm == "before", rotary=v.rotary
    )
    return Model(settings, HeadSettings(kind="pretrain", next_tokens=v.causal != "0"))


def _differences(model: VariantModel, published: Model) -> list[str]:
    """Return what a model has and a published one has not: weights, by name, and switches without weights."""
    v = model.encoder.variation
    pairs = published_modules(model, published)
    same = {
        id(weight)
        for source, target in pairs
        if _shapes(source) == _shapes(target)
        for weight in source.parameters()
    }
    other = [
        name
        for name, weight in model.named_parameters()
        # The head that finds replaced tokens only helps the training.
        if id(weight) not in same and name != "bias" and not name.startswith("replaced")
    ]
    if v.activation != "gelu":
        other.append(f"--activation {v.activation}")
    return other + ([f"--residual-scale {v.residual_scale:g}"] if v.residual_scale != 1 else [])


def _shapes(module: nn.Module | None) -> dict[str, torch.Size]:
    return {} if module is None else {name: values.shape for name, values in module.state_dict().items()}


def save(model: VariantModel, corpus: Corpus, folder: Path) -> None:
    """Write a model into a folder that must not exist; see `check_save`."""
    published = _published_model(model, corpus)
    for source, target in published_modules(model, published):
        target.load_state_dict(source.state_dict())
    head: Any = published.head
    head.masked.bias.data.copy_(model.bias)
    folder.mkdir(parents=True)
    checkpoint_writer(published, tokenizer=corpus.tokenizer)(folder)
