"""Several tuned models as one: their scores averaged, and which of them to take, found on dev.

Averaged are the probabilities of labels, tags and options, numbers as they are, and for
spans the scores of every token and of there being no answer, as the paper does. Chosen
greedily: the best single one, then whichever helps most, as long as one helps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albertine import progress
from albertine.errors import InputError
from albertine.tasks.evaluate import part_of
from albertine.tasks.examples import Example
from albertine.tasks.kinds.kind import Row, Sheet
from albertine.tasks.metrics import headline
from albertine.tasks.predict import write
from albertine.tasks.settings import EnsembleSettings
from albertine.tasks.tuned import Tuned, tuned
from albertine.whole import refuse_existing

Rows = list[list[Row]]


@dataclass(frozen=True)
class Joined:
    """What an ensemble came to.

    Attributes:
        task: the task.
        singles: each candidate's own number on dev.
        chosen: those that were taken, in the order in which they helped.
        scores: of all together.
        headline: the one number of those.
        gain: over the best single one.
    """

    task: str
    singles: dict[str, float]
    chosen: list[str]
    scores: dict[str, float]
    headline: float
    gain: float


def ensemble(
    sources: Sequence[str], out: Path | None, settings: EnsembleSettings, given: frozenset[str]
) -> Joined:
    """Choose among models on dev; answer test with them if there is an `out`."""
    if len(sources) < 2:
        raise InputError(f"{len(sources)} models: an ensemble has two at least")
    if len(set(sources)) < len(sources):
        raise InputError("a model is named twice; it would only count double")
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, or a file")
    if out is not None:
        refuse_existing(out)  # before any work is done
    models = [tuned(source, settings.device, settings.precision, task=settings.task) for source in sources]
    first = models[0]
    for model in models[1:]:
        _refuse_misfit(first, model)
    part = first.task.parts("dev", settings.data)[0]
    examples = list(part_of(first, part, settings, given, solved=True))
    asked = _to_answer(first, settings, given) if out is not None else {}
    tables = [_rows(model, examples) for model in models]
    sheets = first.scorer().sheets(examples)

    def together(members: Sequence[int]) -> tuple[float, dict[str, float]]:
        scores = _assessed(first, examples, sheets, averaged([tables[at] for at in members]))
        return headline(first.card.task, scores), scores

    singles = [together([at])[0] for at in range(len(models))]
    members = list(range(len(models))) if settings.choose == "all" else _greedy(singles, together)
    value, scores = together(members)
    if out is not None:
        _answer(first, [models[at] for at in members], out, asked, official=Path(settings.data).is_dir())
    return Joined(
        first.card.task,
        {model.source: one for model, one in zip(models, singles, strict=True)},
        [models[at].source for at in members],
        scores,
        value,
        value - max(singles),
    )


def _greedy(singles: Sequence[float], together: Any) -> list[int]:
    members = [int(np.argmax(singles))]
    best = singles[members[0]]
    while len(members) < len(singles):
        others = [at for at in range(len(singles)) if at not in members]
        values = {at: together([*members, at])[0] for at in others}
        next_one = max(values, key=values.__getitem__)
        if values[next_one] <= best:
            break
        members.append(next_one)
        best = values[next_one]
    return members


def _refuse_misfit(one: Tuned, other: Tuned) -> None:
    """Refuse models whose scores do not lie side by side."""
    if other.card.kind != one.card.kind or other.card.labels != one.card.labels:
        raise InputError(f"{other.source}: of another task, or with other labels, than {one.source}")
    by_token = one.card.kind in ("span", "tag")
    same = other.tokenizer.fingerprint == one.tokenizer.fingerprint and other.card.reading == one.card.reading
    if by_token and not same:
        raise InputError(
            f"{other.source}: cuts text otherwise than {one.source}; their scores are of other tokens"
        )
    if other.model.head_settings.answerable != one.model.head_settings.answerable:
        raise InputError(f"{other.source}: tells in another way than {one.source} that there is no answer")


def _rows(model: Tuned, examples: Sequence[Example]) -> Rows:
    counted = progress.track(examples, f"Asking {model.source}", unit="examples")
    return [rows for _, _, rows in model.scorer().scored(counted)]


def averaged(tables: Sequence[Rows]) -> Rows:
    """Return the means of several models' scores."""
    if len(tables) == 1:
        return tables[0]
    return [[_mean(rows) for rows in zip(*samples, strict=True)] for samples in zip(*tables, strict=True)]


def _mean(rows: Sequence[Row]) -> Row:
    mean: Row = np.stack(rows).astype(np.float64).mean(axis=0).astype(np.float32)
    return mean


def _assessed(
    model: Tuned, examples: Sequence[Example], sheets: Sequence[Sheet], rows: Rows
) -> dict[str, float]:
    def answers() -> list[dict[str, Any]]:
        return [model.kind.answer(*each) for each in zip(examples, sheets, rows, strict=True)]

    model.kind.settle(examples, answers())
    return model.kind.assess(examples, answers())


def _to_answer(reader: Tuned, settings: EnsembleSettings, given: frozenset[str]) -> dict[str, list[Example]]:
    """Read what is to be answered, test where there is one."""
    assert settings.data is not None
    parts = reader.task.parts("test" if Path(settings.data).is_dir() else "dev", settings.data)
    return {part: list(part_of(reader, part, settings, given, solved=False)) for part in parts}


def _answer(
    reader: Tuned, models: Sequence[Tuned], out: Path, asked: dict[str, list[Example]], *, official: bool
) -> None:
    """Answer with several models; the reader's threshold is the one of all together."""
    for part, examples in asked.items():
        sheets = reader.scorer().sheets(examples)
        rows = averaged([_rows(model, examples) for model in models])
        answered = (
            (example, reader.kind.answer(example, sheet, row))
            for example, sheet, row in zip(examples, sheets, rows, strict=True)
        )
        write(reader.task.name, reader.card.kind, part, answered, out, official=official)
