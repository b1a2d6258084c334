"""The paper's settings for each task (its Table 14), and what they mean for less data and smaller models.

Steps: the paper's, for data of the paper's size. With less data a run makes as many passes
as the paper's did, but takes at least as many examples as its runs on MRPC and RTE,
and makes at most as many passes as its run on WNLI. Where that would be fewer steps
than the 800 on MRPC and RTE, batches of more than 16 are halved.

Rate: the paper's, for its batch and for models of its widths. It falls with the square
root of a smaller batch. Narrower models, which a person without a GPU trains, want a
higher one, within bounds: it grows as the width falls.
"""

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from albertine.settings import ModelSettings
from albertine.tasks.settings import FinetuneSettings

S = TypeVar("S", bound=FinetuneSettings)

_LEAST_STEPS, _LEAST_BATCH = 800, 16
_LEAST_EXAMPLES = _LEAST_STEPS * 32
_MOST_PASSES = 2000 * 16 / 635
_PAPERS_LEAST_WIDTH = 768
_HIGHEST_RATE = 5e-4


@dataclass(frozen=True)
class Row:
    """A row of the table; `examples` are those of the task's train, by which steps are passes."""

    lr: float
    batch: int
    dropout: float
    steps: int
    warmup: int
    max_length: int
    examples: int

    def steps_for(self, examples: int, batch: int) -> int:
        """Return the steps for so many examples, or samples of long passages."""
        return max(1, round(self._taken(examples) / batch))

    def batch_for(self, examples: int) -> int:
        """Return the batch for so many."""
        batch = self.batch
        while batch >= 2 * _LEAST_BATCH and self.steps_for(examples, batch) < _LEAST_STEPS:
            batch //= 2
        return batch

    def _taken(self, examples: int) -> float:
        """Return how many examples a run takes, over all its passes."""
        papers = self.steps * self.batch
        if examples >= self.examples:
            return papers
        passes = papers / self.examples
        wanted = min(max(passes * examples, _LEAST_EXAMPLES), max(_MOST_PASSES, passes) * examples)
        return min(wanted, papers)


TABLE = {
    "cola": Row(1e-5, 16, 0.0, 5336, 320, 512, 8_551),
    "sts-b": Row(2e-5, 16, 0.0, 3598, 214, 512, 5_749),
    "sst-2": Row(1e-5, 32, 0.0, 20935, 1256, 512, 67_349),
    "mnli": Row(3e-5, 128, 0.0, 10000, 1000, 512, 392_702),
    "qnli": Row(1e-5, 32, 0.0, 33112, 1986, 512, 104_743),
    "qqp": Row(5e-5, 128, 0.1, 14000, 1000, 512, 363_849),
    "rte": Row(3e-5, 32, 0.1, 800, 200, 512, 2_490),
    "mrpc": Row(2e-5, 32, 0.0, 800, 200, 512, 3_668),
    "wnli": Row(2e-5, 16, 0.1, 2000, 250, 512, 635),
    "squad-1.1": Row(5e-5, 48, 0.0, 3649, 365, 384, 87_599),
    "squad-2.0": Row(3e-5, 48, 0.0, 8144, 814, 512, 130_319),
    "race": Row(2e-5, 32, 0.1, 12000, 1000, 512, 87_866),
}
_V2 = {"race": replace(TABLE["race"], lr=1e-5, dropout=0.0)}
# What is not in the table goes by what is most like it.
_LIKE = {"classify": "sst-2", "regress": "sts-b", "tag": "sst-2", "span": "squad-1.1", "choice": "race"}
_LIKE |= {"dream": "race"}
_CLASSIFIER_DROPOUT = 0.1


def row_for(task: str, *, v2: bool = False) -> Row:
    """Return the row of a task."""
    name = _LIKE.get(task, task)
    return _V2.get(name, TABLE[name]) if v2 else TABLE[name]


def rate_for(row: Row, width: int, batch: int) -> float:
    """Return the rate for a model's width, and for a batch."""
    narrow = max(1.0, _PAPERS_LEAST_WIDTH / width) ** 2
    smaller = math.sqrt(min(1.0, batch / row.batch))
    return float(f"{min(row.lr * smaller * narrow, _HIGHEST_RATE):.3g}")


def settled(settings: S, task: str, model: ModelSettings, samples: int, longest: int) -> S:
    """Settle what was left open.

    Args:
        settings: what was asked.
        task: the task's name.
        model: the network.
        samples: how many there are to learn from.
        longest: the longest sequence, settled already.
    """
    row, train = row_for(task, v2=settings.v2), settings.train
    batch = train.batch or (row.batch if train.steps else row.batch_for(samples))
    steps = train.steps or row.steps_for(samples, batch)
    warmup = min(steps, round(steps * row.warmup / row.steps)) if train.warmup is None else train.warmup
    tuned = replace(
        train,
        batch=batch,
        steps=steps,
        warmup=warmup,
        lr=rate_for(row, model.hidden_size, batch) if train.lr is None else train.lr,
        evaluate_every=train.evaluate_every or max(1, steps // 10),
    )
    return replace(
        settings,
        dropout=row.dropout if settings.dropout is None else settings.dropout,
        classifier_dropout=(
            _CLASSIFIER_DROPOUT if settings.classifier_dropout is None else settings.classifier_dropout
        ),
        reading=replace(settings.reading, max_length=longest),
        train=tuned,
    )
