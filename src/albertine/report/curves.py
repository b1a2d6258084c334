"""Learning curves out of journals: one run, or several over the same tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albertine.pretrain.unigram import without_context
from albertine.report.charts import Axes, Level, Line, Point, line_chart
from albertine.tasks.metrics import headline
from albertine.train.journal import read_journal

_HELD_OUT = "held_out_"
_POINTS = 200  # a curve is drawn as so many means


@dataclass(frozen=True)
class Learner:
    """A run with its name and the number of its colour."""

    name: str
    run: Path
    tone: int

    def lines(self) -> list[dict[str, Any]]:
        """Return its journal."""
        return read_journal(self.run)


def learning(learners: Sequence[Learner]) -> list[str]:
    """Draw how pre-training went on held-out text: the masked pieces, and the pairs."""
    masked, pairs, unigram = [], [], None
    for learner in learners:
        lines = learner.lines()
        masked.append(Line(learner.name, _measured(lines, "mlm_loss"), learner.tone))
        right = [(tokens, 100 * share) for tokens, share in _measured(lines, "pair_accuracy")]
        pairs.append(Line(learner.name, right, learner.tone))
        unigram = next((line["mlm_unigram_loss"] for line in lines if "mlm_unigram_loss" in line), unigram)
    levels = []
    if unigram is not None:
        levels = [Level("piece frequencies alone", unigram), Level("no context", without_context(unigram))]
    return [
        line_chart("Hidden pieces", Axes("tokens seen", "loss (nats, lower is better)"), masked, levels),
        line_chart(
            "Order of two segments", Axes("tokens seen", "right (%)", 40, 100), pairs, [Level("a coin", 50)]
        ),
    ]


def tuning(run: Path, task: str) -> list[str]:
    """Draw how tuning on a task went: the loss in training, and the score on dev."""
    lines = read_journal(run)
    losses = [(line["step"], line["loss"]) for line in lines if line.get("loss") is not None]
    measured = [(line["step"], _held_out(line)) for line in lines]
    scores = [(step, 100 * headline(task, found)) for step, found in measured if found]
    return [
        line_chart("Loss in training", Axes("step", "loss (nats)", 0), [Line("", _thinned(losses), 1)]),
        line_chart("Score on dev", Axes("step", "score (%)"), [Line("", scores, 1, dots=True)]),
    ]


def _measured(lines: Sequence[dict[str, Any]], name: str) -> list[Point]:
    """Return (tokens, value) of a score: on held-out text, or in training where there is none."""
    tokens = {line["step"]: line["tokens"] for line in lines if "tokens" in line} | {0: 0}
    key = f"{_HELD_OUT}{name}"
    found = [(tokens[line["step"]], line[key]) for line in lines if key in line and line["step"] in tokens]
    if found:
        return found
    return _thinned([(line["tokens"], line[name]) for line in lines if line.get(name) is not None])


def _held_out(line: dict[str, Any]) -> dict[str, float]:
    """Return the scores of an evaluation."""
    return {name.removeprefix(_HELD_OUT): value for name, value in line.items() if name.startswith(_HELD_OUT)}


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Return means of stretches, where there are many points."""
    size = max(1, len(points) // _POINTS)
    stretches = [points[at : at + size] for at in range(0, len(points), size)]
    return [(sum(x for x, _ in one) / len(one), sum(y for _, y in one) / len(one)) for one in stretches]
