"""The nine tasks of GLUE in their official layouts, and the files that its server takes.

A table says of each task which columns hold its texts and its label. Of a task's folder
train, dev and test are read; MNLI has two of each but train, of which the first, whose
genres are those of train, decides. The hub's `nyu-mll/glue` has the same tasks under
columns of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.settings.schema import display_text
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.custom import parse_number
from albertine.tasks.formats.tables import RowError, TableRow, read_rows, read_table
from albertine.text.documents import ReadErrors
from albertine.text.hub_datasets import HUB_PREFIX, class_names

_BINARY_LABELS = ("0", "1")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")


@dataclass(frozen=True)
class GlueTask:
    """One task.

    Attributes:
        folder: as the benchmark names it.
        text_columns: columns of the texts.
        label_column: column of the label.
        labels: all there are; none for a number.
        metric_names: what it is measured by; the first decides which checkpoint is best.
        hub_text_columns: columns of the texts on the hub.
        header: the columns of train and dev, where the files name none.
    """

    folder: str
    text_columns: tuple[str, ...]
    label_column: str
    labels: tuple[str, ...]
    metric_names: tuple[str, ...]
    hub_text_columns: tuple[str, ...]
    header: tuple[str, ...] = ()


GLUE: Mapping[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA", ("sentence",), "label", _BINARY_LABELS, ("matthews", "accuracy"), ("sentence",),
        header=("source", "label", "mark", "sentence"),
    ),
    "sst-2": GlueTask("SST-2", ("sentence",), "label", _BINARY_LABELS, ("accuracy",), ("sentence",)),
    "mrpc": GlueTask(
        "MRPC", ("#1 String", "#2 String"), "Quality", _BINARY_LABELS, ("f1", "accuracy"), ("sentence1", "sentence2")
    ),
    "sts-b": GlueTask(
        "STS-B", ("sentence1", "sentence2"), "score", (), ("pearson", "spearman"), ("sentence1", "sentence2")
    ),
    "qqp": GlueTask(
        "QQP", ("question1", "question2"), "is_duplicate", _BINARY_LABELS, ("f1", "accuracy"),
        ("question1", "question2"),
    ),
    "mnli": GlueTask(
        "MNLI", ("sentence1", "sentence2"), "gold_label", ("entailment", "neutral", "contradiction"),
        ("accuracy",), ("premise", "hypothesis"),
    ),
    "qnli": GlueTask(
        "QNLI", ("question", "sentence"), "label", _ENTAILMENT_LABELS, ("accuracy",), ("question", "sentence")
    ),
    "rte": GlueTask(
        "RTE", ("sentence1", "sentence2"), "label", _ENTAILMENT_LABELS, ("accuracy",), ("sentence1", "sentence2")
    ),
    "wnli": GlueTask(
        "WNLI", ("sentence1", "sentence2"), "label", _BINARY_LABELS, ("accuracy",), ("sentence1", "sentence2")
    ),
}  # fmt: skip

DIAGNOSTIC = "diagnostic"
_DIAGNOSTIC_FILES = ("AX/AX.tsv", "diagnostic/diagnostic.tsv")
# The file of predictions that the server takes for each part of test; those of dev are called the same.
_SUBMISSION_NAMES = {"matched": "MNLI-m", "mismatched": "MNLI-mm", DIAGNOSTIC: "AX"}


def split_names(name: str, split: str, data: str) -> tuple[str, ...]:
    """Return the names of a split's parts; MNLI has several, GLUE's diagnostic set too if it is there."""
    if name == "mnli" and split != "train":
        mnli_splits = (f"{split}_matched", f"{split}_mismatched")
        return (*mnli_splits, DIAGNOSTIC) if split == "test" and _find_diagnostic(Path(data)) else mnli_splits
    return (split,)


def _find_diagnostic(data: Path) -> Path | None:
    places = [
        folder / inside for folder in (data, data / "glue", data.parent) for inside in _DIAGNOSTIC_FILES
    ]
    return next((file for file in places if file.is_file()), None)


def find_task_folder(name: str, data: Path) -> Path:
    """Return a task's folder, given it or the one with all tasks in it."""
    folder = GLUE[name].folder
    places = (data / folder, data / "glue" / folder)
    return next((place for place in places if place.is_dir()), data)


def read_examples(name: str, data: str, split_name: str, troubles: ReadErrors) -> Iterator[TextExample]:
    """Yield the examples of a part of a task."""
    task = GLUE[name]
    if data.startswith(HUB_PREFIX):
        yield from _read_hub(task, name, data, split_name, troubles)
        return
    file = find_task_folder(name, Path(data)) / f"{split_name}.tsv"
    if split_name == DIAGNOSTIC:
        file = _find_diagnostic(Path(data)) or file
    if not file.is_file():
        raise InputError(f"{file}: no such file; --data names the folder {task.folder}, as GLUE has it")
    has_labels = not split_name.startswith(("test", DIAGNOSTIC))
    header = list(task.header) if task.header and has_labels else None
    for row in read_table(file, troubles, tabs=True, header=header):
        missing = [one for one in task.text_columns if one not in row.cells]
        if missing:
            there = display_text(", ".join(row.cells))
            raise InputError(f"{file}: no column {missing[0]}, as {task.folder} has; it has {there}")
        try:
            yield _parse_row(row, task, tuple(row.text(one) for one in task.text_columns), has_labels)
        except RowError as error:
            troubles.handle(row.location, str(error))


def _parse_row(row: TableRow, task: GlueTask, texts: tuple[str, ...], has_labels: bool) -> TextExample:
    name = str(row.cells.get("index", row.number))
    if not has_labels:
        return TextExample(row.location, name, texts)
    if not task.labels:
        return TextExample(
            row.location, name, texts, value=parse_number(row.cells.get(task.label_column), task.label_column)
        )
    label = row.cells.get(task.label_column)
    if label not in task.labels:
        known = ", ".join(task.labels)
        raise RowError(f"its label is {display_text(str(label))}; of {task.folder} it is one of {known}")
    return TextExample(row.location, name, texts, label=str(label))


def _read_hub(
    task: GlueTask, name: str, data: str, split_name: str, troubles: ReadErrors
) -> Iterator[TextExample]:
    split = split_name.replace("dev", "validation")
    dataset = ":".join([*data.removeprefix(HUB_PREFIX).split(":")[:2], ""][:2])
    if dataset.endswith(":"):
        dataset += name.replace("-", "")
    source = f"{HUB_PREFIX}{dataset}:{split}"
    names = class_names(source, "label")
    for row in read_rows(source, troubles, (*task.hub_text_columns, "label")):
        value = row.cells["label"]
        texts = tuple(row.text(one) for one in task.hub_text_columns)
        example_id = str(row.cells.get("idx", row.number))
        if value is None or value == -1 or split_name.startswith("test"):
            yield TextExample(row.location, example_id, texts)
        elif not task.labels:
            yield TextExample(row.location, example_id, texts, value=float(value))
        else:
            label = names[int(value)] if names and task.labels[0] not in _BINARY_LABELS else str(value)
            yield TextExample(row.location, example_id, texts, label=label)


def submission_file(name: str, split_name: str, out: Path) -> Path:
    """Return the file of a part, under the name that the benchmark's server takes."""
    title = _SUBMISSION_NAMES.get(split_name.removeprefix("test_").removeprefix("dev_"), GLUE[name].folder)
    return out / f"{title}.tsv"


def write_submission(name: str, split_name: str, out: Path, predictions: Sequence[tuple[str, str]]) -> Path:
    """Write a file as the benchmark's server takes it; return which."""
    file = submission_file(name, split_name, out)
    with atomic_file(file) as partial:
        lines = [f"{one}\t{prediction}\n" for one, prediction in predictions]
        partial.write_text("index\tprediction\n" + "".join(lines), encoding="utf-8")
    return file
