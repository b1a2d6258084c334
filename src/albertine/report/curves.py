"""Learning curves out of journals: one run, or several over the same tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from albertine.pretrain.unigram import without_context
from albertine.report.charts import Axes, Level, Line, line_chart
from albertine.tasks.metrics import headline
from albertine.train import journal
from albertine.train.journal import HELD_OUT, Point, held_out_scores, points, read_journal, thinned

_POINTS = 200  # a curve is drawn as so many means
_PAIRS = {"sop": "Order of two segments", "nsp": "Whether two segments belong together"}


@dataclass(frozen=True)
class Learner:
    """A run with its name and the number of its colour."""

    name: str
    run: Path
    tone: int

    def lines(self) -> list[journal.Line]:
        """Return its journal."""
        return read_journal(self.run)


def learning(learners: Sequence[Learner], pair: str) -> list[str]:
    """Draw how pre-training went on held-out text: the masked pieces, and the pairs if there were any."""
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
    drawn = [line_chart("Hidden pieces", Axes("tokens seen", "loss (nats, lower is better)"), masked, levels)]
    if pair in _PAIRS:
        axes = Axes("tokens seen", "right (%)", 40, 100)
        drawn.append(line_chart(_PAIRS[pair], axes, pairs, [Level("a coin", 50)]))
    return drawn


def tuning(run: Path, task: str) -> list[str]:
    """Draw how tuning on a task went: the loss in training, and the score on dev."""
    lines = read_journal(run)
    measured = [(line["step"], held_out_scores(line)) for line in lines]
    scores = [(step, 100 * headline(task, found)) for step, found in measured if found]
    losses = thinned(points(lines, "loss"), _POINTS)
    return [
        line_chart("Loss in training", Axes("step", "loss", 0), [Line("", losses, 1)]),
        line_chart("Score on dev", Axes("step", "score (%)"), [Line("", scores, 1, dots=True)]),
    ]


def _measured(lines: Sequence[journal.Line], name: str) -> list[Point]:
    """Return (tokens, value) of a score: on held-out text, or in training where there is none."""
    tokens = dict(points(lines, "tokens")) | {0: 0}
    found = [(tokens[at], value) for at, value in points(lines, f"{HELD_OUT}{name}") if at in tokens]
    return found or thinned(points(lines, name, over="tokens"), _POINTS)
