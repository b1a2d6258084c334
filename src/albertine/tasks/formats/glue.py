"""The nine tasks of GLUE in their official layouts, and the files that its server takes.

A table says of each task which columns hold its texts and its label. Of a task's folder
train, dev and test are read; MNLI has two of each but train, of which the first, whose
genres are those of train, decides. The hub's `nyu-mll/glue` has the same tasks under
columns of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from albertine.errors import InputError
from albertine.settings.schema import shortened
from albertine.tasks.examples import Labelled
from albertine.tasks.formats.own import number_of
from albertine.tasks.formats.rows import Row, RowError, rows, table
from albertine.text.documents import Troubles
from albertine.text.hub import HUB, class_names
from albertine.whole import new_file

_YES_NO = ("0", "1")
_FOLLOWS = ("entailment", "not_entailment")


@dataclass(frozen=True)
class GlueTask:
    """One task.

    Attributes:
        folder: as the benchmark names it.
        texts: columns of the texts.
        label: column of the label.
        labels: all there are; none for a number.
        scores: what it is measured by; the first decides which checkpoint is best.
        hub: columns of the texts on the hub.
        header: the columns of train and dev, where the files name none.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    scores: tuple[str, ...]
    hub: tuple[str, ...]
    header: tuple[str, ...] = ()


GLUE: Mapping[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA", ("sentence",), "label", _YES_NO, ("matthews", "accuracy"), ("sentence",),
        header=("source", "label", "mark", "sentence"),
    ),
    "sst-2": GlueTask("SST-2", ("sentence",), "label", _YES_NO, ("accuracy",), ("sentence",)),
    "mrpc": GlueTask(
        "MRPC", ("#1 String", "#2 String"), "Quality", _YES_NO, ("f1", "accuracy"), ("sentence1", "sentence2")
    ),
    "sts-b": GlueTask(
        "STS-B", ("sentence1", "sentence2"), "score", (), ("pearson", "spearman"), ("sentence1", "sentence2")
    ),
    "qqp": GlueTask(
        "QQP", ("question1", "question2"), "is_duplicate", _YES_NO, ("f1", "accuracy"),
        ("question1", "question2"),
    ),
    "mnli": GlueTask(
        "MNLI", ("sentence1", "sentence2"), "gold_label", ("entailment", "neutral", "contradiction"),
        ("accuracy",), ("premise", "hypothesis"),
    ),
    "qnli": GlueTask(
        "QNLI", ("question", "sentence"), "label", _FOLLOWS, ("accuracy",), ("question", "sentence")
    ),
    "rte": GlueTask(
        "RTE", ("sentence1", "sentence2"), "label", _FOLLOWS, ("accuracy",), ("sentence1", "sentence2")
    ),
    "wnli": GlueTask(
        "WNLI", ("sentence1", "sentence2"), "label", _YES_NO, ("accuracy",), ("sentence1", "sentence2")
    ),
}  # fmt: skip

DIAGNOSTIC = "diagnostic"
_DIAGNOSTICS = ("AX/AX.tsv", "diagnostic/diagnostic.tsv")
# The file of predictions that the server takes for each part of test; those of dev are called the same.
_SUBMITTED = {"matched": "MNLI-m", "mismatched": "MNLI-mm", DIAGNOSTIC: "AX"}


def parts_of(name: str, split: str, data: str) -> tuple[str, ...]:
    """Return the names of a split's parts; MNLI has several, GLUE's diagnostic set too if it is there."""
    if name == "mnli" and split != "train":
        own = (f"{split}_matched", f"{split}_mismatched")
        return (*own, DIAGNOSTIC) if split == "test" and _diagnostic(Path(data)) else own
    return (split,)


def _diagnostic(data: Path) -> Path | None:
    places = [folder / inside for folder in (data, data / "glue", data.parent) for inside in _DIAGNOSTICS]
    return next((file for file in places if file.is_file()), None)


def folder_of(name: str, data: Path) -> Path:
    """Return a task's folder, given it or the one with all tasks in it."""
    folder = GLUE[name].folder
    places = (data / folder, data / "glue" / folder)
    return next((place for place in places if place.is_dir()), data)


def examples(name: str, data: str, part: str, troubles: Troubles) -> Iterator[Labelled]:
    """Yield the examples of a part of a task."""
    task = GLUE[name]
    if data.startswith(HUB):
        yield from _from_hub(task, name, data, part, troubles)
        return
    file = folder_of(name, Path(data)) / f"{part}.tsv"
    if part == DIAGNOSTIC:
        file = _diagnostic(Path(data)) or file
    if not file.is_file():
        raise InputError(f"{file}: no such file; --data names the folder {task.folder}, as GLUE has it")
    solved = not part.startswith(("test", DIAGNOSTIC))
    header = list(task.header) if task.header and solved else None
    for row in table(file, troubles, tabs=True, header=header):
        missing = [one for one in task.texts if one not in row.cells]
        if missing:
            there = shortened(", ".join(row.cells))
            raise InputError(f"{file}: no column {missing[0]}, as {task.folder} has; it has {there}")
        try:
            yield _made(row, task, tuple(row.text(one) for one in task.texts), solved)
        except RowError as error:
            troubles.meet(row.place, str(error))


def _made(row: Row, task: GlueTask, texts: tuple[str, ...], solved: bool) -> Labelled:
    name = str(row.cells.get("index", row.number))
    if not solved:
        return Labelled(row.place, name, texts)
    if not task.labels:
        return Labelled(row.place, name, texts, value=number_of(row.cells.get(task.label), task.label))
    label = row.cells.get(task.label)
    if label not in task.labels:
        known = ", ".join(task.labels)
        raise RowError(f"its label is {shortened(str(label))}; of {task.folder} it is one of {known}")
    return Labelled(row.place, name, texts, label=str(label))


def _from_hub(task: GlueTask, name: str, data: str, part: str, troubles: Troubles) -> Iterator[Labelled]:
    split = part.replace("dev", "validation")
    place = ":".join([*data.removeprefix(HUB).split(":")[:2], ""][:2])
    if place.endswith(":"):
        place += name.replace("-", "")
    source = f"{HUB}{place}:{split}"
    names = class_names(source, "label")
    for row in rows(source, troubles, (*task.hub, "label")):
        value = row.cells["label"]
        texts = tuple(row.text(one) for one in task.hub)
        title = str(row.cells.get("idx", row.number))
        if value is None or value == -1 or part.startswith("test"):
            yield Labelled(row.place, title, texts)
        elif not task.labels:
            yield Labelled(row.place, title, texts, value=float(value))
        else:
            label = names[int(value)] if names and task.labels[0] not in _YES_NO else str(value)
            yield Labelled(row.place, title, texts, label=label)


def submitted(name: str, part: str, out: Path) -> Path:
    """Return the file of a part, under the name that the benchmark's server takes."""
    title = _SUBMITTED.get(part.removeprefix("test_").removeprefix("dev_"), GLUE[name].folder)
    return out / f"{title}.tsv"


def submit(name: str, part: str, out: Path, predictions: Sequence[tuple[str, str]]) -> Path:
    """Write a file as the benchmark's server takes it; return which."""
    file = submitted(name, part, out)
    with new_file(file) as partial:
        lines = [f"{one}\t{prediction}\n" for one, prediction in predictions]
        partial.write_text("index\tprediction\n" + "".join(lines), encoding="utf-8")
    return file
