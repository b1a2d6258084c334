"""What can be set of the little world; apart, for the help page."""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import Settings, setting
from albertine.settings.schema import SettingError

TASK_NAMES = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli", "squad", "race")


@dataclass(frozen=True)
class WorldSettings(Settings):
    """How much of the world is written."""

    stories: int = setting(50_000, "Stories of the corpus, in text/.", minimum=0, maximum=100_000_000)
    extra: int = setting(
        10_000, "Stories of additional data, in text-extra/.", minimum=0, maximum=100_000_000
    )
    other: int = setting(10_000, "Pages of another domain, in text-other/.", minimum=0, maximum=100_000_000)
    tasks: str | None = setting(None, "Which tasks, as in mnli,squad,race; all if not set.")
    train: int = setting(
        4_000, "Training examples of each task; 0 leaves tasks out.", minimum=0, maximum=1_000_000
    )
    dev: int = setting(500, "Development examples of each task.", minimum=1, maximum=1_000_000)
    test: int = setting(500, "Test examples of each task.", minimum=1, maximum=1_000_000)
    seed: int = setting(0, "What everything is drawn from.", minimum=0, maximum=1 << 53)
    workers: int = setting(0, "Processes; 0 takes one for each core.", minimum=0, maximum=1024)
    baselines: bool = setting(True, "Measure what a bag of words reaches on the tasks.")

    def check(self) -> None:
        """Refuse an empty world, and tasks that there are not."""
        for name in self.task_names():
            if name not in TASK_NAMES:
                raise SettingError("tasks", name, f"must be of {', '.join(TASK_NAMES)}")
        if not (self.stories or self.extra or self.other or self.train):
            raise SettingError("stories", 0, "must be more than 0 where nothing else is written")

    def task_names(self) -> tuple[str, ...]:
        """Return the names of the tasks to write."""
        if self.tasks is None:
            return TASK_NAMES
        return tuple(name.strip().lower() for name in self.tasks.split(","))


@dataclass(frozen=True)
class StorySettings(Settings):
    """Which story is shown."""

    genre: Literal[
        "any", "household", "journey", "market", "letters", "mystery", "place", "report", "manual"
    ] = setting("any", "Its genre; any takes those of the corpus.")
    seed: int = setting(0, "What it is drawn from.", minimum=0, maximum=1 << 53)
