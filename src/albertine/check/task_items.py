"""Reads the data of a task as fine-tuning does, as items to check."""

from collections.abc import Iterator, Sequence
from typing import Literal

from albertine.check.findings import DataItem
from albertine.check.reading import DataErrors, until_damaged
from albertine.check.settings import CheckSettings
from albertine.errors import InputError
from albertine.tasks.examples import Example
from albertine.tasks.reading import labeled_examples
from albertine.tasks.settings import DataSettings
from albertine.tasks.task import Task, check_column_options, check_header_option, check_hub_split


def task_items(
    sources: Sequence[str], task: Task, settings: CheckSettings, errors: DataErrors
) -> Iterator[DataItem]:
    """Yield the examples of a task, those of dev last; a folder in the official layout has both.

    Args:
        sources: files, folders in the official layout, or data sets of the hub.
        task: the task.
        settings: the columns and the dev file.
        errors: counts what cannot be read, and examples without the right answer.
    """
    if not sources:
        raise InputError(f"--task {task.name}: no data; name a file or a folder")
    for source in sources:
        yield from _split_items(task, source, "train", settings, errors)
    for source in [settings.dev] if settings.dev else filter(task.has_dev_split, sources):
        yield from _split_items(task, source, "dev", settings, errors)


def _split_items(
    task: Task, source: str, split: Literal["train", "dev"], settings: CheckSettings, errors: DataErrors
) -> Iterator[DataItem]:
    columns = _data_settings(settings)
    check_header_option(source, columns, task)
    check_column_options(source, columns, task)
    check_hub_split(source, task)
    for name in task.split_names(split, source):
        examples = task.read_examples(source, name, columns, errors, require_labels=True)
        examples = labeled_examples(
            examples, errors, f"{source}: {name} has no labels; fine-tuning needs them"
        )
        yield from (_item(example, task, split) for example in until_damaged(examples, source, errors))


def _data_settings(settings: CheckSettings) -> DataSettings:
    """Return the columns as settings of fine-tuning; what is not given has its default there."""
    given = {key: getattr(settings, key) for key in settings.explicit_keys & vars(DataSettings()).keys()}
    return DataSettings(**given).with_explicit_keys(given)


def _item(example: Example, task: Task, split: Literal["train", "dev"]) -> DataItem:
    task_type = task.task_type
    num_texts = len(example.all_texts) - (example.num_options or 0)
    texts, options = example.all_texts[:num_texts], example.all_texts[num_texts:]
    if task_type.has_labels and task_type.scores_per_token:  # the texts are words
        texts = (" ".join(texts),)
    return DataItem(
        example.location,
        tuple(filter(None, texts)) if options else texts,  # passage and question may be missing
        example.right_answers,
        split,
        has_label=task_type.has_labels or task_type.predicts_numbers,
        is_multi_label=task_type.targets_are_label_sets or task_type.scores_per_token,
        are_tags=task_type.scores_per_token,
        options=options,
        passage=example.passage,
    )
