"""The nine tasks of GLUE in their official layouts, and the files that its server takes.

A table gives for each task the columns of its texts and its label. MNLI has two dev and
two test sets; the first one, with the genres of train, decides which checkpoint is best.
The hub's `nyu-mll/glue` has the same tasks with other column names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.atomic import atomic_file, refuse_existing_file
from albertine.errors import InputError
from albertine.settings.schema import display_text
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.cells import parse_number
from albertine.tasks.formats.tables import RowError, TableRow, read_rows, read_table
from albertine.text.documents import ReadErrors
from albertine.text.hub_datasets import HUB_PREFIX, class_names

_BINARY_LABELS = ("0", "1")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")


@dataclass(frozen=True)
class GlueTask:
    """Layout and metrics of one task.

    Attributes:
        folder: name of its folder.
        text_columns: columns of the texts.
        label_column: column of the label.
        labels: labels by id; empty for a number.
        metric_names: its metrics.
        hub_text_columns: columns of the texts on the hub.
        header: columns of train and dev, if the files do not name them.
        primary_metrics: metrics whose mean GLUE averages.
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
# Names of submission files by part of test; predictions for dev get the same names.
_SUBMISSION_NAMES = {"matched": "MNLI-m", "mismatched": "MNLI-mm", DIAGNOSTIC: "AX"}


def split_names(name: str, split: str, data: str) -> tuple[str, ...]:
    """Return the names of the parts of a split: MNLI has two, and GLUE's diagnostic set if it is there."""
    if name == "mnli" and split != "train":
        mnli_splits = (f"{split}_matched", f"{split}_mismatched")
        return (*mnli_splits, DIAGNOSTIC) if split == "test" and _find_diagnostic(Path(data)) else mnli_splits
    return (split,)


def _find_diagnostic(data: Path) -> Path | None:
    files = [folder / inside for folder in (data, data / "glue", data.parent) for inside in _DIAGNOSTIC_FILES]
    return next((file for file in files if file.is_file()), None)


def find_task_folder(name: str, data: Path) -> Path:
    """Return the folder of a task, given it or the folder of all tasks."""
    folder = GLUE[name].folder
    candidates = (data / folder, data / "glue" / folder)
    return next((one for one in candidates if one.is_dir()), data)


def read_examples(name: str, data: str, split_name: str, errors: ReadErrors) -> Iterator[TextExample]:
    """Yield the examples of a part of a split."""
    task = GLUE[name]
    if data.startswith(HUB_PREFIX):
        yield from _read_hub(task, name, data, split_name, errors)
        return
    file = find_task_folder(name, Path(data)) / f"{split_name}.tsv"
    if split_name == DIAGNOSTIC:
        file = _find_diagnostic(Path(data)) or file
    if not file.is_file():
        raise InputError(f"{file}: no such file; --data names the folder {task.folder} of GLUE")
    has_labels = not split_name.startswith(("test", DIAGNOSTIC))
    header = list(task.header) if task.header and has_labels else None
    for row in read_table(file, errors, tabs=True, header=header):
        missing = [one for one in task.text_columns if one not in row.cells]
        if missing:
            there = display_text(", ".join(row.cells))
            raise InputError(f"{file}: no column {missing[0]}, which {task.folder} has; it has {there}")
        try:
            yield _parse_row(row, task, tuple(row.text(one) for one in task.text_columns), has_labels)
        except RowError as error:
            errors.handle(row.location, str(error))


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
    task: GlueTask, name: str, data: str, split_name: str, errors: ReadErrors
) -> Iterator[TextExample]:
    split = split_name.replace("dev", "validation")
    dataset = ":".join([*data.removeprefix(HUB_PREFIX).split(":")[:2], ""][:2])
    if dataset.endswith(":"):
        dataset += name.replace("-", "")
    source = f"{HUB_PREFIX}{dataset}:{split}"
    names = class_names(source, "label")
    for row in read_rows(source, errors, (*task.hub_text_columns, "label")):
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
    """Return the submission file of a part, as the benchmark's server names it."""
    title = _SUBMISSION_NAMES.get(split_name.removeprefix("test_").removeprefix("dev_"), GLUE[name].folder)
    return out / f"{title}.tsv"


def write_submission(
    name: str, split_name: str, predictions: Iterator[tuple[TextExample, dict[str, Any]]], out: Path | None
) -> int:
    """Write predictions as the benchmark's server takes them; return their number."""
    if out is None or out.suffix:
        raise InputError(f"{out or '--out'}: GLUE's server takes files named by task; name a folder for them")
    file = submission_file(name, split_name, out)
    refuse_existing_file(file)
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{example.example_id}\t{one['label'] if GLUE[name].labels else format(one['value'], '.3f')}\n"
        for example, one in predictions
    ]
    with atomic_file(file) as partial:
        partial.write_text("index\tprediction\n" + "".join(lines), encoding="utf-8")
    progress.print_message(f"{file}: {len(lines):,} predictions")
    return len(lines)
