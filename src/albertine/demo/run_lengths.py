"""Lengths of the demo's runs, which follow from the processor: five to six minutes on two cores."""

from dataclasses import asdict, dataclass, replace

import torch

from albertine.demo.settings import DemoSettings
from albertine.device import has_fast_bf16


@dataclass(frozen=True)
class RunLengths:
    """Steps of the runs; `DemoSettings` says what each is."""

    pretraining_steps: int
    finetuning_steps: int


# Without instructions for bf16, the demo computes in fp32.
_FAST_BF16, _FP32 = RunLengths(800, 400), RunLengths(600, 300)


def run_lengths(settings: DemoSettings) -> RunLengths:
    """Return the lengths of the settings; those that are not set follow from the processor."""
    return _lengths(settings, _FAST_BF16 if has_fast_bf16(torch.device("cpu")) else _FP32)


def with_run_lengths(settings: DemoSettings, stored: DemoSettings | None) -> DemoSettings:
    """Return the settings with all lengths set.

    Args:
        settings: the settings of this call.
        stored: the settings of the demo in the folder; None if there is none. If another processor has
            begun it with the same options, they are returned.
    """
    choices = [replace(settings, **asdict(_lengths(settings, default))) for default in (_FAST_BF16, _FP32)]
    return stored if stored in choices else replace(settings, **asdict(run_lengths(settings)))


def _lengths(settings: DemoSettings, default: RunLengths) -> RunLengths:
    given = {name: getattr(settings, name) for name in asdict(default)}
    return replace(default, **{name: value for name, value in given.items() if value is not None})
