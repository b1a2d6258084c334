"""The settings of `albertine world`, in a module of its own so that `--help` imports no generator."""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import Settings, setting
from albertine.settings.schema import SettingError, first_changed

TASK_NAMES = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli", "squad", "race")


@dataclass(frozen=True)
class WorldSettings(Settings):
    """The settings of `albertine world write`."""

    stories: int = setting(50_000, "Number of corpus stories, in text/.", minimum=0, maximum=100_000_000)
    extra: int = setting(
        10_000, "Number of newspaper reports, in text-extra/.", minimum=0, maximum=100_000_000
    )
    other: int = setting(10_000, "Number of handbook pages, in text-other/.", minimum=0, maximum=100_000_000)
    tasks: str | None = setting(None, "Tasks to write, separated by commas: mnli,squad,race; all by default.")
    train: int = setting(
        4_000, "Training examples of each task; 0 writes no tasks.", minimum=0, maximum=1_000_000
    )
    dev: int = setting(500, "Development examples of each task.", minimum=1, maximum=1_000_000)
    test: int = setting(500, "Test examples of each task.", minimum=1, maximum=1_000_000)
    seed: int = setting(0, "Random seed.", minimum=0, maximum=1 << 53)
    workers: int = setting(0, "Number of processes; 0 means one per core.", minimum=0, maximum=1024)
    baselines: bool = setting(True, "Measure the score of a bag of words on each task.")

    def check(self) -> None:
        """Raise SettingError if a task is unknown or nothing would be written."""
        for name in self.task_names():
            if name not in TASK_NAMES:
                raise SettingError("tasks", name, f"is not a task; choose from {', '.join(TASK_NAMES)}")
        if not (self.stories or self.extra or self.other or self.train):
            raise SettingError("stories", 0, "must be positive if --extra, --other and --train are 0")
        unused = None if self.train else first_changed(self, ("tasks", "dev", "test"))
        if unused:
            raise SettingError(unused, getattr(self, unused), "needs train above 0", ("train",))

    def task_names(self) -> tuple[str, ...]:
        """Return the names of the tasks to write, each once."""
        if self.tasks is None:
            return TASK_NAMES
        return tuple(dict.fromkeys(name.strip().lower() for name in self.tasks.split(",")))


@dataclass(frozen=True)
class StorySettings(Settings):
    """The settings of `albertine world show`."""

    genre: Literal[
        "any", "household", "journey", "market", "letters", "mystery", "place", "report", "manual"
    ] = setting(
        "any",
        "Genre of the story. any, report and manual show the stories of `world write`; another genre shows "
        "one that is in no file.",
    )
    seed: int = setting(0, "Random seed.", minimum=0, maximum=1 << 53)
