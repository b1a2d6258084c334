"""Values that change during a run: "128, 512 from 0.9" is 128, and 512 for the last tenth of the steps."""

import re
from dataclasses import dataclass
from itertools import pairwise

from albertine.settings import SettingError, Settings, setting

_LATER = re.compile(r"(\S+) from (\S+)")
_LIKE = {
    "length": "128, 512 from 0.9",
    "depth": "3, 6 from 0.25, 12 from 0.5",
    "masked": "0.3, 0.15 from 0.5",
}


@dataclass(frozen=True)
class Stages:
    """Values, and the share of the run from which each holds; the first from 0."""

    values: tuple[float, ...]
    begins: tuple[float, ...]

    def at(self, step: int, steps: int) -> float:
        """Return the value at a step, counted from 0."""
        now = step / steps
        return [value for value, begin in zip(self.values, self.begins, strict=True) if begin <= now][-1]


def parse(key: str, text: str, least: float, most: float) -> Stages:
    """Read stages; `key` is the setting to complain of."""
    how = f'give values and the share of the run from which each holds, as in "{_LIKE[key]}"'
    first, *later = (part.strip() for part in text.split(","))
    matches = [_LATER.fullmatch(part) for part in later]
    try:
        values = [float(first), *(float(match[1]) if match else float("nan") for match in matches)]
        begins = [0.0, *(float(match[2]) if match else float("nan") for match in matches)]
    except ValueError:
        raise SettingError(key, text, how) from None
    if not all(a < b < 1 for a, b in pairwise(begins)):
        raise SettingError(key, text, f"shares must rise from 0 to below 1; {how}")
    for value in values:
        if not least <= value <= most or (least >= 1 and value != int(value)):
            raise SettingError(key, text, f"{value:g} must be from {least:g} to {most:g}; {how}")
    return Stages(tuple(values), tuple(begins))


@dataclass(frozen=True)
class Curriculum(Settings):
    """What changes during the run; what is not set stays as the other tables say."""

    length: str | None = setting(None, f'Longest sample, as in "{_LIKE["length"]}".')
    depth: str | None = setting(
        None,
        f'How many of its layers the model has, as in "{_LIKE["depth"]}"; for those that share all of them.',
    )
    masked: str | None = setting(None, f'Share of the pieces to predict, as in "{_LIKE["masked"]}".')

    def check(self) -> None:
        """Refuse what is no list of stages."""
        for key in ("length", "depth", "masked"):
            self.stages(key)

    def stages(self, key: str) -> Stages | None:
        """Return the stages of a setting."""
        text = getattr(self, key)
        bounds = {"length": (8, 1_000_000), "depth": (1, 100_000), "masked": (0.01, 0.9)}[key]
        return None if text is None else parse(key, text, *bounds)
