"""Reads all examples of a split into a list, checks them and reports skipped rows."""

from collections.abc import Iterable, Iterator

from albertine import progress
from albertine.display import counted
from albertine.errors import InputError
from albertine.tasks.examples import Example
from albertine.tasks.formats.locations import is_folder
from albertine.tasks.settings import DataSettings
from albertine.tasks.task import Task, check_column_options, check_header_option, check_hub_split
from albertine.text.read_errors import ReadErrors


def load_examples(
    task: Task,
    data: str,
    split_name: str,
    settings: DataSettings,
    *,
    require_labels: bool,
    num_options: int | None = None,
) -> list[Example]:
    """Return the examples of a split, at least one.

    Args:
        task: the task.
        data: a folder, a file, or a data set of the hub.
        split_name: name of a split or of a part of one; not used for a table.
        settings: names of the columns, and what to do with invalid rows.
        require_labels: whether every example must have a label.
        num_options: number of options of each question; if None, that of the first question.
    """
    check_header_option(data, settings, task)
    check_column_options(data, settings, task)
    check_hub_split(data, task)
    errors = ReadErrors(skip=settings.on_error == "skip")
    examples_read = task.read_examples(
        data,
        split_name,
        settings,
        errors,
        require_labels=require_labels,
        require_ids=settings.id != DataSettings().id,  # the settings of a run give the default, too
    )
    if require_labels:
        advice = "training and evaluation need them"
        examples_read = labeled_examples(
            examples_read, errors, f"{data}: {split_name} has no labels; {advice}"
        )
    examples_read = task.task_type.consistent_examples(examples_read, num_options, errors)
    examples = list(progress.track(examples_read, f"Reading {split_name}", unit="examples"))
    report_skipped(errors, len(examples))
    if not examples:
        raise no_examples_error(data, split_name)
    return examples


def no_examples_error(data: str, split_name: str) -> InputError:
    """Return the error for data without examples; a file has no split to name."""
    return InputError(f"{data}: no examples" + (f" in {split_name}" if is_folder(data) else ""))


def labeled_examples(
    examples: Iterable[Example], errors: ReadErrors, no_labels_message: str
) -> Iterator[Example]:
    """Yield the labeled examples; the others are errors.

    Args:
        examples: all examples.
        errors: handles the examples without a label.
        no_labels_message: message of the `InputError` if there are examples, but none has a label.
    """
    locations: list[str] = []  # of the unlabeled examples that are not yet handled
    has_labels = False
    for example in examples:
        has_labels = has_labels or example.is_labeled
        if not example.is_labeled:
            locations.append(example.location)
        if has_labels:
            for location in locations:
                errors.handle(location, "has no label, which training and evaluation need")
            locations.clear()
        if example.is_labeled:
            yield example
    if locations:
        raise InputError(no_labels_message)


def report_skipped(errors: ReadErrors, num_examples: int | None = None) -> None:
    """Print how many rows were skipped, if any were, and how many examples are left, if it is known."""
    if errors.count:
        left = "" if num_examples is None else f", {counted(num_examples, 'example')} left"
        progress.print_message(f"skipped rows: {errors.count:,}{left}, the first at {errors.messages[0]}")
