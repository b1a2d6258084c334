"""Settings that change during a run: "128, 512 from 0.9" means 128, but 512 in the last tenth of the run.

A depth of "grow" means 1, 2, half and finally all layers. See docs/decisions/growing-depth.md.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from albertine.settings import SettingError, Settings, setting

_LATER_STAGE = re.compile(r"(\S+) from (\S+)")
_EXAMPLES = {
    "length": "128, 512 from 0.9",
    "depth": "3, 6 from 0.25, 12 from 0.5",
    "mlm_probability": "0.3, 0.15 from 0.5",
}
GROW = "grow"
CURRICULUM_KEYS = ("length", "depth", "mlm_probability")
# Shares of the time that a growing depth spends with 1, 2, half and all layers.
_TIME_SHARES = (0.25, 0.2, 0.25, 0.3)
_FIXED_COST = 0.35  # of a step without any layer, in layers
_MIN_STEPS, _MIN_STEP_SHARE = 50, 0.04  # of a run, and of each stage


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
    """Return the stages that the text of a setting describes; raise `SettingError` if it is invalid.

    Args:
        key: name of the setting.
        text: its value.
        minimum: smallest allowed number; if it is 1 or more, numbers must be whole.
        maximum: largest allowed number.
    """
    example = f'as in "{_EXAMPLES[key]}"' + (f', or "{GROW}"' if key == "depth" else "")
    first, *later = (part.strip() for part in text.split(","))
    matches = map(_LATER_STAGE.fullmatch, later)
    stages = [(first, "0"), *((match[1], match[2]) if match else ("", "") for match in matches)]
    try:
        values, starts = zip(*((float(value), float(start)) for value, start in stages), strict=True)
    except ValueError:
        raise SettingError(
            key,
            text,
            "must be numbers separated by commas, each but the first with the fraction of the run from which "
            f"it applies, {example}",
        ) from None
    if not all(start < next_start < 1 for start, next_start in pairwise(starts)):
        raise SettingError(key, text, f"the fractions must be above 0, below 1 and increasing, {example}")
    for value in values:
        if not minimum <= value <= maximum:
            problem = f"{value:,.12g} is not from {minimum:,} to {maximum:,}"
            raise SettingError(key, text, f"{problem}; give values {example}")
        if minimum >= 1 and value != int(value):
            raise SettingError(key, text, f"{value:,.12g} is not a whole number; give values {example}")
    return CurriculumStages(values, starts)


def growing_depth(layers: int, steps: int) -> str:
    """Return the stages of a depth that grows to a number of layers, as the text of the setting.

    A step with few layers takes less time, so stages with few layers have more steps.

    Args:
        layers: layers of the model, and of the last stage.
        steps: steps of the run; in a very short one the depth does not grow.
    """
    if steps < _MIN_STEPS:
        return str(layers)
    depths = (1, min(2, layers), max(1, layers // 2), layers)
    step_shares: dict[int, float] = defaultdict(float)
    for depth, time_share in zip(depths, _TIME_SHARES, strict=True):
        step_shares[depth] += time_share / (depth + _FIXED_COST)
    smallest = _MIN_STEP_SHARE * sum(step_shares.values())
    step_shares = {depth: max(share, smallest) for depth, share in sorted(step_shares.items())}
    start = 0.0
    stages: list[str] = []
    for depth, share in step_shares.items():
        stages.append(f"{depth} from {start:.2f}" if stages else f"{depth}")
        start += share / sum(step_shares.values())
    return ", ".join(stages)


@dataclass(frozen=True)
class CurriculumSettings(Settings):
    """Settings that change during a run.

    Each one, if given, is used in place of a constant: `length` of `objective.max_length`, `depth` of
    `model.layers` (which must not be smaller), `mlm_probability` of `objective.mlm_probability`.
    """

    length: str | None = setting(None, f'Maximum length of samples, as in "{_EXAMPLES["length"]}".')
    depth: str | None = setting(
        None,
        f'Number of layers, as in "{_EXAMPLES["depth"]}", or "{GROW}" for 1, 2, half and then all layers; '
        "only for a model whose layers all share weights.",
    )
    mlm_probability: str | None = setting(
        None, f'Fraction of the tokens to predict, as in "{_EXAMPLES["mlm_probability"]}".'
    )

    def check(self) -> None:
        """Raise `SettingError` if the text of a setting does not describe valid stages."""
        for key in CURRICULUM_KEYS:
            self.stages(key)

    def stages(self, key: str) -> CurriculumStages | None:
        """Return the stages of a setting; None if it is not set, or if it is a depth of "grow"."""
        text = getattr(self, key)
        if key == "depth" and text == GROW:  # depends on the model; the settings of a run have the stages
            return None
        bounds = {"length": (8, 1_000_000), "depth": (1, 100_000), "mlm_probability": (0.01, 0.9)}[key]
        return None if text is None else parse_stages(key, text, *bounds)

    def boundaries(self) -> list[float]:
        """Return the fractions of the run at which a setting changes, with 0 and 1."""
        starts = {0.0, 1.0}
        for key in CURRICULUM_KEYS:
            stages = self.stages(key)
            starts |= set(stages.starts) if stages else set()
        return sorted(starts)
