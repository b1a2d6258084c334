"""Tests of the all-reduce benchmark."""

from albertine.bench.gradients import measure_gradients
from albertine.bench.settings import GradientBenchSettings
from albertine.settings import MODEL_PRESETS


def test_both_models_are_measured() -> None:
    ours, bert = measure_gradients(GradientBenchSettings(model=MODEL_PRESETS["demo"], processes=2, runs=2))
    assert ours.gradient_bytes < bert.gradient_bytes / 2
    # With two processes, each sends the size of the gradients.
    assert (ours.sent_bytes, bert.sent_bytes) == (ours.gradient_bytes, bert.gradient_bytes)
    assert 0 < ours.seconds < 5
