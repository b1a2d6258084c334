"""Sizes of the demo that follow from the processor, so that it takes five to six minutes on two cores."""

from dataclasses import asdict, dataclass, replace

import torch

from albertine.demo.settings import DemoSettings
from albertine.device import has_amx, has_fast_bf16


@dataclass(frozen=True)
class DemoSize:
    """Width of the model and lengths of its runs; `DemoSettings` says what each is."""

    hidden_size: int
    pretraining_steps: int
    finetuning_steps: int


# By what the processor has. Without instructions for bf16, the demo computes in fp32.
_AMX, _FAST_BF16, _NEITHER = DemoSize(256, 800, 400), DemoSize(128, 800, 400), DemoSize(128, 600, 300)


def demo_size(settings: DemoSettings) -> DemoSize:
    """Return the sizes of the settings; those that are not set follow from the processor."""
    default = _AMX if has_amx() else _FAST_BF16 if has_fast_bf16(torch.device("cpu")) else _NEITHER
    return _size(settings, default)


def with_size(settings: DemoSettings, stored: DemoSettings | None) -> DemoSettings:
    """Return the settings with all sizes set.

    Args:
        settings: the settings of this call.
        stored: the settings of the demo in the folder; None if there is none. If another processor has
            begun it with the same options, they are returned.
    """
    choices = [replace(settings, **asdict(_size(settings, size))) for size in (_AMX, _FAST_BF16, _NEITHER)]
    return stored if stored in choices else replace(settings, **asdict(demo_size(settings)))


def _size(settings: DemoSettings, default: DemoSize) -> DemoSize:
    given = {name: getattr(settings, name) for name in asdict(default)}
    return replace(default, **{name: value for name, value in given.items() if value is not None})
