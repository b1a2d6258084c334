"""Labels that a model cannot learn, because no training example has them or a single one."""

from collections import Counter
from collections.abc import Sequence

from albertine.display import display_text
from albertine.tasks.examples import Example, MultiLabelExample, TextExample

_LISTED = 5


def rare_label_messages(
    train: Sequence[Example], dev: Sequence[Example], data: str, *, header: bool
) -> list[str]:
    """Return messages about rare labels of texts; none if there are no such labels.

    Args:
        train: the training examples.
        dev: the examples for evaluation.
        data: name of the data.
        header: whether the first line of a table names its columns; otherwise it may be a label by mistake.
    """
    counts = Counter(label for example in train for label in _labels(example))
    only_in_dev = sorted({label for example in dev for label in _labels(example)} - set(counts))
    single = sorted(label for label, count in counts.items() if count == 1)
    messages = []
    if only_in_dev:
        messages.append(
            f"{data}: no training example has the {_listed(only_in_dev)}, which the model then cannot learn; "
            "add examples, or fix the spelling"
        )
    if single:
        messages.append(
            f"{data}: only one training example has the {_listed(single)}; add examples, join classes, or "
            "fix the spelling"
        )
    if messages and not header:
        rare = {*only_in_dev, *single}
        first = next((one for one in (*train, *dev) if one.location.endswith(", line 1")), None)
        if first is not None and rare.intersection(_labels(first)):
            messages[-1] += "; if line 1 names the columns, leave out --no-header"
    return messages


def _labels(example: Example) -> Sequence[str]:
    if isinstance(example, MultiLabelExample):
        return example.labels or ()
    if isinstance(example, TextExample) and example.label is not None:
        return (example.label,)
    return ()


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(map(display_text, labels[:_LISTED]))
    others = f" and {len(labels) - _LISTED:,} others" if len(labels) > _LISTED else ""
    return f"label{'s' if len(labels) > 1 else ''} {shown}{others}"
