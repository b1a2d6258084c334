"""Words, each with a tag; a word's tag is read at its first piece."""

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
from albertine.tasks.examples import Tagged
from albertine.tasks.kinds.kind import Frames, Ids, Kind, Metrics, Row, Sample, Sheet, all_the_same, require
from albertine.tasks.metrics import tagging
from albertine.text.tokenizer import Tokenizer
from albertine.train.work import Part

NONE = -100


class Tags(Kind):
    """A tag for every word."""

    parts = ("tag",)

    def __init__(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int, dropout: float):
        self._frames = Frames(tokenizer, max_length)
        self.labels = tuple(labels)
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self.head = HeadSettings("token", labels=len(self.labels), dropout=dropout)

    def sheets(self, examples: Sequence[Tagged]) -> list[Sheet]:
        """Encode sentences; one that is too long becomes several samples, cut between words."""
        pieces = iter(self._frames.encode([word for one in examples for word in one.words]))
        unknown = np.array([self._frames.tokenizer.special.unknown], np.int32)
        sheets = []
        for example in examples:
            words = [next(pieces)[: self._frames.max_length - 2] for _ in example.words]
            words = [word if len(word) else unknown for word in words]  # of characters that mean nothing
            tags = (
                [NONE] * len(words)
                if example.tags is None
                else [self._number(example, t) for t in example.tags]
            )
            sheets.append(Sheet(tuple(self._sample(*part) for part in self._parts(words, tags))))
        return sheets

    def _number(self, example: Tagged, tag: str) -> int:
        number = self._numbers.get(tag)
        if number is None:
            known = shortened(", ".join(self.labels))
            raise InputError(f"{example.place}: tag {shortened(tag)} is new; the model knows {known}")
        return number

    def _parts(self, words: list[Ids], tags: list[int]) -> list[tuple[list[Ids], list[int]]]:
        parts: list[tuple[list[Ids], list[int]]] = [([], [])]
        filled, room = 0, self._frames.max_length - 2
        for word, tag in zip(words, tags, strict=True):
            if filled + len(word) > room:
                parts.append(([], []))
                filled = 0
            parts[-1][0].append(word)
            parts[-1][1].append(tag)
            filled += len(word)
        return parts

    def _sample(self, words: list[Ids], tags: list[int]) -> Sample:
        ids, types = self._frames.framed(np.concatenate([np.empty(0, np.int32), *words]))
        starts = 1 + np.cumsum([0, *(len(word) for word in words[:-1])])[: len(words)]
        target = np.full((2, len(ids)), NONE, np.int64)  # the tags, and which tokens start a word
        target[0, starts], target[1, starts] = tags, 1
        return Sample((ids,), (types,), target)

    def targets(self, samples: Sequence[Sample]) -> Tensor:
        """Return the tag of each token; most have none."""
        return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *(one.target[0] for one in samples)]))

    def counts(self, samples: Sequence[Sample]) -> Sequence[int]:
        """Return how many tags there are."""
        return (sum(int((sample.target[0] != NONE).sum()) for sample in samples),)

    def measured(self, output: LabelOutput, targets: Tensor, strip: Strip) -> Sequence[Part]:  # noqa: ARG002  # all kinds are asked alike
        """Return the loss, and how many tags are right."""
        assert output.loss is not None
        return (Part(output.loss, (output.logits.argmax(1) == targets).sum()),)

    def rows(self, output: LabelOutput, strip: Strip) -> list[Row]:
        """Return the probabilities of the tags, for each token in turn."""
        each = output.logits.float().softmax(1).cpu().numpy()
        cuts = strip.offsets[1:-1].numpy()
        return [part.reshape(-1) for part in np.split(each, cuts)]

    def answer(self, example: Tagged, sheet: Sheet, rows: Sequence[Row]) -> dict[str, Any]:
        """Return a tag for each word."""
        found = []
        for sample, row in zip(sheet.samples, rows, strict=True):
            each = row.reshape(-1, len(self.labels))
            found.append(each[sample.target[1] == 1])
        every = np.concatenate(found)
        best = every.argmax(1)
        return {
            "words": list(example.words),
            "tags": [self.labels[one] for one in best],
            "probabilities": [round(float(row[one]), 6) for row, one in zip(every, best, strict=True)],
        }

    def assess(self, examples: Sequence[Tagged], answers: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score words, and, where tags are B-, I- and O, what they mark."""
        right = [require(one.tags, one.place, "tags") for one in examples]
        return tagging(right, [answer["tags"] for answer in answers])

    def collapsed(self, examples: Sequence[Tagged], answers: Sequence[Mapping[str, Any]]) -> str | None:
        """Say so if all tags are one."""
        given = [tag for answer in answers for tag in answer["tags"]]
        return all_the_same(given, [tag for one in examples for tag in one.tags or ()], str)
