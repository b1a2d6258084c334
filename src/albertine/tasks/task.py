"""A task: its type, its data, its labels and its metrics."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from albertine.errors import InputError
from albertine.tasks.card import COLUMN_SETTINGS
from albertine.tasks.examples import Example
from albertine.tasks.formats.columns import KeepRequest
from albertine.tasks.formats.conll import CONLL_SUFFIXES
from albertine.tasks.formats.data_files import TABLE_SUFFIXES, data_suffix, has_header_line
from albertine.tasks.formats.locations import check_exists, is_folder, local_data, read_locally
from albertine.tasks.formats.texts import has_texts_as_lines
from albertine.tasks.settings import DataSettings, Split
from albertine.tasks.types.task_type import TaskType
from albertine.tasks.types.text_task import TextTask
from albertine.text.hub_datasets import HUB_PREFIX
from albertine.text.read_errors import ReadErrors

# (data, split name, errors) -> examples
ExampleReader: TypeAlias = Callable[[str, str, ReadErrors], Iterator[Example]]
# (split, data) -> split names: one for each part of the split
SplitNames: TypeAlias = Callable[[str, str], tuple[str, ...]]


@dataclass(frozen=True)
class SubmissionFormat:
    """The format in which a task's server or official script takes predictions.

    Attributes:
        suffix: suffix of its file; empty for a folder, with a file for each part of a split.
        file: returns the file of a part of a split, from the name of the part and the output.
        write: writes predictions to a file and returns their number.
    """

    suffix: str
    file: Callable[[str, Path], Path]
    write: Callable[[Iterator[tuple[Any, dict[str, Any]]], Path], int]


@dataclass(frozen=True)
class Task:
    """A published task, or the user's own data with one task type.

    Attributes:
        name: name in settings; for the user's own data, the name of the task type.
        task_type: class of its task type.
        labels: labels by id; empty if they come from the data.
        metric_names: metrics to compute, for classification and regression.
        primary_metrics: metrics whose mean is the primary metric; if empty, those of the task type.
        allows_no_answer: whether questions may have no answer.
        similar_task: task of the paper's Table 14 whose hyperparameters are the defaults; if None, that of
            the task type.
        aliases: other names.
        reader: reads the official layout; None for the user's own data.
        reads_files: whether `reader` also accepts a single file.
        official_split_names: returns the split names in the official layout; None if each split has one part.
        has_split: returns whether data in the official layout has a split; None if it has all splits.
        submission: format in which the task's server or script takes predictions.
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
    official_split_names: SplitNames | None = None
    has_split: Callable[[str, str], bool] | None = None
    submission: SubmissionFormat | None = None

    @property
    def type_name(self) -> str:
        """Name of its task type."""
        return self.task_type.name

    @property
    def is_official(self) -> bool:
        """Whether it is a published task, with an official layout."""
        return self.reader is not None

    def compared_by(self, metric: str | None) -> "Task":
        """Return this task with a metric by which models are compared; None for that of the task."""
        return self if metric is None else replace(self, primary_metrics=(metric,))

    def has_dev_split(self, data: str) -> bool:
        """Return whether data is a folder in the official layout, which includes dev."""
        return self.is_official and is_folder(data)

    def split_names(self, split: str, data: str) -> tuple[str, ...]:
        """Return the names of the parts of a split, such as "dev_matched"; most splits have one part."""
        if self.official_split_names and is_folder(data):
            return self.official_split_names(split, local_data(data))
        return (split,)

    def split_to_predict(self, data: str) -> Split:
        """Return the split to predict by default: test, or dev if the data has no test split."""
        if self.has_split and is_folder(data) and not self.has_split("test", local_data(data)):
            return "dev"
        return "test"

    def primary_metric(self, metrics: Mapping[str, float]) -> float:
        """Return the number by which models are compared: the mean that the benchmark computes."""
        try:
            if self.primary_metrics:
                return sum(metrics[name] for name in self.primary_metrics) / len(self.primary_metrics)
            return self.task_type.primary_metric(metrics)
        except KeyError as error:
            raise InputError(
                f"{self.name}: the metric {error.args[0]} is missing; add it to metric_names in task.json"
            ) from None

    def read_examples(
        self,
        data: str,
        split_name: str,
        columns: DataSettings,
        errors: ReadErrors,
        *,
        require_labels: bool,
        require_ids: bool = False,
        keep: KeepRequest | None = None,
    ) -> Iterator[Example]:
        """Yield the examples of a split.

        Args:
            data: a folder or a file, here or on object storage, or a data set of the hub.
            split_name: name of a split or of a part of one, such as "dev_matched"; not used for a table.
            columns: settings that hold the names of the columns of a table.
            errors: handles invalid rows.
            require_labels: whether every row of a table must have a label.
            require_ids: whether a table must have a column of ids.
            keep: columns of a table to keep in the examples.
        """
        check_exists(data)
        is_table = is_table_file(data)
        if self.has_official_layout(data):
            assert self.reader is not None
            with read_locally(data) as local:
                yield from self.reader(local, split_name, errors)
            return
        if not is_table and is_folder(data) and not data.startswith(HUB_PREFIX):
            raise InputError(f"{data}: is a folder; --task {self.name} needs a file")
        yield from self.task_type.read_examples(
            data, columns, errors, require_labels=require_labels, require_ids=require_ids, keep=keep
        )

    def has_official_layout(self, data: str) -> bool:
        """Return whether data is in the official layout of the task, not a table of the user's own."""
        can_read = self.reader is not None and (self.reads_files or is_folder(data))
        return can_read and not is_table_file(data)


def check_header_option(data: str, settings: DataSettings, task: Task | None = None) -> None:
    """Raise `InputError` if --no-header is given for data that has column names.

    Args:
        data: a folder, a file, or a data set of the hub.
        settings: settings as the user gave them.
        task: the task, which may have an official layout; None if there is none.
    """
    is_given = not settings.header and "header" in settings.explicit_keys
    if is_given and (not has_header_line(data) or (task is not None and task.has_official_layout(data))):
        raise InputError(f"{data}: --no-header is for .csv and .tsv files; leave it out")


def check_column_options(data: str, settings: DataSettings, task: Task) -> None:
    """Raise `InputError` if the settings name columns that the task does not read.

    Args:
        data: a folder, a file, or a data set of the hub.
        settings: settings as the user gave them.
        task: the task, which may have an official layout.
    """
    is_official = task.has_official_layout(data)
    # Tables for training need columns, also if dev is a CoNLL file.
    files = [file for file in (data, settings.data) if file is not None]
    is_tagged = task.task_type.head_kind == "token"
    is_conll = is_tagged and all(data_suffix(Path(file)) in CONLL_SUFFIXES for file in files)
    is_lines = issubclass(task.task_type, TextTask) and all(map(has_texts_as_lines, files))
    has_columns = not (is_official or is_conll or is_lines)
    used, defaults = task.task_type.column_settings if has_columns else (), DataSettings()
    for name in COLUMN_SETTINGS:
        if name not in used and getattr(settings, name) != getattr(defaults, name):
            reader = f"the official layout of {task.name}" if is_official else task.task_type.title
            reader = "a CoNLL file, whose last column has the tags" if is_conll else reader
            reader = "lines of text, which have no columns" if is_lines else reader
            raise InputError(f"{data}: --{name.replace('_', '-')} is not used for {reader}; leave it out")


def check_hub_split(data: str, task: Task) -> None:
    """Raise `InputError` if the name of a data set of the hub has a split that the task would not read."""
    if data.startswith(HUB_PREFIX) and task.has_official_layout(data) and data.count(":") > 2:
        raise InputError(
            f"{data}: {task.name} reads the splits of a data set by their names; leave the split out of "
            "--data (evaluate and predict have --split)"
        )


def check_split_option(data: str, settings: DataSettings, task: Task) -> None:
    """Raise `InputError` if --split is given for data without splits.

    Args:
        data: a folder, a file, or a data set of the hub, whose name says which split is read.
        settings: settings as the user gave them.
        task: the task, which may have an official layout.
    """
    if "split" not in settings.explicit_keys or has_splits(data, task):
        return
    is_hub = data.startswith(HUB_PREFIX)
    advice = (
        f"name the split in --data, as in {HUB_PREFIX}OWNER/NAME:CONFIG:SPLIT" if is_hub else "leave it out"
    )
    raise InputError(f"{data}: --split is for the folder of a task; {advice}")


def has_splits(data: str, task: Task) -> bool:
    """Return whether a setting names the split of data; the name of a data set of the hub may include it."""
    return is_folder(data) and (not data.startswith(HUB_PREFIX) or task.has_official_layout(data))


def is_table_file(data: str) -> bool:
    """Return whether data is a file with rows and columns."""
    return not is_folder(data) and data_suffix(Path(data)) in TABLE_SUFFIXES
