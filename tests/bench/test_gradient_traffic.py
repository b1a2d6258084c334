"""Tests of the all-reduce benchmark."""

import pytest

from albertine.bench.gradients import measure_gradients
from albertine.bench.settings import GradientBenchSettings
from albertine.settings import MODEL_PRESETS


@pytest.mark.slow
def test_both_models_are_measured() -> None:
    albert, bert = measure_gradients(GradientBenchSettings(model=MODEL_PRESETS["demo"], processes=2, runs=2))
    assert albert.gradient_bytes < bert.gradient_bytes / 2
    # With two processes, each sends the size of the gradients.
    assert (albert.sent_bytes, bert.sent_bytes) == (albert.gradient_bytes, bert.gradient_bytes)
    assert 0 < albert.seconds < 5
