"""What can be set of the little world; apart, for the help page."""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import Settings, setting
from albertine.settings.schema import SettingError


@dataclass(frozen=True)
class WorldSettings(Settings):
    """How much of the world is written."""

    stories: int = setting(50_000, "Stories of the corpus, in text/.", least=0, most=100_000_000)
    extra: int = setting(10_000, "Stories of additional data, in text-extra/.", least=0, most=100_000_000)
    other: int = setting(10_000, "Pages of another domain, in text-other/.", least=0, most=100_000_000)
    train: int = setting(
        4_000, "Training examples of each task; 0 leaves tasks out.", least=0, most=1_000_000
    )
    dev: int = setting(500, "Development examples of each task.", least=1, most=1_000_000)
    test: int = setting(500, "Test examples of each task.", least=1, most=1_000_000)
    seed: int = setting(0, "What everything is drawn from.", least=0, most=1 << 53)
    workers: int = setting(0, "Processes; 0 takes one for each core.", least=0, most=1024)
    no_baselines: bool = setting(False, "Do not measure what a bag of words reaches on the tasks.")

    def check(self) -> None:
        """Refuse an empty world."""
        if not (self.stories or self.extra or self.other or self.train):
            raise SettingError("stories", 0, "must be more than 0 where nothing else is written")


@dataclass(frozen=True)
class TaleSettings(Settings):
    """Which story is shown."""

    genre: Literal[
        "any", "household", "journey", "market", "letters", "mystery", "place", "report", "manual"
    ] = setting("any", "Its genre; any takes those of the corpus.")
    seed: int = setting(0, "What it is drawn from.", least=0, most=1 << 53)
