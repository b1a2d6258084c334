"""Writes the model of an experiment as a folder that `albertine` opens, if its network is ALBERT's."""

from pathlib import Path
from typing import Any

from torch import nn

from albertine.corpus.corpus import Corpus
from albertine.interop.huggingface import checkpoint_writer
from albertine.model.model import Model
from albertine.settings import HeadSettings
from experiments.network import VariantModel


def published_modules(model: VariantModel, published: Model) -> list[tuple[nn.Module, nn.Module]]:
    """Return the modules of a model without variations, each with that of ALBERT."""
    encoder, original = model.encoder, published.encoder
    head: Any = published.head
    embedding, block, ffn = original.embedding, original.attention[0], original.ffn[0]
    pairs: list[tuple[Any, Any]] = [
        (encoder.tokens, embedding.tokens),
        (encoder.segments, embedding.segments),
        (encoder.positions, embedding.positions),
        (encoder.norm, embedding.norm),
        (encoder.projection, embedding.projection),
        (encoder.qkv, block.qkv),
        (encoder.out, block.out),
        (encoder.norms["attention_out"], block.norm),
        (encoder.up, ffn.up),
        (encoder.down, ffn.down),
        (encoder.norms["ffn_out"], ffn.norm),
        (model.dense, head.masked.dense),
        (model.norm, head.masked.norm),
        (model.pooler, head.pooler.dense),
        (model.pair, head.pair),
    ]
    return pairs


def save(model: VariantModel, corpus: Corpus, folder: Path) -> None:
    """Write a model as ALBERT, into a folder that must not exist."""
    settings = model.encoder.variation.model_settings(len(corpus.tokenizer))
    published = Model(settings, HeadSettings(kind="pretrain"))
    for source, target in published_modules(model, published):
        target.load_state_dict(source.state_dict())
    head: Any = published.head
    head.masked.bias.data.copy_(model.bias)
    folder.mkdir(parents=True)
    checkpoint_writer(published, tokenizer=corpus.tokenizer)(folder)
