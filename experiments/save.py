"""Writes the model of an experiment as a folder that `albertine` opens, if it has that network."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from albertine.corpus.corpus import Corpus
from albertine.interop.huggingface import checkpoint_writer
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


def save(model: VariantModel, corpus: Corpus, folder: Path) -> None:
    """Write a model into a folder that must not exist."""
    v = model.encoder.variation
    settings = replace(
        v.model_settings(len(corpus.tokenizer)), norm_first=v.norm == "before", rotary=v.rotary
    )
    published = Model(settings, HeadSettings(kind="pretrain", next_tokens=v.causal != "0"))
    for source, target in published_modules(model, published):
        target.load_state_dict(source.state_dict())
    head: Any = published.head
    head.masked.bias.data.copy_(model.bias)
    folder.mkdir(parents=True)
    checkpoint_writer(published, tokenizer=corpus.tokenizer)(folder)
