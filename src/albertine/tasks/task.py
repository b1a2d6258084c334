"""A task: its type, where its examples come from, what is reported about it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from albertine.errors import InputError
from albertine.tasks.examples import Example
from albertine.tasks.formats.tables import TABLE_SUFFIXES, data_suffix
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.task_type import TaskType
from albertine.text.documents import ReadErrors
from albertine.text.hub_datasets import HUB_PREFIX

# (data, split name, errors) -> examples
ExampleReader: TypeAlias = Callable[[str, str, ReadErrors], Iterator[Example]]
# (split, data) -> names of the parts of the split
SplitNames: TypeAlias = Callable[[str, str], tuple[str, ...]]
# (split name, predictions, output) -> number of predictions
SubmissionWriter: TypeAlias = Callable[[str, Iterator[tuple[Any, dict[str, Any]]], Path | None], int]


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: name in settings; for the user's own data, the name of the task type.
        task_type: class of its task type.
        labels: labels that are known beforehand, by id.
        metric_names: metrics of classification and regression.
        primary_metrics: metrics whose mean is the primary metric; if empty, the task type decides.
        allows_no_answer: whether questions may have no answer.
        similar_task: task of the paper's Table 14 whose hyperparameters it takes; if None, the task type's.
        aliases: other names.
        reader: reads its official layout; None for the user's own data.
        reads_files: whether `reader` also takes a single file.
        splits: names the parts of a split in the official layout, if there are several.
        write_submission: writes predictions as the task's server or script takes them.
    """

    name: str
    task_type: type[TaskType]
    labels: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()
    primary_metrics: tuple[str, ...] = ()
    allows_no_answer: bool = False
    similar_task: str | None = None
    aliases: tuple[str, ...] = ()
    reader: ExampleReader | None = None
    reads_files: bool = True
    splits: SplitNames | None = None
    write_submission: SubmissionWriter | None = None

    @property
    def type_name(self) -> str:
        """Name of its task type."""
        return self.task_type.name

    @property
    def is_official(self) -> bool:
        """Whether it is a published task with a layout of its own."""
        return self.reader is not None

    def split_names(self, split: str, data: str) -> tuple[str, ...]:
        """Return the names of the parts of a split; most splits have one."""
        return self.splits(split, data) if self.splits and is_folder(data) else (split,)

    def primary_metric(self, metrics: Mapping[str, float]) -> float:
        """Return the one number of the task: the mean of the metrics that its benchmark averages."""
        if self.primary_metrics:
            return sum(metrics[name] for name in self.primary_metrics) / len(self.primary_metrics)
        return self.task_type.primary_metric(metrics)

    def read_examples(
        self,
        data: str,
        split_name: str,
        columns: DataSettings,
        errors: ReadErrors,
        *,
        require_labels: bool,
        require_ids: bool = False,
    ) -> Iterator[Example]:
        """Yield the examples of a split.

        Args:
            data: a folder, a file, or a data set of the hub.
            split_name: part of a folder, as "dev_matched".
            columns: names of the columns of a file.
            errors: handles invalid rows.
            require_labels: whether every row must have a label.
            require_ids: whether a table must have the column of ids.
        """
        if not data.startswith(HUB_PREFIX) and not _exists(data):
            raise InputError(f"{data}: no such file or folder")
        is_table = not is_folder(data) and data_suffix(Path(data)) in TABLE_SUFFIXES
        if self.reader and not is_table and (self.reads_files or is_folder(data)):
            yield from self.reader(data, split_name, errors)
            return
        if not is_table and Path(data).is_dir():
            raise InputError(f"{data}: a folder; for {self.name}, name a file")
        yield from self.task_type.read_examples(
            data, columns, errors, require_labels=require_labels, require_ids=require_ids
        )


def is_folder(data: str) -> bool:
    """Return whether data is a folder or a data set of the hub, which have splits."""
    return data.startswith(HUB_PREFIX) or Path(data).is_dir()


def _exists(data: str) -> bool:
    try:
        return Path(data).exists()
    except OSError:  # the name is too long for a file
        return False
