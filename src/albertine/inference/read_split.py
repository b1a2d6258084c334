"""Reads the examples of a split for a fine-tuned model."""

from collections.abc import Iterator

from albertine.inference.ensemble_model import TaskModel
from albertine.inference.finetuned_model import resolve_columns
from albertine.tasks.examples import Example
from albertine.tasks.formats.columns import KeepRequest
from albertine.tasks.reading import labeled_examples, no_examples_error, report_skipped
from albertine.tasks.settings import DataSettings
from albertine.tasks.task import (
    check_column_options,
    check_header_option,
    check_hub_split,
    check_split_option,
)
from albertine.text.read_errors import ReadErrors


def read_split(
    model: TaskModel,
    split_name: str,
    settings: DataSettings,
    *,
    require_labels: bool,
    keep: KeepRequest | None = None,
) -> Iterator[Example]:
    """Yield the examples of a split; raise `InputError` if there are none.

    Columns that the user did not name are those of the task card.

    Args:
        model: the model, whose task determines the format of the data.
        split_name: name of a split or of a part of one; not used for a table.
        settings: the data, and what to do with invalid rows.
        require_labels: whether every example must have a label.
        keep: columns of a table to keep in the examples.
    """
    assert settings.data is not None
    check_header_option(settings.data, settings, model.task)
    check_column_options(settings.data, settings, model.task)
    check_hub_split(settings.data, model.task)
    check_split_option(settings.data, settings, model.task)
    errors = ReadErrors(skip=settings.on_error == "skip")
    examples = model.task.read_examples(
        settings.data,
        split_name,
        resolve_columns(model.card, settings),
        errors,
        require_labels=require_labels,
        require_ids="id" in settings.explicit_keys,
        keep=keep,
    )
    if require_labels:
        no_labels_message = (
            f"{settings.data}: {split_name} of {model.card.task} has no labels; "
            "write predictions for it with albertine predict"
        )
        examples = labeled_examples(examples, errors, no_labels_message)
    count = 0
    for example in model.task_type.consistent_examples(examples, model.card.num_options, errors):
        count += 1
        yield example
    report_skipped(errors)
    if not count:
        raise no_examples_error(settings.data, split_name)
