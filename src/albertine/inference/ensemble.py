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
from albertine.atomic import refuse_existing_file
from albertine.errors import InputError
from albertine.inference.evaluate import read_split
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned
from albertine.inference.predict import write_predictions
from albertine.tasks.examples import Example
from albertine.tasks.metrics.scores import primary_metric
from albertine.tasks.settings import EnsembleSettings
from albertine.tasks.types.task_type import EncodedExample, SampleScores

ExampleScores = list[list[SampleScores]]


@dataclass(frozen=True)
class EnsembleResult:
    """What an ensemble came to.

    Attributes:
        task: the task.
        candidates: each candidate's own number on dev.
        selected: those that were taken, in the order in which they helped.
        metrics: of all together.
        primary_metric: the one number of those.
        gain: over the best single one.
    """

    task: str
    candidates: dict[str, float]
    selected: list[str]
    metrics: dict[str, float]
    primary_metric: float
    gain: float


def evaluate_ensemble(
    sources: Sequence[str], out: Path | None, settings: EnsembleSettings, explicit: frozenset[str]
) -> EnsembleResult:
    """Choose among models on dev; answer test with them if there is an `out`."""
    if len(sources) < 2:
        raise InputError(f"{len(sources)} models: an ensemble has two at least")
    if len(set(sources)) < len(sources):
        raise InputError("a model is named twice; it would only count double")
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, or a file")
    if out is not None:
        refuse_existing_file(out)  # before any work is done
    models = [
        load_finetuned(source, settings.device, settings.precision, task=settings.task) for source in sources
    ]
    first = models[0]
    for model in models[1:]:
        _check_compatible(first, model)
    split_name = first.task.split_names("dev", settings.data)[0]
    examples = list(read_split(first, split_name, settings, explicit, require_labels=True))
    examples_by_split = _examples_to_predict(first, settings, explicit) if out is not None else {}
    scores_by_model = [_score_examples(model, examples) for model in models]
    encoded = first.create_scorer().encode(examples)

    def evaluate_members(members: Sequence[int]) -> tuple[float, dict[str, float]]:
        scores = _compute_metrics(
            first, examples, encoded, mean_scores([scores_by_model[at] for at in members])
        )
        return primary_metric(first.card.task, scores), scores

    candidate_metrics = [evaluate_members([at])[0] for at in range(len(models))]
    members = (
        list(range(len(models)))
        if settings.selection == "all"
        else _select_greedily(candidate_metrics, evaluate_members)
    )
    value, scores = evaluate_members(members)
    if out is not None:
        _write_ensemble_predictions(
            first,
            [models[at] for at in members],
            out,
            examples_by_split,
            official=Path(settings.data).is_dir(),
        )
    return EnsembleResult(
        first.card.task,
        {model.source: one for model, one in zip(models, candidate_metrics, strict=True)},
        [models[at].source for at in members],
        scores,
        value,
        value - max(candidate_metrics),
    )


def _select_greedily(candidate_metrics: Sequence[float], evaluate_members: Any) -> list[int]:
    members = [int(np.argmax(candidate_metrics))]
    best = candidate_metrics[members[0]]
    while len(members) < len(candidate_metrics):
        others = [at for at in range(len(candidate_metrics)) if at not in members]
        values = {at: evaluate_members([*members, at])[0] for at in others}
        next_one = max(values, key=values.__getitem__)
        if values[next_one] <= best:
            break
        members.append(next_one)
        best = values[next_one]
    return members


def _check_compatible(one: FinetunedModel, other: FinetunedModel) -> None:
    """Refuse models whose scores do not lie side by side."""
    if other.card.type_name != one.card.type_name or other.card.labels != one.card.labels:
        raise InputError(f"{other.source}: of another task, or with other labels, than {one.source}")
    scores_per_token = one.card.type_name in ("span", "tag")
    same = (
        other.tokenizer.fingerprint == one.tokenizer.fingerprint and other.card.sequence == one.card.sequence
    )
    if scores_per_token and not same:
        raise InputError(
            f"{other.source}: cuts text otherwise than {one.source}; their scores are of other tokens"
        )
    if other.model.head_settings.answerable != one.model.head_settings.answerable:
        raise InputError(f"{other.source}: tells in another way than {one.source} that there is no answer")


def _score_examples(model: FinetunedModel, examples: Sequence[Example]) -> ExampleScores:
    counted = progress.track(examples, f"Asking {model.source}", unit="examples")
    return [rows for _, _, rows in model.create_scorer().score_examples(counted)]


def mean_scores(scores_by_model: Sequence[ExampleScores]) -> ExampleScores:
    """Return the means of several models' scores."""
    if len(scores_by_model) == 1:
        return scores_by_model[0]
    return [
        [_mean(rows) for rows in zip(*samples, strict=True)] for samples in zip(*scores_by_model, strict=True)
    ]


def _mean(scores: Sequence[SampleScores]) -> SampleScores:
    mean: SampleScores = np.stack(scores).astype(np.float64).mean(axis=0).astype(np.float32)
    return mean


def _compute_metrics(
    model: FinetunedModel,
    examples: Sequence[Example],
    encoded: Sequence[EncodedExample],
    scores: ExampleScores,
) -> dict[str, float]:
    def answers() -> list[dict[str, Any]]:
        return [model.task_type.prediction(*each) for each in zip(examples, encoded, scores, strict=True)]

    model.task_type.fit_threshold(examples, answers())
    return model.task_type.compute_metrics(examples, answers())


def _examples_to_predict(
    model: FinetunedModel, settings: EnsembleSettings, explicit: frozenset[str]
) -> dict[str, list[Example]]:
    """Read what is to be answered, test where there is one."""
    assert settings.data is not None
    parts = model.task.split_names("test" if Path(settings.data).is_dir() else "dev", settings.data)
    return {part: list(read_split(model, part, settings, explicit, require_labels=False)) for part in parts}


def _write_ensemble_predictions(
    first: FinetunedModel,
    models: Sequence[FinetunedModel],
    out: Path,
    examples_by_split: dict[str, list[Example]],
    *,
    official: bool,
) -> None:
    """Answer with several models; the reader's threshold is the one of all together."""
    for part, examples in examples_by_split.items():
        sheets = first.create_scorer().encode(examples)
        rows = mean_scores([_score_examples(model, examples) for model in models])
        answered = (
            (example, first.task_type.prediction(example, sheet, row))
            for example, sheet, row in zip(examples, sheets, rows, strict=True)
        )
        write_predictions(first.task.name, first.card.type_name, part, answered, out, official=official)
