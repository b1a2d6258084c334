"""Settings of `albertine study`, in a module of their own so that the help page loads fast."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albertine.settings import Settings, setting

ScaleName = Literal["smoke", "minutes", "evening", "gpu"]


@dataclass(frozen=True)
class StudySettings(Settings):
    """Size and text of a study."""

    scale: ScaleName = setting(
        "minutes",
        "Size of the models and runs: smoke (seconds), minutes or evening (hours; two cores), or gpu.",
    )
    text: str | None = setting(
        None,
        "Text of the study: a file, folder or glob. At the scales smoke and minutes, claims with tasks "
        "always use the little world, and others without it.",
    )
    data: Path | None = setting(
        None,
        "For claims with tasks at the scales evening and gpu: folder with the tasks' folders of GLUE, with "
        "NAME.train.jsonl and NAME.valid.jsonl, or with the files of RACE, DREAM or XQuAD.",
    )
    seeds: int | None = setting(
        None, "Runs of each arm; by default as in the claim. Raise it to add seeds.", minimum=1, maximum=100
    )
