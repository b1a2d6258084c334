"""Labels of texts that a model cannot learn, because no training example has them, or a single one."""

from collections import Counter
from collections.abc import Sequence

from albertine.display import display_text
from albertine.errors import InputError
from albertine.tasks.examples import Example
from albertine.tasks.label_spelling import is_number_of_name

_LISTED = 5


def rare_label_messages(
    train: Sequence[Example], dev: Sequence[Example], data: str, dev_data: str | None, *, header: bool
) -> list[str]:
    """Return messages about rare labels of texts; none if there are no such labels.

    Raises `InputError` if no example for evaluation has a label of a training example.

    Args:
        train: the training examples.
        dev: the examples for evaluation.
        data: name of the training data.
        dev_data: name of the data for evaluation; None if a part of the training data is held out.
        header: whether the first line of a table names its columns; otherwise it may be a label by mistake.
    """
    counts = Counter(label for example in train for label in example.label_names)
    only_in_dev = sorted({label for example in dev for label in example.label_names} - set(counts))
    single = sorted(label for label, count in counts.items() if count == 1)
    messages = []
    if only_in_dev and dev_data is None:
        messages.append(
            f"{data}: labels whose examples are all held out for evaluation, so that the model cannot learn "
            f"them: {_listed(only_in_dev)}; add examples, or give --dev"
        )
    elif only_in_dev and not any(counts.keys() & set(example.label_names) for example in dev):
        are_numbers = all(is_number_of_name(label, counts) for label in only_in_dev)
        advice = "write the names in place of numbers" if are_numbers else "fix the spelling"
        raise InputError(
            f"{dev_data}: no label of the training data, which has {_listed(sorted(counts))}; it has "
            f"{_listed(only_in_dev)}; {advice}"
        )
    elif only_in_dev:
        messages.append(
            f"{dev_data}: labels without a training example, so that the model cannot learn them: "
            f"{_listed(only_in_dev)}; add examples, or fix the spelling"
        )
    if single:
        messages.append(
            f"{data}: labels with a single training example: {_listed(single)}; add examples, join classes, "
            "or fix the spelling"
        )
    if not header and any(
        example.location.endswith(", line 1") and {*only_in_dev, *single}.intersection(example.label_names)
        for example in (*train, *dev)
    ):
        messages.append("if line 1 of the file names the columns, leave out --no-header")
    return messages


def _listed(labels: Sequence[str]) -> str:
    separator = "; " if any("," in label for label in labels[:_LISTED]) else ", "
    shown = separator.join(map(display_text, labels[:_LISTED]))
    return f"{shown} and {len(labels) - _LISTED:,} more" if len(labels) > _LISTED else shown
