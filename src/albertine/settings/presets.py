"""Presets: the models of the ALBERT paper's Table 1, and three for machines without a GPU.

The presets `albertine-*` have the same sizes, pre-norm and rotary positions, and train otherwise
than the paper. See docs/learning.md.

The BERT presets share no parameters and have E = H. As in the paper, the published models have
H/64 heads and an FFN width of 4H. All of them have a vocabulary of 30,000 tokens, so that their
parameter counts are comparable. BERT has dropout 0.1, ALBERT none, like the paper's final models.
"""

from collections.abc import Mapping
from dataclasses import replace
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


_PUBLISHED = {
    "bert-base": _bert(768, 12),
    "bert-large": _bert(1024, 24),
    "bert-xlarge": _bert(2048, 24),
    "albert-base": _albert(768, 12),
    "albert-large": _albert(1024, 24),
    "albert-xlarge": _albert(2048, 24),
    "albert-xxlarge": _albert(4096, 12),
    # On two CPU cores these three pre-train in an evening, an hour and minutes.
    "albert-small": ModelSettings(hidden_size=512, layers=8, heads=8),
    "albert-tiny": ModelSettings(hidden_size=256, layers=6, heads=4, vocab_size=8_000),
    "demo": ModelSettings(
        hidden_size=128, layers=4, heads=4, embedding_size=64, vocab_size=2_000, max_length=128
    ),
}

_FAMILY = "albertine-"
_OWN = {
    name.replace("albert-", _FAMILY): replace(model, norm_first=True, rotary=True)
    for name, model in _PUBLISHED.items()
    if name.startswith("albert-")
}
MODEL_PRESETS: Mapping[str, ModelSettings] = MappingProxyType(
    {name: model.with_explicit_keys({"preset"}) for name, model in (_PUBLISHED | _OWN).items()}
)

# Settings beside those of the model, which the presets of the family set if nothing else does.
_FAMILY_TRAINING: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "objective": MappingProxyType({"mlm_probability": 0.3}),
        "curriculum": MappingProxyType({"depth": "grow"}),
    }
)

_PRESETS: Mapping[type[Settings], Mapping[str, Settings]] = {ModelSettings: MODEL_PRESETS}


def has_presets(settings_class: type[Settings]) -> bool:
    """Return whether a settings class has presets."""
    return settings_class in _PRESETS


def find_preset(settings_class: type[S], name: object) -> S:
    """Return a preset of a settings class by name."""
    if not has_presets(settings_class):
        raise InputError("this table has no presets; remove the key")
    presets = _PRESETS[settings_class]
    preset = presets.get(name) if isinstance(name, str) else None
    if not isinstance(preset, settings_class):
        raise InputError(f"unknown preset{did_you_mean(str(name), presets)}; known: {', '.join(presets)}")
    return preset


def training_of_preset(name: str) -> Mapping[str, Mapping[str, object]]:
    """Return what a preset of the model sets in other tables, where they exist; by table and key."""
    return _FAMILY_TRAINING if name.startswith(_FAMILY) else {}
