"""What a study measures of a run: names, titles and units."""

from dataclasses import dataclass
from typing import Literal

from albertine.errors import InputError, did_you_mean

Source = Literal["size", "training", "probe", "layers", "tasks"]


@dataclass(frozen=True)
class Measure:
    """A number of a run.

    Attributes:
        title: heading of its column.
        source: the part of a run that gives it.
        digits: decimals on pages.
        is_higher_better: whether more is better.
        factor: from the stored number to the unit of pages and claims; 100 for shares in percent.
    """

    title: str
    source: Source
    digits: int = 1
    is_higher_better: bool = True
    factor: float = 1.0

    def text(self, value: float) -> str:
        """Return a value, in the unit of pages, as text."""
        return f"{value:,.{self.digits}f}"


def _share(title: str, source: Source = "probe") -> Measure:
    return Measure(title, source, factor=100.0)


MEASURES = {
    "parameters": Measure("parameters, M", "size", 2, is_higher_better=False, factor=1e-6),
    "megabytes": Measure("MB", "size", 1, is_higher_better=False, factor=1e-6),
    "flops": Measure("training TFLOPs", "training", 1, is_higher_better=False, factor=1e-12),
    "seconds": Measure("training seconds", "training", 0, is_higher_better=False),
    "tokens": Measure("million tokens", "training", 2, factor=1e-6),
    "tokens_per_second": Measure("tokens per second", "training", 0),
    "mask_loss": Measure("[MASK] loss", "probe", 3, is_higher_better=False),
    "mask_accuracy": _share("[MASK] %"),
    "sop_accuracy": _share("SOP %"),
    "nsp_accuracy": _share("NSP %"),
    # Of the distances between input and output of each layer: how much neighbouring ones differ on average,
    # in percent of their mean.
    "roughness": Measure("roughness, %", "layers", 1, is_higher_better=False, factor=100.0),
    "last_angle": Measure("last angle, degrees", "layers", 1),
    "last_distance": Measure("last distance", "layers", 2),
    # After the last of four times as many layers; only where all layers share their weights.
    "iterated_angle": Measure("angle at 4 x depth", "layers", 1),
    "mnli": _share("MNLI", "tasks"),
    "squad-1.1": _share("SQuAD F1", "tasks"),
    "sst-2": _share("SST-2", "tasks"),
    "average": _share("average", "tasks"),
}


def find_measure(name: str) -> Measure:
    """Return a measure; raise `InputError` if there is none of this name."""
    if name not in MEASURES:
        raise InputError(
            f"{name}: unknown measure{did_you_mean(name, MEASURES)}; known: {', '.join(MEASURES)}"
        )
    return MEASURES[name]
