"""The family, as data: the models of the paper's Table 1, and three for machines without a GPU.

BERT is the corner of the family where nothing is shared and E = H. Heads are
H/64 and the FFN is 4H, as published; the vocabulary is 30,000 for all so that
columns compare. Pre-training dropout is BERT's 0.1 for base and large; the
paper's final ALBERT models train without.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from albertine.errors import InputError, did_you_mean
from albertine.settings.model import ModelSettings
from albertine.settings.schema import Settings

S = TypeVar("S", bound=Settings)


def _albert(hidden_size: int, layers: int) -> ModelSettings:
    return ModelSettings(hidden_size=hidden_size, layers=layers, heads=hidden_size // 64)


def _bert(hidden_size: int, layers: int) -> ModelSettings:
    return ModelSettings(
        embedding_size=hidden_size,
        hidden_size=hidden_size,
        layers=layers,
        heads=hidden_size // 64,
        share="none",
        activation="gelu",
        dropout=0.1,
        attention_dropout=0.1,
    )


MODEL_PRESETS: Mapping[str, ModelSettings] = MappingProxyType(
    {
        "bert-base": _bert(768, 12),
        "bert-large": _bert(1024, 24),
        "bert-xlarge": _bert(2048, 24),
        "albert-base": _albert(768, 12),
        "albert-large": _albert(1024, 24),
        "albert-xlarge": _albert(2048, 24),
        "albert-xxlarge": _albert(4096, 12),
        # An evening, an hour, and minutes on two cores.
        "albert-small": ModelSettings(hidden_size=512, layers=8, heads=8),
        "albert-tiny": ModelSettings(hidden_size=256, layers=6, heads=4, vocab_size=8_000),
        "demo": ModelSettings(
            hidden_size=128, layers=4, heads=4, embedding_size=64, vocab_size=2_000, max_length=128
        ),
    }
)

_PRESETS: Mapping[type[Settings], Mapping[str, Settings]] = {ModelSettings: MODEL_PRESETS}


def find_preset(settings_class: type[S], name: object) -> S:
    """Return a preset of this kind of settings by name."""
    known = _PRESETS.get(settings_class, {})
    found = known.get(name) if isinstance(name, str) else None
    if not known:
        raise InputError("there are no presets of this table; remove the key")
    if not isinstance(found, settings_class):
        raise InputError(f"unknown preset{did_you_mean(str(name), known)}; known: {', '.join(known)}")
    return found
