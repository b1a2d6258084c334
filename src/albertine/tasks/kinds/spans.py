"""A question on a passage, whose answer is a piece of it, or that has none.

A passage longer than the limit is read through windows that overlap. Of several
windows with a token, the one counts where the token has most context on its shorter
side. An answer is the characters of the passage from its first token to its last, so
it is written as the passage has it, whatever the tokenizer makes of accents or capitals.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.model.heads import SpanOutput, SpanTargets
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.answers import assess
from albertine.tasks.examples import Question
from albertine.tasks.kinds.kind import Frames, Ids, Kind, Metrics, Row, Sample, Sheet, all_the_same, require
from albertine.tasks.settings import ReadingTask
from albertine.text.tokenizer import Tokenizer
from albertine.train.work import Part


@dataclass(frozen=True)
class Target:
    """Where the answer starts and ends in a window, and whether it is there at all."""

    start: int
    end: int
    answerable: int


@dataclass(frozen=True)
class Window:
    """The part of a passage that a sample sees.

    Attributes:
        first: index of its first token in the sequence.
        spans: the characters of each of its tokens.
        best: whether a token has its best context here.
    """

    first: int
    spans: NDArray[np.int64]
    best: NDArray[np.bool_]


@dataclass(frozen=True)
class Candidate:
    """A piece of the passage that may be the answer."""

    score: float
    start: int
    end: int


class Spans(Kind):
    """The answer as a piece of the passage.

    Attributes:
        threshold: above it, there is no answer; found on dev.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        reading: ReadingTask,
        max_length: int,
        dropout: float,
        *,
        maybe_none: bool,
        answerable: bool,
    ):
        self._frames = Frames(tokenizer, max_length)
        self._literal = tokenizer.literal()
        self._reading = reading
        self.maybe_none, self.threshold = maybe_none, 0.0
        self.head = HeadSettings("span", answerable=answerable, dropout=dropout)
        self.parts = ("span", "answerable") if answerable else ("span",)

    # From a question to windows.

    def sheets(self, examples: Sequence[Question]) -> list[Sheet]:
        """Encode questions; the windows of one are its samples."""
        asked = self._frames.encode([one.question for one in examples])
        # A passage always has half of the room at least.
        longest = min(self._reading.question_length, (self._frames.max_length - 3) // 2)
        passages = list(dict.fromkeys(one.passage for one in examples))  # many questions ask about one
        placed = dict(zip(passages, self._literal.placed(passages), strict=True))
        return [
            self._sheet(one, question[:longest], *placed[one.passage])
            for one, question in zip(examples, asked, strict=True)
        ]

    def _sheet(self, example: Question, question: Ids, ids: list[int], spans: list[tuple[int, int]]) -> Sheet:
        room = self._frames.max_length - len(question) - 3
        starts = list(_starts(len(ids), room, self._reading.stride))
        places = np.array(spans, np.int64).reshape(-1, 2)
        pieces = self._frames.without_special(np.array(ids, np.int32))
        best = _best_windows(starts, len(ids), room)
        samples, windows = [], []
        for number, start in enumerate(starts):
            inside = slice(start, start + room)
            row, types = self._frames.framed(question, pieces[inside])
            window = Window(len(question) + 2, places[inside], best[inside] == number)
            samples.append(Sample((row,), (types,), self._target(example, window)))
            windows.append(window)
        return Sheet(tuple(samples), tuple(windows))

    def _target(self, example: Question, window: Window) -> Target | None:
        """Find the answer in a window; what is not wholly there is not there."""
        if example.answers is None:
            return None
        if example.answers and len(window.spans):
            text = example.answers[0].text
            start = example.answers[0].start + len(text) - len(text.lstrip())
            end = start + len(text.strip())
            touched = np.flatnonzero((window.spans[:, 1] > start) & (window.spans[:, 0] < end))
            # Whole: the window reaches over both ends of it, up to characters that no token stands for.
            if len(touched):
                before = touched[0] > 0 or window.spans[0, 0] <= start
                after = touched[-1] + 1 < len(window.spans) or window.spans[-1, 1] >= end
                if before and after:
                    return Target(window.first + int(touched[0]), window.first + int(touched[-1]), 1)
        return Target(0, 0, 0)

    # What the head is to find out.

    def targets(self, samples: Sequence[Sample]) -> SpanTargets:
        """Return where the answers are."""
        start, end, answerable = (
            torch.tensor([getattr(sample.target, key) for sample in samples], dtype=torch.int64)
            for key in ("start", "end", "answerable")
        )
        return SpanTargets(start, end, answerable if self.head.answerable else None)

    def counts(self, samples: Sequence[Sample]) -> Sequence[int]:
        """Return how many windows there are."""
        return (len(samples),) * len(self.parts)

    def measured(self, output: SpanOutput, targets: SpanTargets, strip: Strip) -> Sequence[Part]:
        """Return the losses, how many windows have both ends right, how many know if there is one."""
        assert output.loss is not None
        with torch.no_grad():
            least = torch.finfo(torch.float32).min
            start, end = (
                strip.pad(one.float(), least).argmax(1) if len(strip) else targets.start
                for one in (output.start_logits, output.end_logits)
            )
            right = ((start == targets.start) & (end == targets.end)).sum()
        if output.answerable_logits is None or targets.answerable is None:
            return (Part(output.loss, right),)
        answerable = torch.nn.functional.binary_cross_entropy_with_logits(
            output.answerable_logits.float(), targets.answerable.float(), reduction="sum"
        ) / max(1, len(strip))
        known = ((output.answerable_logits > 0) == (targets.answerable == 1)).sum()
        return (Part(output.loss - answerable, right), Part(answerable, known))

    # From scores to an answer.

    def rows(self, output: SpanOutput, strip: Strip) -> list[Row]:
        """Return of each window its tokens' scores as start and as end, and that of being answerable."""
        start, end = (one.float().cpu().numpy() for one in (output.start_logits, output.end_logits))
        answerable = np.zeros(len(strip), np.float32)
        if output.answerable_logits is not None:
            answerable = output.answerable_logits.float().cpu().numpy()
        cuts = strip.offsets.numpy()
        return [
            np.concatenate([start[a:b], end[a:b], answerable[at : at + 1]])
            for at, (a, b) in enumerate(pairwise(cuts.tolist()))
        ]

    def answer(self, example: Question, sheet: Sheet, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the best answer of all windows, what comes near it, and any doubt that there is one."""
        found: list[Candidate] = []
        nothing = np.inf
        for window, row in zip(sheet.notes, rows, strict=True):
            size = len(row) // 2
            start, end = row[:size], row[size : 2 * size]
            nothing = min(nothing, -row[-1] if self.head.answerable else start[0] + end[0])
            found += self._candidates(window, start, end)
        best = _without_doubles(sorted(found, key=lambda one: -one.score), self._reading.best)
        if not self.head.answerable:
            nothing = nothing - best[0].score if best else np.inf
        nothing = round(float(nothing), 6) if best else 1e9
        texts = [example.passage[one.start : one.end] for one in best]
        chances = _softmax(np.array([one.score for one in best]))
        none = self.maybe_none and nothing > self.threshold
        answer: dict[str, Any] = {"answer": texts[0] if texts and not none else ""}
        if texts and not none:
            answer |= {"start": best[0].start, "end": best[0].end}
        if self.maybe_none:
            doubt = min(50.0, max(-50.0, nothing - self.threshold))
            answer |= {
                "no_answer": nothing,
                "no_answer_probability": round(1 / (1 + math.exp(-doubt)), 6),
                "otherwise": texts[0] if texts else "",
            }
        answer["best"] = [
            {"text": text, "start": one.start, "probability": round(float(chance), 6)}
            for text, one, chance in zip(texts, best, chances, strict=True)
        ]
        return answer

    def _candidates(self, window: Window, start: Row, end: Row) -> Iterator[Candidate]:
        """Yield the best pieces of a window, none longer than answers may be."""
        count = len(window.spans)
        if not count:
            return
        longest = min(self._reading.answer_length, count)
        inside = slice(window.first, window.first + count)
        padded = np.concatenate([end[inside], np.full(longest, -np.inf, np.float32)])
        ends = np.lib.stride_tricks.sliding_window_view(padded, longest)[:count]
        scores = np.where(window.best, start[inside], -np.inf)[:, None] + ends
        flat = scores.reshape(-1)
        most = min(2 * self._reading.best, len(flat))
        for at in np.argpartition(-flat, most - 1)[:most]:
            if np.isfinite(flat[at]):
                first, further = divmod(int(at), longest)
                left, right = window.spans[first, 0], window.spans[first + further, 1]
                if left < right:
                    yield Candidate(float(flat[at]), int(left), int(right))

    def assess(self, examples: Sequence[Question], answers: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score as the official script of SQuAD does."""
        gold = [[answer.text for answer in require(one.answers, one.place, "answers")] for one in examples]
        given = [answer.get("otherwise", answer["answer"]) for answer in answers]
        doubts = [answer["no_answer"] for answer in answers] if self.maybe_none else None
        return assess(gold, given, doubts, self.threshold)

    def settle(self, examples: Sequence[Question], answers: Sequence[Mapping[str, Any]]) -> bool:
        """Find the threshold above which there is no answer."""
        if self.maybe_none:
            self.threshold = self.assess(examples, answers)["best_f1_threshold"]
        return self.maybe_none

    def collapsed(self, examples: Sequence[Question], answers: Sequence[Mapping[str, Any]]) -> str | None:
        """Say so if nothing is ever answered."""
        if not self.maybe_none:
            return None
        truths = [bool(one.answers) for one in examples]
        return all_the_same(
            [bool(one["answer"]) for one in answers], truths, lambda any_: "some piece" if any_ else "none"
        )


def _starts(tokens: int, room: int, stride: int) -> Iterator[int]:
    """Yield where the windows of a passage begin."""
    start = 0
    while True:
        yield start
        if start + room >= tokens:
            return
        start += min(room, stride)


def _best_windows(starts: Sequence[int], tokens: int, room: int) -> NDArray[np.int64]:
    """Return for each token the window in which it has most context on its shorter side."""
    best, context = np.zeros(tokens, np.int64), np.full(tokens, -1.0)
    for number, start in enumerate(starts):
        inside = np.arange(start, min(start + room, tokens))
        shorter = np.minimum(inside - start, inside[::-1] - start) + 0.01 * len(inside)
        better = shorter > context[inside]
        best[inside[better]], context[inside[better]] = number, shorter[better]
    return best


def _without_doubles(found: list[Candidate], most: int) -> list[Candidate]:
    """Keep the best of those with the same characters, and so many in all."""
    kept: dict[tuple[int, int], Candidate] = {}
    for one in found:
        kept.setdefault((one.start, one.end), one)
        if len(kept) == most:
            break
    return list(kept.values())


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    chances = np.exp(scores - scores.max(initial=-np.inf))
    return np.asarray(chances / chances.sum())
