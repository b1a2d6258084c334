"""Questions: their options, answers that are missing or long, and passages of dev that are also in train."""

import hashlib
from collections.abc import Iterable

from albertine.check.findings import DataItem, Finding, Severity, Tally
from albertine.display import display_text, percent
from albertine.tasks.settings import SequenceSettings
from albertine.text.tokenizer import Tokenizer
from albertine.text.word_encoder import WordEncoder

_MAX_PASSAGES = 1 << 19  # of a split, that are remembered
_MIN_PER_OPTION = 10  # questions, before an option that is never correct is no chance
_MANY_LONG = 0.01
_BATCH = 1 << 20  # characters of answers


class QuestionCheck:
    """Counts questions with options, and questions about passages.

    Args:
        tokenizer: counts the tokens of answers; None if they are not counted.
    """

    def __init__(self, tokenizer: Tokenizer | None = None):
        self._encoder = None if tokenizer is None else WordEncoder(tokenizer)
        self._numbers_of_options: dict[int, Tally] = {}
        self._equal_options, self._first_options, self._unanswered = Tally(), Tally(), Tally()
        self._passages: dict[int, str] = {}  # location of the first question about each, by hash
        self._dev_passages, self._shared, self._shared_example = set[int](), set[int](), ("", "")
        self._questions, self._long, self._longest = 0, Tally(), 0
        self._answers: list[tuple[str, str]] = []  # locations and answers that are not encoded yet
        self._size = 0

    def observe(self, item: DataItem) -> None:
        """Look at an item."""
        if item.passage:
            self._observe_passage(item)
        if item.options:
            self._observe_options(item)
        elif item.passage:
            self._observe_answers(item)

    def _observe_passage(self, item: DataItem) -> None:
        digest = hashlib.blake2b(item.passage.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        key = int.from_bytes(digest, "big")
        if item.split == "train":
            if len(self._passages) < _MAX_PASSAGES:
                self._passages.setdefault(key, item.location)
            return
        if len(self._dev_passages) >= _MAX_PASSAGES:
            return
        self._dev_passages.add(key)
        if key in self._passages:
            if not self._shared:
                both = f"{self._passages[key]} and {item.location}"
                self._shared_example = (display_text(item.passage), both)
            self._shared.add(key)

    def _observe_options(self, item: DataItem) -> None:
        options = [" ".join(option.split()) for option in item.options]
        example = " ".join([*item.texts[-1:], *options])
        self._numbers_of_options.setdefault(len(options), Tally()).add(item.location, example)
        if len({*options}) < len(options):
            self._equal_options.add(item.location, next(text for text in options if options.count(text) > 1))
        if item.labels == item.options[:1]:
            self._first_options.add(item.location, example)

    def _observe_answers(self, item: DataItem) -> None:
        self._questions += 1
        if not item.labels:
            self._unanswered.add(item.location, item.texts[0])
        elif self._encoder is not None:
            shortest = min(item.labels, key=len)
            self._answers.append((item.location, shortest))
            self._size += len(shortest)
            if self._size >= _BATCH or len(self._answers) >= 10_000:
                self._encode_answers()

    def _encode_answers(self) -> None:
        assert self._encoder is not None
        _, lengths = self._encoder.encode([answer for _, answer in self._answers])
        for (location, answer), length in zip(self._answers, lengths, strict=True):
            self._longest = max(self._longest, int(length))
            if length > SequenceSettings().max_answer_length:
                self._long.add(location, answer)
        self._answers, self._size = [], 0

    def findings(self) -> Iterable[Finding]:
        """Yield what was found."""
        if self._numbers_of_options:
            yield from self._option_findings()
        if self._answers:
            self._encode_answers()
        if self._unanswered.count:
            are_all = self._unanswered.count == self._questions
            yield _finding(
                "error" if are_all else "note", "unanswered",
                f"questions without an answer, {percent(self._unanswered.count, self._questions)} of all",
                self._unanswered, "name the column of the answers with --answers" if are_all else "",
            )  # fmt: skip
        if self._long.count:
            share = percent(self._long.count, self._questions)
            yield _finding(
                "warning" if self._long.count >= _MANY_LONG * self._questions else "note", "long-answers",
                f"answers of more than {SequenceSettings().max_answer_length} tokens, {share} of all: models "
                f"give none so long; the longest has {self._longest:,}", self._long,
                "shorten them, or raise --sequence.max-answer-length of finetune",
            )  # fmt: skip
        if self._shared:
            share = percent(len(self._shared), len(self._dev_passages))
            yield Finding(
                "warning", "passages-in-dev", f"passages of dev that are also in train, {share} of dev",
                len(self._shared), *self._shared_example,
                "the score on dev is too high for new passages; keep all questions about one in one file",
            )  # fmt: skip

    def _option_findings(self) -> Iterable[Finding]:
        usual = max(self._numbers_of_options, key=lambda number: self._numbers_of_options[number].count)
        others = Tally()
        for number, tally in sorted(self._numbers_of_options.items()):
            if number != usual:
                others.add_all(tally)
        if others.count:
            message = f"questions with another number of options than most, which have {usual}"
            yield _finding("error", "option-counts", message, others, "complete or remove them")
        if self._equal_options.count:
            yield _finding(
                "warning", "equal-options", "questions with two equal options", self._equal_options,
                "correct or remove them",
            )  # fmt: skip
        number = sum(tally.count for tally in self._numbers_of_options.values())
        if not self._first_options.count and number >= _MIN_PER_OPTION * usual:
            yield Finding(
                "warning", "never-first-option", "questions, and the first option is never correct", number,
                advice="numbers of options begin with 0; subtract 1 if these begin with 1, or write letters",
            )  # fmt: skip


def _finding(severity: Severity, kind: str, message: str, tally: Tally, advice: str) -> Finding:
    return Finding(severity, kind, message, tally.count, tally.example, tally.location, advice)
