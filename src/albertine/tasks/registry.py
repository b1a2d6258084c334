"""The tasks there are: what kind each is, where its examples come from, how it is scored."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albertine.errors import InputError, did_you_mean
from albertine.tasks.examples import (
    Example,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from albertine.tasks.formats import custom, glue, race, squad
from albertine.tasks.formats.tables import TABLE_SUFFIXES as TABLES
from albertine.tasks.formats.tables import data_suffix
from albertine.tasks.settings import DataSettings
from albertine.text.documents import ReadErrors
from albertine.text.hub_datasets import HUB_PREFIX

TaskTypeName = Literal["classify", "regress", "tag", "span", "choice"]
TASK_TYPE_NAMES: tuple[TaskTypeName, ...] = ("classify", "regress", "tag", "span", "choice")


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: as a person names it; of one's own data, the name of the kind.
        type_name: what its examples are.
        labels: those that are known beforehand.
        metric_names: of labels and numbers.
        allows_no_answer: whether questions may have no answer.
    """

    name: str
    type_name: TaskTypeName
    labels: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()
    allows_no_answer: bool = False

    @property
    def is_official(self) -> bool:
        """Whether its data lie in a layout of its own."""
        return self.name not in TASK_TYPE_NAMES

    def split_names(self, split: str, data: str) -> tuple[str, ...]:
        """Return the parts that a split has; most have one."""
        if self.name in glue.GLUE and self._is_folder(data):
            return glue.split_names(self.name, split, data)
        return (split,)

    def _is_folder(self, data: str) -> bool:
        return data.startswith(HUB_PREFIX) or Path(data).is_dir()

    def read_examples(
        self,
        data: str,
        split_name: str,
        columns: DataSettings,
        troubles: ReadErrors,
        *,
        require_labels: bool,
        require_ids: bool = False,
    ) -> Iterator[Example]:
        """Yield the examples of a part.

        Args:
            data: a folder, a file, or a data set of the hub.
            split_name: which part of a folder, as "dev_matched".
            columns: what the columns of a file are called.
            troubles: what to do with what cannot be read.
            require_labels: whether what is to be found out must be there.
            require_ids: whether the column of names must, in a table.
        """
        if not data.startswith(HUB_PREFIX) and not _exists(data):
            raise InputError(f"{data}: no such file or folder")
        if not self._is_folder(data) and data_suffix(Path(data)) in TABLES:  # rows of one's own
            yield from custom.read_examples(
                data,
                self.type_name,
                columns,
                troubles,
                require_labels=require_labels,
                require_ids=require_ids,
            )
            return
        match self.name:
            case "race":
                yield from race.read_race(data, split_name, troubles)
            case "dream":
                yield from race.read_dream(data, split_name, troubles)
            case "squad-1.1" | "squad-2.0":
                yield from squad.read_examples(self.name, data, split_name, troubles)
            case name if name in glue.GLUE and self._is_folder(data):
                yield from glue.read_examples(name, data, split_name, troubles)
            case _:
                custom.refuse_folder(data, self.type_name)
                yield from custom.read_examples(
                    data,
                    self.type_name,
                    columns,
                    troubles,
                    require_labels=require_labels,
                    require_ids=require_ids,
                )


def _exists(data: str) -> bool:
    try:
        return Path(data).exists()
    except OSError:  # no name that a file can have
        return False


def find_task(name: str | None) -> Task:
    """Return the task of a name."""
    if name is None:
        raise InputError(f"--task is missing: {', '.join(TASK_NAMES)}")
    wanted = _ALIASES.get(name.lower().replace("_", "-"), name.lower().replace("_", "-"))
    if wanted not in TASKS:
        raise InputError(
            f"--task {name}: unknown{did_you_mean(wanted, TASK_NAMES)}; known: {', '.join(TASK_NAMES)}"
        )
    return TASKS[wanted]


TASKS = {
    **{
        name: Task(name, "classify" if one.labels else "regress", one.labels, one.metric_names)
        for name, one in glue.GLUE.items()
    },
    "squad-1.1": Task("squad-1.1", "span"),
    "squad-2.0": Task("squad-2.0", "span", allows_no_answer=True),
    "race": Task("race", "choice"),
    "dream": Task("dream", "choice"),
    "classify": Task("classify", "classify", metric_names=("accuracy", "macro_f1", "matthews")),
    "regress": Task("regress", "regress", metric_names=("pearson", "spearman", "rmse")),
    "tag": Task("tag", "tag"),
    "span": Task("span", "span"),
    "choice": Task("choice", "choice"),
}
TASK_NAMES = tuple(TASKS)
_ALIASES = {
    "sst2": "sst-2",
    "stsb": "sts-b",
    "squad": "squad-1.1",
    "squad1.1": "squad-1.1",
    "squad-v1.1": "squad-1.1",
}
_ALIASES |= {"squad2": "squad-2.0", "squad2.0": "squad-2.0", "squad-v2.0": "squad-2.0", "mnli-m": "mnli"}


def is_unlabelled(example: Example) -> bool:
    """Tell whether a file does not say what is right for an example."""
    match example:
        case TextExample():
            return example.label is None and example.value is None
        case TaggedExample():
            return example.tags is None
        case MultipleChoiceExample():
            return example.correct_option is None
        case QuestionExample():
            return example.answers is None
