"""The tasks there are: what kind each is, where its examples come from, how it is scored."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albertine.errors import InputError, nearest
from albertine.tasks.examples import Choice, Example, Labelled, Question, Tagged
from albertine.tasks.formats import glue, own, race, squad
from albertine.tasks.formats.rows import KINDS as TABLES
from albertine.tasks.formats.rows import suffix_of
from albertine.tasks.settings import DataSettings
from albertine.text.documents import Troubles
from albertine.text.hub import HUB

KindName = Literal["classify", "regress", "tag", "span", "choice"]
OWN: tuple[KindName, ...] = ("classify", "regress", "tag", "span", "choice")


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: as a person names it; of one's own data, the name of the kind.
        kind: what its examples are.
        labels: those that are known beforehand.
        scores: of labels and numbers.
        maybe_none: whether questions may have no answer.
    """

    name: str
    kind: KindName
    labels: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    maybe_none: bool = False

    @property
    def official(self) -> bool:
        """Whether its data lie in a layout of its own."""
        return self.name not in OWN

    def parts(self, split: str, data: str) -> tuple[str, ...]:
        """Return the parts that a split has; most have one."""
        if self.name in glue.GLUE and self._is_folder(data):
            return glue.parts_of(self.name, split, data)
        return (split,)

    def _is_folder(self, data: str) -> bool:
        return data.startswith(HUB) or Path(data).is_dir()

    def examples(
        self,
        data: str,
        part: str,
        columns: DataSettings,
        troubles: Troubles,
        *,
        solved: bool,
        named: bool = False,
    ) -> Iterator[Example]:
        """Yield the examples of a part.

        Args:
            data: a folder, a file, or a data set of the hub.
            part: which part of a folder, as "dev_matched".
            columns: what the columns of a file are called.
            troubles: what to do with what cannot be read.
            solved: whether what is to be found out must be there.
            named: whether the column of names must, in a table.
        """
        if not data.startswith(HUB) and not _exists(data):
            raise InputError(f"{data}: no such file or folder")
        if not self._is_folder(data) and suffix_of(Path(data)) in TABLES:  # rows of one's own
            yield from own.examples(data, self.kind, columns, troubles, solved=solved, named=named)
            return
        match self.name:
            case "race":
                yield from race.race(data, part, troubles)
            case "dream":
                yield from race.dream(data, part, troubles)
            case "squad-1.1" | "squad-2.0":
                yield from squad.examples(self.name, data, part, troubles)
            case name if name in glue.GLUE and self._is_folder(data):
                yield from glue.examples(name, data, part, troubles)
            case _:
                own.refuse_unknown_file(data, self.kind)
                yield from own.examples(data, self.kind, columns, troubles, solved=solved, named=named)


def _exists(data: str) -> bool:
    try:
        return Path(data).exists()
    except OSError:  # no name that a file can have
        return False


def find(name: str | None) -> Task:
    """Return the task of a name."""
    if name is None:
        raise InputError(f"--task is missing: {', '.join(NAMES)}")
    wanted = _ALIASES.get(name.lower().replace("_", "-"), name.lower().replace("_", "-"))
    if wanted not in _TASKS:
        raise InputError(f"--task {name}: unknown{nearest(wanted, NAMES)}; known: {', '.join(NAMES)}")
    return _TASKS[wanted]


_TASKS = {
    **{
        name: Task(name, "classify" if one.labels else "regress", one.labels, one.scores)
        for name, one in glue.GLUE.items()
    },
    "squad-1.1": Task("squad-1.1", "span"),
    "squad-2.0": Task("squad-2.0", "span", maybe_none=True),
    "race": Task("race", "choice"),
    "dream": Task("dream", "choice"),
    "classify": Task("classify", "classify", scores=("accuracy", "macro_f1", "matthews")),
    "regress": Task("regress", "regress", scores=("pearson", "spearman", "rmse")),
    "tag": Task("tag", "tag"),
    "span": Task("span", "span"),
    "choice": Task("choice", "choice"),
}
NAMES = tuple(_TASKS)
_ALIASES = {
    "sst2": "sst-2",
    "stsb": "sts-b",
    "squad": "squad-1.1",
    "squad1.1": "squad-1.1",
    "squad-v1.1": "squad-1.1",
}
_ALIASES |= {"squad2": "squad-2.0", "squad2.0": "squad-2.0", "squad-v2.0": "squad-2.0", "mnli-m": "mnli"}


def unanswered(example: Example) -> bool:
    """Tell whether a file does not say what is right for an example."""
    match example:
        case Labelled():
            return example.label is None and example.value is None
        case Tagged():
            return example.tags is None
        case Choice():
            return example.right is None
        case Question():
            return example.answers is None
