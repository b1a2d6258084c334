"""How good tuned models are, by their tasks' official scores; of several, also as the paper averages them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from albertine import progress
from albertine.errors import InputError
from albertine.tasks.examples import Example
from albertine.tasks.metrics import headline, in_words
from albertine.tasks.prepare import alike, tell
from albertine.tasks.settings import DataSettings, EvaluateSettings
from albertine.tasks.task import unanswered
from albertine.tasks.tuned import Tuned, columns_of, tuned
from albertine.text.documents import Troubles

# GLUE's average leaves WNLI out in the paper's tables; those of its Table 2 are five tasks.
_GLUE = ("mnli", "qnli", "qqp", "rte", "sst-2", "mrpc", "cola", "sts-b")
_TABLE_2 = ("squad-1.1", "squad-2.0", "mnli", "sst-2", "race")


@dataclass(frozen=True)
class Evaluated:
    """One model on one part of its task.

    Attributes:
        source: the model.
        task: the task.
        part: which part of its data.
        examples: how many.
        scores: by name.
        headline: the one number that the benchmark takes of them.
        seconds: what reading, encoding and computing took.
    """

    source: str
    task: str
    part: str
    examples: int
    scores: dict[str, float]
    headline: float
    seconds: float


def evaluate(sources: Sequence[str], settings: EvaluateSettings, given: frozenset[str]) -> list[Evaluated]:
    """Measure models, each on its own task or on the one that is named."""
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, a file, or hub:OWNER/NAME")
    if not sources:
        raise InputError("MODEL is missing: a tuned run, a checkpoint's folder or a hub name")
    found = []
    for source in sources:
        model = tuned(source, settings.device, settings.precision, task=settings.task)
        for part in model.task.parts(settings.split, settings.data):
            found.append(_measured(model, part, settings, given))
            if len(sources) > 1:  # what is found is not lost if a later one fails
                progress.say(f"{source}, {part}: {in_words(found[-1].scores)}")
    return found


def _measured(model: Tuned, part: str, settings: EvaluateSettings, given: frozenset[str]) -> Evaluated:
    started = time.monotonic()
    coming = part_of(model, part, settings, given, solved=True)
    counted = progress.track(coming, f"Evaluating {model.card.task}, {part}", unit="examples")
    pairs = list(model.scorer().answered(counted))
    if all(unanswered(example) for example, _ in pairs):
        raise InputError(
            f"{settings.data}: {part} of {model.card.task} does not say what is right; "
            "answer it with albertine predict"
        )
    examples, answers = zip(*pairs, strict=True)
    scores = model.kind.assess(examples, answers)
    return Evaluated(
        model.source,
        model.card.task,
        part,
        len(pairs),
        scores,
        headline(model.card.task, scores),
        time.monotonic() - started,
    )


def part_of(
    model: Tuned, part: str, settings: DataSettings, given: frozenset[str], *, solved: bool
) -> Iterator[Example]:
    """Yield the examples of a part, at least one, read as the model was tuned; say what was left out."""
    assert settings.data is not None
    troubles = Troubles(skip=settings.on_error == "skip")
    columns = columns_of(model.card, settings, given)
    named = "name" in given
    found = model.task.examples(settings.data, part, columns, troubles, solved=solved, named=named)
    count = 0
    for count, example in enumerate(alike(found, model.card.options, troubles), start=1):  # noqa: B007
        yield example
    tell(troubles)
    if not count:
        raise InputError(f"{settings.data}: no examples in {part}")


def averages(found: Sequence[Evaluated]) -> dict[str, float]:
    """Return the averages of the paper for which all tasks are there."""
    first: dict[str, float] = {}
    for one in found:
        first.setdefault(one.task, one.headline)
    return {
        name: fmean(first[task] for task in tasks)
        for name, tasks in (("GLUE", _GLUE), ("Table 2", _TABLE_2))
        if set(tasks) <= set(first)
    }
