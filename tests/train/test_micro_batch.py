from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from albertine.corpus.settings import ObjectiveSettings
from albertine.model.cost import MASKED_FRACTION, activation_bytes
from albertine.settings import MODEL_PRESETS
from albertine.train.micro_batch import fitting_micro_batch_tokens, training_micro_batch_tokens
from albertine.train.settings import PretrainTrainSettings

GB = 10**9


@pytest.mark.parametrize(
    ("preset", "memory", "tokens"),
    [
        ("albertine-tiny", 80 * GB, 131_072),
        ("albert-base", 80 * GB, 65_536),
        ("albert-base", 24 * GB, 16_384),
        ("albert-xxlarge", 80 * GB, 16_384),
        ("albert-xxlarge", 24 * GB, 4_096),
    ],
)
def test_the_micro_batch_fits_the_memory_of_a_gpu(preset: str, memory: float, tokens: int) -> None:
    model = MODEL_PRESETS[preset]
    assert fitting_micro_batch_tokens(model, memory, "bf16", recompute=False) == tokens
    assert activation_bytes(model, tokens, "bf16", recompute=False) <= 0.4 * memory
    recomputed = fitting_micro_batch_tokens(model, memory, "bf16", recompute=True)
    assert recomputed >= min(131_072, 2 * tokens)


def test_causal_samples_need_memory_for_more_logits() -> None:
    model = replace(MODEL_PRESETS["albertine-tiny"], vocab_size=30_000)
    fraction = ObjectiveSettings(causal_fraction=0.25).micro_batch_fraction
    assert fraction > ObjectiveSettings(mlm_probability=0.3).micro_batch_fraction == MASKED_FRACTION
    masked, causal = (
        fitting_micro_batch_tokens(model, 24 * GB, "bf16", recompute=False, predicted_fraction=one)
        for one in (MASKED_FRACTION, fraction)
    )
    assert causal < masked


def test_a_tiny_gpu_gets_the_smallest_micro_batch() -> None:
    assert fitting_micro_batch_tokens(MODEL_PRESETS["bert-xlarge"], GB, "fp32", recompute=False) == 512


def test_settings_and_the_cpu_have_their_own_number() -> None:
    settings, model = PretrainTrainSettings(), MODEL_PRESETS["albert-base"]
    assert training_micro_batch_tokens(settings, model, torch.device("cpu")) == 4_096
    settings = replace(settings, micro_batch_tokens=1_000)
    assert training_micro_batch_tokens(settings, model, torch.device("cuda")) == 1_000


@pytest.mark.parametrize(("fraction", "micro_batch_tokens"), [(1.0, 16_384), (0.25, 4_096)])
def test_a_micro_batch_fits_into_the_memory_that_this_process_may_use(
    fraction: float, micro_batch_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda: fraction)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=24 * GB))
    tokens = training_micro_batch_tokens(
        PretrainTrainSettings(), MODEL_PRESETS["albert-base"], torch.device("cuda")
    )
    assert tokens == micro_batch_tokens
