"""One text or two, with a label out of several, or a number."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.model.heads import LabelOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.settings.schema import shortened
from albertine.tasks.examples import Labelled
from albertine.tasks.kinds.kind import Frames, Kind, Metrics, Row, Sample, Sheet, all_the_same, require
from albertine.tasks.metrics import score
from albertine.text.tokenizer import Tokenizer
from albertine.train.work import Part


class Texts(Kind):
    """What labels and numbers have in common: texts in a frame, and one thing to find out."""

    def __init__(self, tokenizer: Tokenizer, max_length: int):
        self._frames = Frames(tokenizer, max_length)

    def sheets(self, examples: Sequence[Labelled]) -> list[Sheet]:
        """Encode examples."""
        pieces = iter(self._frames.encode([text for one in examples for text in one.texts]))
        sheets = []
        for example in examples:
            first, *rest = (next(pieces) for _ in example.texts)
            if rest:
                ids, types = self._frames.framed(*self._frames.fitted(first, rest[0]))
            else:
                ids, types = self._frames.framed(first[: self._frames.max_length - 2])
            sheets.append(Sheet((Sample((ids,), (types,), self.target(example)),)))
        return sheets

    @abstractmethod
    def target(self, example: Labelled) -> Any:
        """Return what is to be found out."""

    def counts(self, samples: Sequence[Sample]) -> Sequence[int]:
        """Return how many there are."""
        return (len(samples),)


class Labels(Texts):
    """A label out of several."""

    parts = ("label",)

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
        scores: Sequence[str],
        dropout: float,
    ):
        super().__init__(tokenizer, max_length)
        self.labels = tuple(labels)
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self._scores = tuple(scores)
        self.head = HeadSettings("classify", labels=len(self.labels), dropout=dropout)

    def target(self, example: Labelled) -> int | None:
        """Return the number of the label."""
        if example.label is None:
            return None
        number = self._numbers.get(example.label)
        if number is None:
            known = shortened(", ".join(self.labels))
            raise InputError(
                f"{example.place}: label {shortened(example.label)} is new; the model knows {known}"
            )
        return number

    def targets(self, samples: Sequence[Sample]) -> Tensor:
        """Return the numbers of the labels."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.int64)

    def measured(self, output: LabelOutput, targets: Tensor, strip: Strip) -> Sequence[Part]:  # noqa: ARG002  # all kinds are asked alike
        """Return the loss, and how many labels are right."""
        assert output.loss is not None
        return (Part(output.loss, (output.logits.argmax(1) == targets).sum()),)

    def rows(self, output: LabelOutput, strip: Strip) -> list[Row]:  # noqa: ARG002
        """Return the probabilities of the labels."""
        return list(output.logits.float().softmax(1).cpu().numpy())

    def answer(self, example: Labelled, sheet: Sheet, rows: Sequence[Row]) -> dict[str, Any]:  # noqa: ARG002
        """Return the likeliest label."""
        (row,) = rows
        best = int(row.argmax())
        every = {label: round(float(value), 6) for label, value in zip(self.labels, row, strict=True)}
        return {"label": self.labels[best], "probability": round(float(row[best]), 6), "probabilities": every}

    def assess(self, examples: Sequence[Labelled], answers: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score the labels."""
        right = np.array([self._numbers[require(one.label, one.place, "label")] for one in examples])
        given = np.array([self._numbers[answer["label"]] for answer in answers])
        return {name: score(name, right, given, len(self.labels)) for name in self._scores}

    def collapsed(self, examples: Sequence[Labelled], answers: Sequence[Mapping[str, Any]]) -> str | None:
        """Say so if all labels are one."""
        return all_the_same([one["label"] for one in answers], [one.label for one in examples], str)


class Numbers(Texts):
    """A number."""

    parts = ("number",)

    def __init__(self, tokenizer: Tokenizer, max_length: int, scores: Sequence[str], dropout: float):
        super().__init__(tokenizer, max_length)
        self._scores = tuple(scores)
        self.head = HeadSettings("regress", labels=1, dropout=dropout)

    def target(self, example: Labelled) -> float | None:
        """Return the number."""
        return example.value

    def targets(self, samples: Sequence[Sample]) -> Tensor:
        """Return the numbers."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.float32)

    def measured(self, output: LabelOutput, targets: Tensor, strip: Strip) -> Sequence[Part]:  # noqa: ARG002
        """Return the squared error; a number is never just right."""
        assert output.loss is not None
        return (Part(output.loss, torch.full((), torch.nan, device=output.loss.device)),)

    def rows(self, output: LabelOutput, strip: Strip) -> list[Row]:  # noqa: ARG002
        """Return the numbers."""
        return list(output.logits.float().cpu().numpy()[:, None])

    def answer(self, example: Labelled, sheet: Sheet, rows: Sequence[Row]) -> dict[str, Any]:  # noqa: ARG002
        """Return the number."""
        return {"value": float(rows[0][0])}

    def assess(self, examples: Sequence[Labelled], answers: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score the numbers."""
        right = np.array([require(one.value, one.place, "number") for one in examples], np.float64)
        given = np.array([answer["value"] for answer in answers], np.float64)
        return {name: score(name, right, given, 0) for name in self._scores}

    def collapsed(self, examples: Sequence[Labelled], answers: Sequence[Mapping[str, Any]]) -> str | None:
        """Say so if all numbers are about one."""
        right, given = (
            np.array(values, np.float64)
            for values in ([one.value for one in examples], [one["value"] for one in answers])
        )
        if len(given) < 20 or right.std() == 0 or given.std() > 0.01 * right.std():
            return None
        return f"every answer is about {given.mean():.3g}"
