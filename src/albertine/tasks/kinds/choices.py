"""A question with options; each option is a sequence with the passage and the question before it.

A passage that is too long loses its end; question and option stay whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.model.heads import LabelOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.examples import Choice
from albertine.tasks.kinds.kind import Frames, Ids, Kind, Metrics, Row, Sample, Sheet, all_the_same, require
from albertine.text.tokenizer import Tokenizer
from albertine.train.work import Part

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Choices(Kind):
    """One option out of as many for every question."""

    parts = ("choice",)

    def __init__(self, tokenizer: Tokenizer, options: int, max_length: int, dropout: float):
        self._frames = Frames(tokenizer, max_length)
        self.head = HeadSettings("choice", labels=1, options=options, dropout=dropout)

    def sheets(self, examples: Sequence[Choice]) -> list[Sheet]:
        """Encode questions."""
        texts = [text for one in examples for text in (one.passage, one.question, *one.options)]
        pieces = iter(self._frames.encode(texts))
        sheets = []
        for example in examples:
            if len(example.options) != self.head.options:
                raise InputError(
                    f"{example.place}: {len(example.options)} options, where others have {self.head.options}"
                )
            passage, question = next(pieces), next(pieces)
            framed = [self._framed(passage, question, next(pieces)) for _ in example.options]
            ids, types = zip(*framed, strict=True)
            sheets.append(Sheet((Sample(ids, types, example.right),)))
        return sheets

    def _framed(self, passage: Ids, question: Ids, option: Ids) -> tuple[Ids, Ids]:
        asked = np.concatenate([question, option])
        room = self._frames.max_length - 3
        # Only where question and option alone are too long does the question lose its beginning.
        asked = asked[-room:] if len(asked) > room else asked
        return self._frames.framed(passage[: room - len(asked)], asked)

    def targets(self, samples: Sequence[Sample]) -> Tensor:
        """Return the numbers of the right options."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.int64)

    def counts(self, samples: Sequence[Sample]) -> Sequence[int]:
        """Return how many questions there are."""
        return (len(samples),)

    def measured(self, output: LabelOutput, targets: Tensor, strip: Strip) -> Sequence[Part]:  # noqa: ARG002  # all kinds are asked alike
        """Return the loss, and how many questions are answered rightly."""
        assert output.loss is not None
        return (Part(output.loss, (output.logits.argmax(1) == targets).sum()),)

    def rows(self, output: LabelOutput, strip: Strip) -> list[Row]:  # noqa: ARG002
        """Return the probabilities of the options."""
        return list(output.logits.float().softmax(1).cpu().numpy())

    def answer(self, example: Choice, sheet: Sheet, rows: Sequence[Row]) -> dict[str, Any]:  # noqa: ARG002
        """Return the likeliest option."""
        (row,) = rows
        best = int(row.argmax())
        return {
            "option": best,
            "letter": _LETTERS[best] if best < len(_LETTERS) else str(best),
            "text": example.options[best],
            "probability": round(float(row[best]), 6),
            "probabilities": [round(float(one), 6) for one in row],
        }

    def assess(self, examples: Sequence[Choice], answers: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score the questions, all and by group."""
        right = np.array([require(one.right, one.place, "right option") for one in examples])
        hits = right == np.array([answer["option"] for answer in answers])
        scores = {"accuracy": float(hits.mean())}
        for group in sorted({one.group for one in examples} - {""}, reverse=True):
            inside = np.array([one.group == group for one in examples])
            scores[f"accuracy_{group}"] = float(hits[inside].mean())
        return scores

    def collapsed(self, examples: Sequence[Choice], answers: Sequence[Mapping[str, Any]]) -> str | None:
        """Say so if always the same option is taken."""
        given = [one["letter"] for one in answers]
        return all_the_same(given, [one.right for one in examples], lambda letter: f"option {letter}")
