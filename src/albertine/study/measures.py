"""What a study measures of a run: names, titles and units."""

from dataclasses import dataclass
from typing import Literal

from albertine.errors import InputError, did_you_mean
from albertine.settings import ModelSettings

MeasureSource = Literal["size", "training", "probe", "layers", "tasks"]


@dataclass(frozen=True)
class Measure:
    """A number of a run.

    Attributes:
        title: heading of its column.
        source: what measures it: a part of a run.
        digits: decimals on pages.
        is_higher_better: whether more is better.
        factor: from the stored number to the unit of pages and claims; 100 for shares in percent.
        is_time: whether it depends on the machine that trains.
    """

    title: str
    source: MeasureSource
    digits: int = 1
    is_higher_better: bool = True
    factor: float = 1.0
    is_time: bool = False

    def text(self, value: float) -> str:
        """Return a value, in the unit of pages, as text."""
        return f"{value:,.{self.digits}f}"


def _percentage(title: str, source: MeasureSource = "probe") -> Measure:
    return Measure(title, source, factor=100.0)


MEASURES = {
    "parameters": Measure("parameters, M", "size", 2, is_higher_better=False, factor=1e-6),
    "megabytes": Measure("MB", "size", 1, is_higher_better=False, factor=1e-6),
    "flops": Measure("training TFLOPs", "training", 1, is_higher_better=False, factor=1e-12),
    "seconds": Measure("training seconds", "training", 0, is_higher_better=False, is_time=True),
    "tokens": Measure("million tokens", "training", 2, factor=1e-6),
    "tokens_per_second": Measure("tokens per second", "training", 0, is_time=True),
    "mask_loss": Measure("[MASK] loss", "probe", 3, is_higher_better=False),
    "mask_accuracy": _percentage("[MASK] %"),
    "sop_accuracy": _percentage("SOP %"),
    "nsp_accuracy": _percentage("NSP %"),
    # Mean absolute difference of the distances of neighbouring layers, in percent of the mean distance.
    "roughness": Measure("roughness, %", "layers", 1, is_higher_better=False, factor=100.0),
    "last_angle": Measure("last angle, degrees", "layers", 1),
    "last_distance": Measure("last distance", "layers", 2),
    # After the last of four times as many layers; only where all layers share their weights.
    "iterated_angle": Measure("angle at 4 x depth", "layers", 1),
    "mean_steps": Measure("mean steps", "layers", 1, is_higher_better=False),  # of models that halt
    "mnli": _percentage("MNLI", "tasks"),
    "squad-1.1": _percentage("SQuAD (EM + F1) / 2", "tasks"),  # as in the averages of the paper
    "race": _percentage("RACE", "tasks"),
    "dream": _percentage("DREAM", "tasks"),
    "sst-2": _percentage("SST-2", "tasks"),
    "rte": _percentage("RTE", "tasks"),
    "sts-b": _percentage("STS-B", "tasks"),
    "mrpc": _percentage("MRPC", "tasks"),
    "cola": _percentage("CoLA", "tasks"),
    "qqp": _percentage("QQP", "tasks"),
    "qnli": _percentage("QNLI", "tasks"),
    "average": _percentage("average", "tasks"),
}


def find_measure(name: str) -> Measure:
    """Return a measure; raise `InputError` if there is none of this name."""
    if name not in MEASURES:
        raise InputError(
            f"{name}: unknown measure{did_you_mean(name, MEASURES)}; known: {', '.join(MEASURES)}"
        )
    return MEASURES[name]


def why_impossible(name: str, model: ModelSettings) -> str | None:
    """Return the settings that a model needs for a measure and does not have; None if it has them."""
    if name == "mean_steps" and model.depth_rule != "halting":
        return "model.depth_rule must be halting"
    if name == "iterated_angle" and not (model.shares_all_layers and model.inner_groups == 1):
        return "all layers must share their weights, in groups of one layer"
    if name in ("sop_accuracy", "nsp_accuracy") and model.segments == 1:
        return "model.segments must be 2"
    return None
