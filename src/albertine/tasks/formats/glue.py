"""The nine tasks of GLUE in their official layouts, and the files that its server accepts.

`GLUE` has, for each task, the columns of its texts and its label. MNLI has two dev sets and
two test sets: "matched", with the genres of train, and "mismatched". The best checkpoint is
chosen on dev_matched. `nyu-mll/glue` on the hub has the same tasks with other column names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.display import counted
from albertine.errors import InputError
from albertine.storage.objects import display_path
from albertine.storage.output_file import write_one_of_several_files
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.cells import parse_id, parse_label, parse_number
from albertine.tasks.formats.column_request import ColumnRequest
from albertine.tasks.formats.missing_columns import missing_column_message
from albertine.tasks.formats.rows import RowError, TableRow, describe_value
from albertine.tasks.formats.tables import read_rows, read_table
from albertine.text.hub_datasets import HUB_PREFIX, class_names
from albertine.text.read_errors import ReadErrors

_BINARY_LABELS = ("0", "1")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")


@dataclass(frozen=True)
class GlueTask:
    """Layout and metrics of one task.

    Attributes:
        folder: name of its folder.
        text_columns: columns of the texts.
        label_column: column of the label.
        labels: labels by id; empty if the label is a number.
        metric_names: metrics to compute.
        hub_text_columns: columns of the texts on the hub.
        header: columns of train and dev, if the files have no header.
        primary_metrics: metrics whose mean is the score in GLUE.
        aliases: other names.
    """

    folder: str
    text_columns: tuple[str, ...]
    label_column: str
    labels: tuple[str, ...]
    metric_names: tuple[str, ...]
    hub_text_columns: tuple[str, ...]
    header: tuple[str, ...] = ()
    primary_metrics: tuple[str, ...] = ("accuracy",)
    aliases: tuple[str, ...] = ()


GLUE: Mapping[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA", ("sentence",), "label", _BINARY_LABELS, ("matthews", "accuracy"), ("sentence",),
        header=("source", "label", "mark", "sentence"), primary_metrics=("matthews",),
    ),
    "sst-2": GlueTask(
        "SST-2", ("sentence",), "label", _BINARY_LABELS, ("accuracy",), ("sentence",), aliases=("sst2",)
    ),
    "mrpc": GlueTask(
        "MRPC", ("#1 String", "#2 String"), "Quality", _BINARY_LABELS, ("f1", "accuracy"),
        ("sentence1", "sentence2"), primary_metrics=("f1", "accuracy"),
    ),
    "sts-b": GlueTask(
        "STS-B", ("sentence1", "sentence2"), "score", (), ("pearson", "spearman"), ("sentence1", "sentence2"),
        primary_metrics=("pearson", "spearman"), aliases=("stsb",),
    ),
    "qqp": GlueTask(
        "QQP", ("question1", "question2"), "is_duplicate", _BINARY_LABELS, ("f1", "accuracy"),
        ("question1", "question2"), primary_metrics=("f1", "accuracy"),
    ),
    "mnli": GlueTask(
        "MNLI", ("sentence1", "sentence2"), "gold_label", ("entailment", "neutral", "contradiction"),
        ("accuracy",), ("premise", "hypothesis"), aliases=("mnli-m",),
    ),
    "qnli": GlueTask(
        "QNLI", ("question", "sentence"), "label", _ENTAILMENT_LABELS, ("accuracy",), ("question", "sentence")
    ),
    "rte": GlueTask(
        "RTE", ("sentence1", "sentence2"), "label", _ENTAILMENT_LABELS, ("accuracy",),
        ("sentence1", "sentence2"),
    ),
    "wnli": GlueTask(
        "WNLI", ("sentence1", "sentence2"), "label", _BINARY_LABELS, ("accuracy",), ("sentence1", "sentence2")
    ),
}  # fmt: skip

DIAGNOSTIC = "diagnostic"
_DIAGNOSTIC_FILES = ("AX/AX.tsv", "diagnostic/diagnostic.tsv")
# Names of submission files, by part of the test split; predictions for dev have the same names.
_SUBMISSION_NAMES = {"matched": "MNLI-m", "mismatched": "MNLI-mm", DIAGNOSTIC: "AX"}


def split_names(name: str, split: str, data: str) -> tuple[str, ...]:
    """Return the names of the parts of a split: for MNLI two, and in test the diagnostic set if it exists."""
    if name == "mnli" and split != "train":
        parts = (f"{split}_matched", f"{split}_mismatched")
        return (*parts, DIAGNOSTIC) if split == "test" and _find_diagnostic(Path(data)) else parts
    return (split,)


def _find_diagnostic(data: Path) -> Path | None:
    if str(data).startswith(HUB_PREFIX):
        return None
    files = [folder / name for folder in (data, data / "glue", data.parent) for name in _DIAGNOSTIC_FILES]
    return next((file for file in files if file.is_file()), None)


def find_task_folder(name: str, data: Path) -> Path:
    """Return the folder of a task; `data` is that folder or one that holds the folders of all tasks."""
    folder = GLUE[name].folder
    candidates = (data / folder, data / "glue" / folder)
    return next((candidate for candidate in candidates if candidate.is_dir()), data)


def read_examples(name: str, data: str, split_name: str, errors: ReadErrors) -> Iterator[TextExample]:
    """Yield the examples of a split, or of a part of it."""
    task = GLUE[name]
    if data.startswith(HUB_PREFIX):
        yield from _read_hub(task, name, data, split_name, errors)
        return
    file = find_task_folder(name, Path(data)) / f"{split_name}.tsv"
    if split_name == DIAGNOSTIC:
        file = _find_diagnostic(Path(data)) or file
    if not file.is_file():
        raise InputError(f"{file}: no such file; --data must name the folder {task.folder} of GLUE")
    has_labels = not split_name.startswith(("test", DIAGNOSTIC))
    header = list(task.header) if task.header and has_labels else None

    required = (*task.text_columns, task.label_column) if has_labels else task.text_columns

    def check_columns(columns: list[str], _: Sequence[list[str]]) -> None:
        missing = next((column for column in required if column not in columns), None)
        if missing is not None:
            raise InputError(missing_column_message(str(file), missing, columns))

    for row in read_table(file, errors, tabs=True, header=header, check_columns=check_columns):
        try:
            texts = tuple(row.text(column) for column in task.text_columns)
            yield _parse_row(row, task, texts, has_labels)
        except RowError as error:
            errors.handle(row.location, str(error))


def _parse_row(row: TableRow, task: GlueTask, texts: tuple[str, ...], has_labels: bool) -> TextExample:
    example_id = parse_id(row.cells.get("index", row.number))
    if not has_labels:
        return TextExample(row.location, example_id, texts)
    label = row.cells.get(task.label_column)
    if not task.labels:
        return TextExample(row.location, example_id, texts, value=parse_number(label, task.label_column))
    return TextExample(row.location, example_id, texts, label=_known_label(label, task))


def _known_label(label: Any, task: GlueTask) -> str:
    """Return a label; raise `RowError` if it is not one of the task's."""
    if label not in task.labels:
        labels = ", ".join(task.labels)
        raise RowError(f"its label is {describe_value(label)}; the labels of {task.folder} are {labels}")
    return str(label)


def _read_hub(
    task: GlueTask, name: str, data: str, split_name: str, errors: ReadErrors
) -> Iterator[TextExample]:
    split = split_name.replace("dev", "validation")
    dataset, config = [*data.removeprefix(HUB_PREFIX).split(":"), ""][:2]
    source = f"{HUB_PREFIX}{dataset}:{config or name.replace('-', '')}:{split}"
    label_names = class_names(source, "label")
    for row in read_rows(source, errors, ColumnRequest((*task.hub_text_columns, "label"))):
        try:
            yield _parse_hub_row(row, task, label_names, has_labels=not split_name.startswith("test"))
        except RowError as error:
            errors.handle(row.location, str(error))


def _parse_hub_row(row: TableRow, task: GlueTask, label_names: list[str], *, has_labels: bool) -> TextExample:
    value = row.cells["label"]
    texts = tuple(row.text(column) for column in task.hub_text_columns)
    example_id = parse_id(row.cells.get("idx", row.number))
    if not has_labels or value is None or value == -1:
        return TextExample(row.location, example_id, texts)
    if not task.labels:
        return TextExample(row.location, example_id, texts, value=parse_number(value, "label"))
    if label_names and task.labels[0] not in _BINARY_LABELS:
        value = _class_name(value, label_names)
    return TextExample(row.location, example_id, texts, label=_known_label(parse_label(value), task))


def _class_name(value: Any, names: list[str]) -> str:
    """Return the name of a numbered label; raise `RowError` if there is no such number."""
    if not isinstance(value, int) or not 0 <= value < len(names):
        raise RowError(f"its label is {describe_value(value)}; expected 0 to {len(names) - 1}")
    return names[value]


def submission_file(name: str, split_name: str, out: Path) -> Path:
    """Return the submission file of a part of a split, with the name that GLUE's server expects."""
    part = split_name.removeprefix("test_").removeprefix("dev_")
    return out / f"{_SUBMISSION_NAMES.get(part, GLUE[name].folder)}.tsv"


def write_submission(name: str, predictions: Iterator[tuple[TextExample, dict[str, Any]]], file: Path) -> int:
    """Write predictions in the format of GLUE's server; return their number."""
    has_labels = bool(GLUE[name].labels)
    lines = [
        f"{example.example_id}\t{prediction['label'] if has_labels else format(prediction['value'], '.3f')}\n"
        for example, prediction in predictions
    ]
    write_one_of_several_files(file, "index\tprediction\n" + "".join(lines))
    progress.print_message(f"{display_path(file)}: {counted(len(lines), 'prediction')}")
    return len(lines)
