"""What can be set of the demo; apart, for the help page."""

from dataclasses import dataclass

from albertine.settings import Settings, setting


@dataclass(frozen=True)
class DemoSettings(Settings):
    """How much the demo does, and on what."""

    text: str | None = setting(
        None,
        "Your own text in place of the little world: a file, folder or glob. The "
        "tasks of the world are left out then.",
    )
    stories: int = setting(12_000, "Stories of the little world.", minimum=500, maximum=10_000_000)
    examples: int = setting(
        6_000, "Training examples of each task of the world.", minimum=100, maximum=1_000_000
    )
    pretraining_steps: int = setting(
        400, "Steps of each of the two pre-trainings, of 4,096 tokens.", minimum=10, maximum=10_000_000
    )
    finetuning_steps: int = setting(400, "Steps of each fine-tuning.", minimum=5, maximum=1_000_000)
    seed: int = setting(0, "What everything is drawn from.", minimum=0, maximum=1 << 53)
