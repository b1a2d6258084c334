"""Ensembles of fine-tuned models: scores are averaged over the members, which are selected on dev.

As in the paper, an ensemble averages probabilities for labels, tags and options, predicted
values for regression, and for spans the scores of each token and of no answer. Greedy
selection starts with the best model and adds the one that raises the metric most, until none
raises it.
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
from albertine.inference.settings import EnsembleSettings
from albertine.tasks.examples import Example
from albertine.tasks.sequences import EncodedExample
from albertine.tasks.types.task_type import Prediction, SampleScores

ExampleScores = list[list[SampleScores]]


@dataclass(frozen=True)
class EnsembleResult:
    """The metrics of an ensemble on dev.

    Attributes:
        task: name of the task.
        candidates: primary metric of each candidate, by its name.
        selected: names of the members, in the order of their selection.
        metrics: metrics of the ensemble.
        primary_metric: primary metric of the ensemble.
        gain: primary metric of the ensemble minus that of the best candidate.
    """

    task: str
    candidates: dict[str, float]
    selected: list[str]
    metrics: dict[str, float]
    primary_metric: float
    gain: float


def evaluate_ensemble(
    sources: Sequence[str | Path], settings: EnsembleSettings, out: str | Path | None = None
) -> EnsembleResult:
    """Select the members of an ensemble on dev and evaluate it; with `out`, write its predictions.

    Args:
        sources: candidates: fine-tuned runs, folders of checkpoints, or hub names.
        settings: the data, and how members are selected.
        out: output for predictions of test, or of a file; None to write none.
    """
    out = None if out is None else Path(out)
    if len(sources) < 2:
        raise InputError(f"{len(sources)} models: an ensemble needs at least two")
    if len(set(sources)) < len(sources):
        raise InputError("a model is named twice; name each model once")
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
    examples = list(read_split(first, split_name, settings, require_labels=True))
    examples_by_split = _examples_to_predict(first, settings) if out is not None else {}
    scores_by_model = [_score_examples(model, examples) for model in models]
    encoded = first.create_scorer().encode(examples)

    def evaluate_members(members: Sequence[int]) -> tuple[float, dict[str, float]]:
        scores = mean_scores([scores_by_model[index] for index in members])
        metrics = _compute_metrics(first, examples, encoded, scores)
        return first.task.primary_metric(metrics), metrics

    candidate_metrics = [evaluate_members([index])[0] for index in range(len(models))]
    members = (
        list(range(len(models)))
        if settings.selection == "all"
        else _select_greedily(candidate_metrics, evaluate_members)
    )
    # Last, because it leaves the no-answer threshold of these members in `first.task_type`.
    primary_metric, metrics = evaluate_members(members)
    if out is not None:
        _write_ensemble_predictions(
            first,
            [models[index] for index in members],
            out,
            examples_by_split,
            official=Path(settings.data).is_dir(),
        )
    return EnsembleResult(
        first.card.task,
        {model.source: metric for model, metric in zip(models, candidate_metrics, strict=True)},
        [models[index].source for index in members],
        metrics,
        primary_metric,
        primary_metric - max(candidate_metrics),
    )


def _select_greedily(candidate_metrics: Sequence[float], evaluate_members: Any) -> list[int]:
    """Return the indices of the selected candidates, in the order of their selection."""
    members = [int(np.argmax(candidate_metrics))]
    best = candidate_metrics[members[0]]
    while len(members) < len(candidate_metrics):
        others = [index for index in range(len(candidate_metrics)) if index not in members]
        extended_metrics = {index: evaluate_members([*members, index])[0] for index in others}
        best_addition = max(extended_metrics, key=extended_metrics.__getitem__)
        if extended_metrics[best_addition] <= best:
            break
        members.append(best_addition)
        best = extended_metrics[best_addition]
    return members


def _check_compatible(first: FinetunedModel, other: FinetunedModel) -> None:
    """Raise `InputError` if the scores of two models cannot be averaged."""
    if other.card.type_name != first.card.type_name or other.card.labels != first.card.labels:
        raise InputError(f"{other.source}: has another task type or other labels than {first.source}")
    has_same_tokens = (
        other.tokenizer.fingerprint == first.tokenizer.fingerprint
        and other.card.sequence == first.card.sequence
    )
    if first.task_type.scores_per_token and not has_same_tokens:
        raise InputError(
            f"{other.source}: tokenizes text differently from {first.source}, "
            "so their scores cannot be averaged"
        )
    if other.engine.head_settings.answerable != first.engine.head_settings.answerable:
        raise InputError(
            f"{other.source}: computes the no-answer score differently from {first.source}, "
            "so their scores cannot be averaged"
        )


def _score_examples(model: FinetunedModel, examples: Sequence[Example]) -> ExampleScores:
    tracked_examples = progress.track(examples, f"Scoring {model.source}", unit="examples")
    return [scores for _, _, scores in model.create_scorer().score_examples(tracked_examples)]


def mean_scores(scores_by_model: Sequence[ExampleScores]) -> ExampleScores:
    """Return scores averaged over models; all models must have scored the same samples."""
    if len(scores_by_model) == 1:
        return scores_by_model[0]
    return [
        [_mean(sample_scores) for sample_scores in zip(*example_scores, strict=True)]
        for example_scores in zip(*scores_by_model, strict=True)
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
    """Return the metrics of scores, after fitting the no-answer threshold of the model's task type."""

    def predictions() -> list[Prediction]:
        return [model.task_type.prediction(*each) for each in zip(examples, encoded, scores, strict=True)]

    model.task_type.fit_threshold(examples, predictions())
    return model.task_type.compute_metrics(examples, predictions())


def _examples_to_predict(model: FinetunedModel, settings: EnsembleSettings) -> dict[str, list[Example]]:
    """Return the examples to predict, by split: those of test for a folder, else those of the file."""
    assert settings.data is not None
    split_names = model.task.split_names("test" if Path(settings.data).is_dir() else "dev", settings.data)
    return {name: list(read_split(model, name, settings, require_labels=False)) for name in split_names}


def _write_ensemble_predictions(
    first: FinetunedModel,
    models: Sequence[FinetunedModel],
    out: Path,
    examples_by_split: dict[str, list[Example]],
    *,
    official: bool,
) -> None:
    """Write the predictions of an ensemble, with the no-answer threshold that `first.task_type` has."""
    for split_name, examples in examples_by_split.items():
        all_encoded = first.create_scorer().encode(examples)
        all_scores = mean_scores([_score_examples(model, examples) for model in models])
        predictions = (
            (example, first.task_type.prediction(example, encoded, scores))
            for example, encoded, scores in zip(examples, all_encoded, all_scores, strict=True)
        )
        write_predictions(first.task, split_name, predictions, out, official=official)
