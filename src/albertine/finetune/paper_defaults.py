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

_MIN_STEPS, _MIN_BATCH_SIZE = 800, 16
_MIN_EXAMPLES_SEEN = _MIN_STEPS * 32
_MAX_EPOCHS = 2000 * 16 / 635
_PAPER_MIN_WIDTH = 768
_MAX_LEARNING_RATE = 5e-4


@dataclass(frozen=True)
class TaskDefaults:
    """A row of the table; `num_train_examples` are those of the task's train, by which steps are passes."""

    lr: float
    batch_size: int
    dropout: float
    steps: int
    warmup: int
    max_length: int
    num_train_examples: int

    def scaled_steps(self, examples: int, batch_size: int) -> int:
        """Return the steps for so many examples, or samples of long passages."""
        return max(1, round(self._examples_seen(examples) / batch_size))

    def scaled_batch_size(self, examples: int) -> int:
        """Return the batch for so many."""
        batch = self.batch_size
        while batch >= 2 * _MIN_BATCH_SIZE and self.scaled_steps(examples, batch) < _MIN_STEPS:
            batch //= 2
        return batch

    def _examples_seen(self, examples: int) -> float:
        """Return how many examples a run takes, over all its passes."""
        paper_examples_seen = self.steps * self.batch_size
        if examples >= self.num_train_examples:
            return paper_examples_seen
        epochs = paper_examples_seen / self.num_train_examples
        wanted = min(max(epochs * examples, _MIN_EXAMPLES_SEEN), max(_MAX_EPOCHS, epochs) * examples)
        return min(wanted, paper_examples_seen)


TABLE_14 = {
    "cola": TaskDefaults(1e-5, 16, 0.0, 5336, 320, 512, 8_551),
    "sts-b": TaskDefaults(2e-5, 16, 0.0, 3598, 214, 512, 5_749),
    "sst-2": TaskDefaults(1e-5, 32, 0.0, 20935, 1256, 512, 67_349),
    "mnli": TaskDefaults(3e-5, 128, 0.0, 10000, 1000, 512, 392_702),
    "qnli": TaskDefaults(1e-5, 32, 0.0, 33112, 1986, 512, 104_743),
    "qqp": TaskDefaults(5e-5, 128, 0.1, 14000, 1000, 512, 363_849),
    "rte": TaskDefaults(3e-5, 32, 0.1, 800, 200, 512, 2_490),
    "mrpc": TaskDefaults(2e-5, 32, 0.0, 800, 200, 512, 3_668),
    "wnli": TaskDefaults(2e-5, 16, 0.1, 2000, 250, 512, 635),
    "squad-1.1": TaskDefaults(5e-5, 48, 0.0, 3649, 365, 384, 87_599),
    "squad-2.0": TaskDefaults(3e-5, 48, 0.0, 8144, 814, 512, 130_319),
    "race": TaskDefaults(2e-5, 32, 0.1, 12000, 1000, 512, 87_866),
}
_ALBERT_V2 = {"race": replace(TABLE_14["race"], lr=1e-5, dropout=0.0)}
# What is not in the table goes by what is most like it.
_SIMILAR_TASK = {
    "classify": "sst-2",
    "regress": "sts-b",
    "tag": "sst-2",
    "span": "squad-1.1",
    "choice": "race",
}
_SIMILAR_TASK |= {"dream": "race"}
_CLASSIFIER_DROPOUT = 0.1


def task_defaults(task: str, *, albert_v2: bool = False) -> TaskDefaults:
    """Return the row of a task."""
    name = _SIMILAR_TASK.get(task, task)
    return _ALBERT_V2.get(name, TABLE_14[name]) if albert_v2 else TABLE_14[name]


def scaled_learning_rate(defaults: TaskDefaults, width: int, batch_size: int) -> float:
    """Return the rate for a model's width, and for a batch."""
    narrow = max(1.0, _PAPER_MIN_WIDTH / width) ** 2
    smaller = math.sqrt(min(1.0, batch_size / defaults.batch_size))
    return float(f"{min(defaults.lr * smaller * narrow, _MAX_LEARNING_RATE):.3g}")


def with_task_defaults(
    settings: S, task: str, model_settings: ModelSettings, num_samples: int, max_length: int
) -> S:
    """Settle what was left open.

    Args:
        settings: what was asked.
        task: the task's name.
        model_settings: the network.
        num_samples: how many there are to learn from.
        max_length: the longest sequence, settled already.
    """
    defaults, train = task_defaults(task, albert_v2=settings.albert_v2), settings.train
    batch = train.batch_size or (
        defaults.batch_size if train.steps else defaults.scaled_batch_size(num_samples)
    )
    steps = train.steps or defaults.scaled_steps(num_samples, batch)
    warmup = (
        min(steps, round(steps * defaults.warmup / defaults.steps)) if train.warmup is None else train.warmup
    )
    train_settings = replace(
        train,
        batch_size=batch,
        steps=steps,
        warmup=warmup,
        lr=scaled_learning_rate(defaults, model_settings.hidden_size, batch)
        if train.lr is None
        else train.lr,
        evaluate_every=train.evaluate_every or max(1, steps // 10),
    )
    return replace(
        settings,
        dropout=defaults.dropout if settings.dropout is None else settings.dropout,
        classifier_dropout=(
            _CLASSIFIER_DROPOUT if settings.classifier_dropout is None else settings.classifier_dropout
        ),
        sequence=replace(settings.sequence, max_length=max_length),
        train=train_settings,
    )
