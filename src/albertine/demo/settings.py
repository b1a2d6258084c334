"""Settings of the demo, in a module of their own so that the help page loads fast."""

from dataclasses import dataclass

from albertine.settings import MODEL_PRESETS, SettingError, Settings, setting

BASE_MODEL = MODEL_PRESETS["demo"]
# On the small vocabulary of the little world, more and narrower heads reach better scores.
WORLD_HEADS = 8
_STORIES, _EXAMPLES = 8_000, 6_000


@dataclass(frozen=True)
class DemoSettings(Settings):
    """Size and input of the demo."""

    text: str | None = setting(
        None,
        "Your text, in place of the little world: a file, folder or glob. The demo then has one task.",
    )
    stories: int = setting(
        _STORIES, "Number of stories of the little world.", minimum=500, maximum=10_000_000
    )
    examples: int = setting(
        _EXAMPLES, "Number of training examples per task of the little world.", minimum=100, maximum=1_000_000
    )
    compare: bool = setting(
        False,
        "Also train two BERTs for the same time, one of the same shape and one with as many parameters.",
    )
    hidden_size: int = setting(
        BASE_MODEL.hidden_size,
        f"Width of the model: a multiple of {2 * WORLD_HEADS}, or with text of {2 * BASE_MODEL.heads}.",
        minimum=128,
        maximum=4_096,
    )
    pretraining_steps: int | None = setting(
        None,
        "Steps of pre-training the ALBERT, at 4,096 tokens; by default 800, or 600 on processors without "
        "fast bf16.",
        minimum=10,
        maximum=10_000_000,
    )
    finetuning_steps: int | None = setting(
        None,
        "Steps of each fine-tuning run; by default 400, or 300 on processors without fast bf16.",
        minimum=5,
        maximum=1_000_000,
    )
    seed: int = setting(0, "Random seed of all steps.", minimum=0, maximum=1 << 53)

    def check(self) -> None:
        """Raise `SettingError` for a width that the heads do not divide, or a size of an unused world."""
        # Rotary positions, which wide models have, need heads of an even width.
        multiple = 2 * (WORLD_HEADS if self.text is None else BASE_MODEL.heads)
        if self.hidden_size % multiple:
            below = self.hidden_size // multiple * multiple
            problem = f"must be a multiple of {multiple}, such as {below} or {below + multiple}"
            raise SettingError("hidden_size", self.hidden_size, problem)
        for name, default in (("stories", _STORIES), ("examples", _EXAMPLES)):
            value = getattr(self, name)
            if self.text is not None and value != default:
                raise SettingError(name, value, "is for the little world; leave it out with text", ("text",))
