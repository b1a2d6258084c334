"""Values that change during a run: "128, 512 from 0.9" is 128, and 512 for the last tenth of the steps."""

import re
from dataclasses import dataclass
from itertools import pairwise

from albertine.settings import SettingError, Settings, setting

_LATER_STAGE = re.compile(r"(\S+) from (\S+)")
_EXAMPLES = {
    "length": "128, 512 from 0.9",
    "depth": "3, 6 from 0.25, 12 from 0.5",
    "masked": "0.3, 0.15 from 0.5",
}


@dataclass(frozen=True)
class CurriculumStages:
    """Values, and the share of the run from which each holds; the first from 0."""

    values: tuple[float, ...]
    starts: tuple[float, ...]

    def value_at(self, step: int, total_steps: int) -> float:
        """Return the value at a step, counted from 0."""
        progress = step / total_steps
        return [value for value, start in zip(self.values, self.starts, strict=True) if start <= progress][-1]


def parse_stages(key: str, text: str, minimum: float, maximum: float) -> CurriculumStages:
    """Read stages; `key` is the setting to complain of."""
    advice = f'give values and the share of the run from which each holds, as in "{_EXAMPLES[key]}"'
    first, *later = (part.strip() for part in text.split(","))
    matches = [_LATER_STAGE.fullmatch(part) for part in later]
    try:
        values = [float(first), *(float(match[1]) if match else float("nan") for match in matches)]
        starts = [0.0, *(float(match[2]) if match else float("nan") for match in matches)]
    except ValueError:
        raise SettingError(key, text, advice) from None
    if not all(a < b < 1 for a, b in pairwise(starts)):
        raise SettingError(key, text, f"shares must rise from 0 to below 1; {advice}")
    for value in values:
        if not minimum <= value <= maximum or (minimum >= 1 and value != int(value)):
            raise SettingError(key, text, f"{value:g} must be from {minimum:g} to {maximum:g}; {advice}")
    return CurriculumStages(tuple(values), tuple(starts))


@dataclass(frozen=True)
class CurriculumSettings(Settings):
    """What changes during the run; what is not set stays as the other tables say."""

    length: str | None = setting(None, f'Longest sample, as in "{_EXAMPLES["length"]}".')
    depth: str | None = setting(
        None,
        f'How many of its layers the model has, as in "{_EXAMPLES["depth"]}"; for those that share all of them.',
    )
    mlm_probability: str | None = setting(
        None, f'Share of the pieces to predict, as in "{_EXAMPLES["masked"]}".'
    )

    def check(self) -> None:
        """Refuse what is no list of stages."""
        for key in ("length", "depth", "masked"):
            self.stages(key)

    def stages(self, key: str) -> CurriculumStages | None:
        """Return the stages of a setting."""
        text = getattr(self, key)
        bounds = {"length": (8, 1_000_000), "depth": (1, 100_000), "masked": (0.01, 0.9)}[key]
        return None if text is None else parse_stages(key, text, *bounds)
