"""Settings that change during a run: "128, 512 from 0.9" means 128, and 512 in the last tenth of the run."""

import re
from dataclasses import dataclass
from itertools import pairwise

from albertine.settings import SettingError, Settings, setting

_LATER_STAGE = re.compile(r"(\S+) from (\S+)")
_EXAMPLES = {
    "length": "128, 512 from 0.9",
    "depth": "3, 6 from 0.25, 12 from 0.5",
    "mlm_probability": "0.3, 0.15 from 0.5",
}


@dataclass(frozen=True)
class CurriculumStages:
    """Values of a setting, and the fraction of the run from which each applies; the first starts at 0."""

    values: tuple[float, ...]
    starts: tuple[float, ...]

    def value_at(self, step: int, total_steps: int) -> float:
        """Return the value at a step, counted from 0."""
        progress = step / total_steps
        return [value for value, start in zip(self.values, self.starts, strict=True) if start <= progress][-1]


def parse_stages(key: str, text: str, minimum: float, maximum: float) -> CurriculumStages:
    """Parse the text of a setting; `key` is its name, for errors."""
    advice = f'give values, each with the fraction of the run from which it applies, as in "{_EXAMPLES[key]}"'
    first, *later = (part.strip() for part in text.split(","))
    matches = [_LATER_STAGE.fullmatch(part) for part in later]
    try:
        values = [float(first), *(float(match[1]) if match else float("nan") for match in matches)]
        starts = [0.0, *(float(match[2]) if match else float("nan") for match in matches)]
    except ValueError:
        raise SettingError(key, text, advice) from None
    if not all(a < b < 1 for a, b in pairwise(starts)):
        raise SettingError(key, text, f"fractions must rise from 0 to below 1; {advice}")
    for value in values:
        if not minimum <= value <= maximum or (minimum >= 1 and value != int(value)):
            raise SettingError(key, text, f"{value:g} must be from {minimum:g} to {maximum:g}; {advice}")
    return CurriculumStages(tuple(values), tuple(starts))


@dataclass(frozen=True)
class CurriculumSettings(Settings):
    """Settings that change during a run; each replaces a setting of `model` or `objective`, if given."""

    length: str | None = setting(None, f'Maximum length of samples, as in "{_EXAMPLES["length"]}".')
    depth: str | None = setting(
        None,
        f'Number of layers, as in "{_EXAMPLES["depth"]}"; only for a model that shares all layers.',
    )
    mlm_probability: str | None = setting(
        None, f'Fraction of the tokens to predict, as in "{_EXAMPLES["mlm_probability"]}".'
    )

    def check(self) -> None:
        """Raise `SettingError` if a value is not a list of stages."""
        for key in ("length", "depth", "mlm_probability"):
            self.stages(key)

    def stages(self, key: str) -> CurriculumStages | None:
        """Return the stages of a setting; None if it is not set."""
        text = getattr(self, key)
        bounds = {"length": (8, 1_000_000), "depth": (1, 100_000), "mlm_probability": (0.01, 0.9)}[key]
        return None if text is None else parse_stages(key, text, *bounds)
