"""What judges an export in int8: the scores of its source and its own, on the same data."""

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from albertine.errors import InputError
from albertine.export.settings import ExportSettings
from albertine.model.strip import Strip
from albertine.tasks.formats.texts import read_texts
from albertine.text.read_errors import ReadErrors

CALIBRATION_ROWS = 300
CALIBRATION_TOKENS = 1024  # of one input of the quantizer
Row = TypeVar("Row")


@dataclass(frozen=True)
class Accuracy:
    """A score of a model.

    Attributes:
        score: the score by which models are compared; a point is 0.01.
        text: the scores in words.
        count: number of examples, or of masked tokens.
        unit: what is counted.
    """

    score: float
    text: str
    count: int
    unit: str


@dataclass(frozen=True)
class Int8Scores:
    """What int8 costs a model.

    Attributes:
        before: scores of the source in fp32.
        after: scores of the export.
        float_activations: number of activations that stay in floating point.
        activations: number of all quantized activations; 0 if they were not counted.
    """

    before: Accuracy
    after: Accuracy
    float_activations: int = 0
    activations: int = 0

    @property
    def loss(self) -> float:
        """Lost points; rounded, so that the errors of floating point do not pass a limit."""
        return round(100 * (self.before.score - self.after.score), 9)

    @property
    def text(self) -> str:
        """The scores in words."""
        rest = ""
        if self.float_activations:
            rest = f", with {self.float_activations} of {self.activations} activations in floating point"
        scores = f"In int8{rest}: {self.after.text}; in fp32: {self.before.text}"
        return f"{scores}; on {self.after.count:,} {self.after.unit}."


class Judge(ABC):
    """Computes the scores of a model and of its export, and gives inputs for the calibration.

    Attributes:
        has_labels: whether it can compute scores; otherwise it only has inputs for the calibration.
    """

    has_labels = True

    @abstractmethod
    def calibration_strips(self) -> Sequence[Strip]:
        """Return input that shows the ranges of the activations."""

    @abstractmethod
    def score_source(self) -> Accuracy:
        """Return the score of the source in fp32."""

    @abstractmethod
    def score_export(self, folder: Path) -> Accuracy:
        """Return the score of the export, in the precision in which it is used by default."""


def missing_data_message(option: str, shown: str, *, must_judge: bool, needs_calibration: bool) -> str:
    """Return why an option is missing, which is either needed as calibration, or to judge the export.

    Args:
        option: its name.
        shown: what of the data shows the loss.
        must_judge: whether it is needed to judge the export.
        needs_calibration: whether it is needed as calibration.
    """
    if option == "corpus" and not must_judge:
        return f"--corpus is missing: OpenVINO's int8 is calibrated with its {shown}; or give --calibrate"
    unseen = "--force with --calibrate exports" if needs_calibration else "--force exports"
    rest = f"{unseen} it unseen" if must_judge else "or give --calibrate with rows without labels"
    return f"--{option} is missing: its {shown} show what int8 loses; {rest}"


def sample_rows(rows: Iterable[Row], count: int) -> list[Row]:
    """Return a random sample of rows of any number, the same at each call; files may be sorted."""
    generator = random.Random(0)
    return heapq.nsmallest(count, rows, key=lambda _: generator.random())


def sample_different(texts: Iterable[str], count: int) -> list[str]:
    """Return a random sample of different texts of any number, the same at each call."""
    by_hash: dict[bytes, str] = {}
    for text in texts:
        by_hash[sha256(text.encode()).digest()] = text
        if len(by_hash) > 2 * count:
            by_hash = dict(heapq.nsmallest(count, by_hash.items()))
    return [text for _, text in heapq.nsmallest(count, by_hash.items())]


def sample_texts(source: str, settings: ExportSettings, count: int) -> list[str]:
    """Return a random sample of the different texts of a file."""
    errors = ReadErrors(skip=settings.on_error == "skip")
    texts = (example.texts[0] for example in read_texts(source, settings, errors))
    sample = sample_different(texts, count)
    if not sample:
        raise InputError(f"{source}: no texts")
    return sample
