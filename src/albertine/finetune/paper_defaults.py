"""The paper's hyperparameters for each task (its Table 14), scaled to less data and smaller models.

Steps: the paper's, if there is as much data as the paper had. With less data, a run makes as many
epochs as the paper's, within two limits: it takes at least as many examples as the paper's runs
on MRPC and RTE, and makes at most as many epochs as the run on WNLI. If that gives fewer steps than
the 800 of MRPC and RTE, the batch size is halved until there are 800, but not below 16.

Learning rate: the paper's, for its batch size and for models at least as wide as its smallest. For
a smaller batch size it is multiplied by the square root of the ratio of the sizes.

Optimizer and schedule: those of the code that the paper was measured with, `bert-adam` and
`linear-from-start`. See docs/decisions/google-schedule-and-adam.md.

A narrower model, small enough to train without a GPU, takes `muon` and `linear`. The rate of Muon
is the same for all tasks, and falls with the square root of a batch size below 32. With another
optimizer, a narrower model needs a higher rate than the paper's: it grows with the inverse square
of the width, up to a limit. See docs/decisions/fine-tuning-rate.md.
"""

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from albertine.display import counted
from albertine.errors import InputError
from albertine.finetune.settings import FinetuneSettings
from albertine.settings import ModelSettings
from albertine.tasks.registry import find_task
from albertine.train.duration import check_has_steps
from albertine.train.settings import OptimizerName

S = TypeVar("S", bound=FinetuneSettings)

_MIN_STEPS, _MIN_BATCH_SIZE = 800, 16
_MIN_EXAMPLES_SEEN = _MIN_STEPS * 32  # as for MRPC and RTE
_MAX_EPOCHS = 2000 * 16 / 635  # as for WNLI
PAPER_MIN_WIDTH = 768
_MAX_LEARNING_RATE = 5e-4
_MUON_RATE, _MUON_BATCH_SIZE = 2e-3, 32
_EXCESSIVE_RATE = 10  # times the default


@dataclass(frozen=True)
class TaskDefaults:
    """A row of Table 14, and the size of the task's training split, from which epochs are computed."""

    lr: float
    batch_size: int
    dropout: float
    steps: int
    warmup: int
    max_length: int
    num_train_examples: int

    def scaled_steps(self, examples: int, batch_size: int) -> int:
        """Return the number of steps for a number of training samples and a batch size."""
        return max(1, round(self._examples_seen(examples) / batch_size))

    def scaled_batch_size(self, examples: int) -> int:
        """Return the batch size for a number of training samples."""
        batch_size = self.batch_size
        while batch_size >= 2 * _MIN_BATCH_SIZE and self.scaled_steps(examples, batch_size) < _MIN_STEPS:
            batch_size //= 2
        return batch_size

    def _examples_seen(self, examples: int) -> float:
        """Return the number of examples that a run takes, counted again in each epoch."""
        paper_examples_seen = self.steps * self.batch_size
        if examples >= self.num_train_examples:
            return paper_examples_seen
        epochs = paper_examples_seen / self.num_train_examples
        examples_seen = min(max(epochs * examples, _MIN_EXAMPLES_SEEN), max(_MAX_EPOCHS, epochs) * examples)
        return min(examples_seen, paper_examples_seen)


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
_CLASSIFIER_DROPOUT = 0.1


def task_defaults(task: str, *, albert_v2: bool = False) -> TaskDefaults:
    """Return the row of a task, or for a task that is not in the table, of the most similar one."""
    known_task = find_task(task)
    name = (
        known_task.name
        if known_task.name in TABLE_14
        else known_task.similar_task or known_task.task_type.similar_task
    )
    return _ALBERT_V2.get(name, TABLE_14[name]) if albert_v2 else TABLE_14[name]


def scaled_learning_rate(
    defaults: TaskDefaults, width: int, batch_size: int, optimizer: OptimizerName
) -> float:
    """Return the learning rate for a model's width, a batch size and an optimizer."""
    if optimizer == "muon" and width < PAPER_MIN_WIDTH:
        rate = _MUON_RATE * math.sqrt(min(1.0, batch_size / _MUON_BATCH_SIZE))
    else:
        width_factor = max(1.0, PAPER_MIN_WIDTH / width) ** 2
        batch_factor = math.sqrt(min(1.0, batch_size / defaults.batch_size))
        rate = min(defaults.lr * batch_factor * width_factor, _MAX_LEARNING_RATE)
    return float(f"{rate:.3g}")


def default_optimizer(width: int) -> OptimizerName:
    """Return the optimizer for a model's width."""
    return "bert-adam" if width >= PAPER_MIN_WIDTH else "muon"


def classifier_dropout(settings: FinetuneSettings) -> float:
    """Return the dropout before the last layer, the same for all tasks unless set."""
    return _CLASSIFIER_DROPOUT if settings.classifier_dropout is None else settings.classifier_dropout


def selecting_metric(settings: FinetuneSettings, task: str) -> str | None:
    """Return the metric that selects the best model; None for that of the task.

    With balanced weights all labels count the same, which accuracy would undo: where one label is frequent,
    a model that always predicts it can have the highest. The tasks of a benchmark keep their own metric.
    """
    if settings.metric is None and settings.train.class_weights == "balanced":
        known = find_task(task)
        return None if known.is_official else known.task_type.balanced_metric
    return settings.metric


def learning_rate_warning(settings: FinetuneSettings, task: str, model_settings: ModelSettings) -> str | None:
    """Return a warning if the learning rate is far above the default, else None.

    Args:
        settings: settings without unset values; see `with_task_defaults`.
        task: name of the task.
        model_settings: settings of the encoder.
    """
    lr, batch_size, optimizer = settings.train.lr, settings.train.batch_size, settings.train.optimizer
    assert lr is not None
    assert batch_size is not None
    assert optimizer is not None
    defaults = task_defaults(task, albert_v2=settings.albert_v2)
    usual = scaled_learning_rate(defaults, model_settings.hidden_size, batch_size, optimizer)
    # For Muon and the widths of the paper, no rate is known: the paper's are for Adam's updates.
    is_unknown = optimizer == "muon" and model_settings.hidden_size >= PAPER_MIN_WIDTH
    if is_unknown or lr < _EXCESSIVE_RATE * usual:
        return None
    return f"the learning rate {lr:g} is {lr / usual:,.0f} times the usual {usual:g}; lower --train.lr"


def with_task_defaults(
    settings: S, task: str, model_settings: ModelSettings, num_samples: int, max_length: int
) -> S:
    """Return settings in which unset hyperparameters have the values for the task.

    Args:
        settings: the user's settings.
        task: name of the task.
        model_settings: settings of the encoder, as `prepare_task` returns them.
        num_samples: number of training samples.
        max_length: maximum tokens of a sequence.
    """
    defaults, train = task_defaults(task, albert_v2=settings.albert_v2), settings.train
    check_has_steps(train)
    batch_size = train.batch_size or (
        defaults.batch_size if train.steps else defaults.scaled_batch_size(num_samples)
    )
    steps = train.steps or defaults.scaled_steps(num_samples, batch_size)
    if not train.steps and (train.warmup or 0) > steps:
        raise InputError(
            f"--train.warmup {train.warmup}: longer than {counted(steps, 'step')}, the default for this task "
            "and data; give --train.steps, or a shorter one"
        )
    warmup = (
        min(steps, round(steps * defaults.warmup / defaults.steps)) if train.warmup is None else train.warmup
    )
    width = model_settings.hidden_size
    has_paper_width = width >= PAPER_MIN_WIDTH
    optimizer = train.optimizer or default_optimizer(width)
    train_settings = replace(
        train,
        optimizer=optimizer,
        schedule=train.schedule or ("linear-from-start" if has_paper_width else "linear"),
        batch_size=batch_size,
        steps=steps,
        warmup=warmup,
        lr=scaled_learning_rate(defaults, width, batch_size, optimizer) if train.lr is None else train.lr,
        evaluate_every=train.evaluate_every or max(1, steps // 10),
    )
    return replace(
        settings,
        dropout=defaults.dropout if settings.dropout is None else settings.dropout,
        classifier_dropout=classifier_dropout(settings),
        mark_matches=model_settings.mark_matches,
        metric=selecting_metric(settings, task),
        sequence=replace(settings.sequence, max_length=max_length),
        train=train_settings,
    )
