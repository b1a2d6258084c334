"""What processes say to each other a step, measured small."""

from albertine.bench.gradients import measure
from albertine.bench.settings import GradientBench
from albertine.settings import MODELS


def test_both_models_are_measured() -> None:
    ours, bert = measure(GradientBench(model=MODELS["demo"], processes=2, runs=2))
    assert ours.gradients < bert.gradients / 2
    # Between two processes each sends as much as there is.
    assert (ours.sent, bert.sent) == (ours.gradients, bert.gradients)
    assert 0 < ours.seconds < 5
