"""Reads the training examples and those for evaluation, of which some are held out if there is no dev."""

from albertine import progress
from albertine.display import counted
from albertine.errors import InputError
from albertine.finetune.held_out_examples import (
    count_repeated,
    count_shared,
    count_shared_passages,
    hold_out,
)
from albertine.finetune.settings import FinetuneSettings
from albertine.tasks.examples import Example
from albertine.tasks.reading import load_examples
from albertine.tasks.task import Task

_MIN_HELD_OUT_TEXTS = 5


def train_and_dev_examples(task: Task, settings: FinetuneSettings) -> tuple[list[Example], list[Example]]:
    """Return the training examples and the evaluation examples; hold some out if there is no dev."""
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, a file, or hub:OWNER/NAME")
    dev_split = task.split_names("dev", settings.dev or settings.data)[0]
    train = load_examples(task, settings.data, "train", settings, require_labels=True)
    dev = evaluation_data(task, settings)
    if dev is not None and settings.dev is None and settings.held_out != FinetuneSettings().held_out:
        raise InputError(f"{settings.data}: has its own dev, so --held-out is not used; leave it out")
    if dev is not None:
        dev_examples = load_examples(
            task, dev, dev_split, settings, require_labels=True, num_options=train[0].num_options
        )
        if shared := count_shared(train, dev_examples):
            progress.print_message(
                f"{dev}: {shared:,} of {len(dev_examples):,} examples for evaluation have texts that are "
                "also in the training data, which raises the score; in data of your own, remove them"
            )
        return train, dev_examples
    rest, held_out = hold_out(train, settings.held_out, settings.train.seed, settings.data)
    message = f"{settings.data}: {len(held_out):,} of {len(train):,} examples held out for evaluation"
    if repeated := count_repeated(train):
        message += f"; of all, {repeated:,} repeat the text of an earlier one, and equal texts stay together"
    if shared := count_shared_passages(rest, held_out):
        message += (
            f"; {shared:,} are about passages that are also in the training data, which raises the score"
        )
    progress.print_message(message)
    if (texts := len({example.all_texts for example in held_out})) < min(_MIN_HELD_OUT_TEXTS, len(held_out)):
        progress.print_message(
            f"{settings.data}: what is held out has only {counted(texts, 'different text')}, so its scores "
            "say little; give --dev with more of them"
        )
    return rest, held_out


def evaluation_data(task: Task, settings: FinetuneSettings) -> str | None:
    """Return the data for evaluation; None if a part of the training data is held out."""
    assert settings.data is not None
    return settings.dev or (settings.data if task.has_dev_split(settings.data) else None)
