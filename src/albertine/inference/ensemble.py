"""`albertine ensemble`: selects the members of an ensemble on dev, and writes its predictions.

As in the paper, an ensemble averages probabilities for labels, tags and options, predicted
values for regression, and for spans the scores of each token and of no answer. Greedy
selection starts with the best model and adds the one that raises the metric most, until none
raises it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from albertine import progress
from albertine.atomic import refuse_existing_folder
from albertine.display import counted
from albertine.errors import InputError
from albertine.inference.ensemble_model import (
    EnsembleModel,
    check_compatible,
    create_ensemble,
    write_ensemble,
)
from albertine.inference.evaluate import print_example_warnings
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned
from albertine.inference.predict import prediction_writer, split_names_to_predict
from albertine.inference.read_split import read_split
from albertine.inference.settings import EnsembleSettings
from albertine.inference.table_writer import RowStream
from albertine.inference.training_data import warn_of_training_data
from albertine.interop.hub import is_ensemble
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example
from albertine.tasks.formats.locations import is_folder
from albertine.tasks.scorer import (
    ExampleScores,
    mean_scores,
    prediction_to_write,
    truncated_tokens,
    with_most_truncated,
)
from albertine.tasks.sequences import EncodedExample
from albertine.tasks.types.task_type import Metrics, Prediction


@dataclass(frozen=True)
class EnsembleResult:
    """The metrics of an ensemble on dev.

    Attributes:
        task: name of the task.
        candidates: primary metric of each candidate, by name.
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
    sources: Sequence[str | Path],
    settings: EnsembleSettings,
    out: str | Path | None = None,
    save: str | Path | None = None,
) -> EnsembleResult:
    """Select the members of an ensemble on dev and evaluate it.

    Args:
        sources: candidates: fine-tuned runs, folders of checkpoints, or hub names.
        settings: the data, and how members are selected.
        out: output for predictions of the test split, or of a file; None to write none.
        save: new folder for the ensemble as a model; None to write none.
    """
    _check_arguments(sources, settings, out, save)
    assert settings.data is not None
    models = _load_candidates(sources, settings)
    for model in models:
        warn_of_training_data(model, settings.data)
    first = models[0]
    dev_name = first.task.split_names("dev", settings.data)[0]
    output = None if out is None else _PredictionOutput(first, settings, dev_name, Path(out))
    examples = list(read_split(first, dev_name, settings, require_labels=True))
    candidates = _Candidates(models, examples)
    members = list(range(len(models))) if settings.selection == "all" else _select_greedily(candidates)
    counts = candidates.encoding_counts(members)
    print_example_warnings(first.task_type, f"{settings.data}, {dev_name}", examples, counts)
    metrics = candidates.evaluate(members)
    ensemble = create_ensemble(
        "ensemble",
        first.task_type.updated_card(first.card),  # with the threshold that this evaluation has fitted
        [models[index] for index in members],
        [1.0] * len(members),
    )
    if save is not None:
        write_ensemble(ensemble, Path(save))
        progress.print_message(f"{save}: the ensemble; evaluate, predict and serve accept it as a model")
    if output is not None:
        output.write(ensemble, candidates.predict(members))
    primary_metric = first.task.primary_metric(metrics)
    return EnsembleResult(
        first.card.task,
        {model.source: metric for model, metric in zip(models, candidates.single_metrics, strict=True)},
        [models[index].source for index in members],
        metrics,
        primary_metric,
        primary_metric - max(candidates.single_metrics),
    )


def _check_arguments(
    sources: Sequence[str | Path], settings: EnsembleSettings, out: str | Path | None, save: str | Path | None
) -> None:
    if len(sources) < 2:
        raise InputError(f"{counted(len(sources), 'model')}: an ensemble needs at least two")
    if len(set(sources)) < len(sources):
        raise InputError("a model is named twice; name each model once")
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, or a file")
    # An interrupted call may have saved the ensemble, and not yet the predictions.
    if save is not None and not (out is not None and is_ensemble(Path(save))):
        refuse_existing_folder(Path(save))


class _PredictionOutput:
    """Writes the predictions of an ensemble for the test split, or for a file.

    Args:
        model: a candidate, whose task determines the splits.
        settings: the data.
        dev_name: name of the split on which the candidates are scored.
        out: the output.
    """

    def __init__(self, model: FinetunedModel, settings: EnsembleSettings, dev_name: str, out: Path):
        assert settings.data is not None
        self._model, self._settings = model, settings
        self._names = split_names_to_predict(model.task, settings.data)
        self._write = prediction_writer(model.card, settings.data, self._names, out)
        self._unscored = set(self._names)
        if is_folder(settings.data):
            self._unscored -= {dev_name}
        elif settings.on_error == "stop":
            # A file is both dev and the rows to predict, so its examples are scored once. But --on-error skip
            # leaves rows without a label out of dev only.
            self._unscored.clear()
        for name in self._unscored:  # an unreadable split must fail before dev is scored
            next(read_split(model, name, settings, require_labels=False))

    def write(self, ensemble: EnsembleModel, of_dev: Iterator[tuple[Example, Prediction]]) -> None:
        """Write the predictions of all splits; those of the split that is already scored are given."""
        for name in self._names:
            if name not in self._unscored:
                self._write(name, RowStream(of_dev))
                continue
            examples = read_split(self._model, name, self._settings, require_labels=False)
            tracked_examples = progress.track(examples, f"Predicting {name}", unit="examples")
            counts = EncodingCounts(ensemble.tokenizer.special_ids)
            self._write(name, RowStream(ensemble.create_scorer().predict(tracked_examples, counts)))
            data = self._settings.data or ""
            counts.print_warnings(f"{data}, {name}" if is_folder(data) else data)


def _load_candidates(sources: Sequence[str | Path], settings: EnsembleSettings) -> list[FinetunedModel]:
    """Return the models; raise `InputError` if the scores of some cannot be averaged."""
    models = [
        load_finetuned(source, settings.engine_options, task=settings.task, fixed_options=True)
        for source in sources
    ]
    for model in models[1:]:
        check_compatible(models[0], model)
    return models


class _Candidates:
    """Models and their scores on dev.

    Attributes:
        single_metrics: primary metric of each model.
    """

    def __init__(self, models: Sequence[FinetunedModel], examples: Sequence[Example]):
        self._task, self._task_type, self._examples = models[0].task, models[0].task_type, examples
        self._special_ids = models[0].tokenizer.special_ids
        self._encoded, scores = _score_examples(models[0], examples)
        self._scores, self._truncated = [scores], [truncated_tokens(self._encoded)]
        for model in models[1:]:
            encoded, scores = _score_examples(model, examples)
            self._scores.append(scores)
            self._truncated.append(truncated_tokens(encoded))
        self.single_metrics = [self.primary_metric([index]) for index in range(len(models))]

    def primary_metric(self, members: Sequence[int]) -> float:
        """Return the primary metric of some models together."""
        return self._task.primary_metric(self.evaluate(members))

    def evaluate(self, members: Sequence[int]) -> Metrics:
        """Return the metrics of some models together, after fitting the threshold of the task type."""
        scores = self._mean_scores(members)
        self._task_type.fit_threshold(self._examples, self._predictions(scores))
        return self._task_type.compute_metrics(self._examples, self._predictions(scores))

    def encoding_counts(self, members: Sequence[int]) -> EncodingCounts:
        """Return the counts of truncated and unknown tokens of some models together."""
        counts = EncodingCounts(self._special_ids)
        counts.add(self._encoded_for(members))
        return counts

    def predict(self, members: Sequence[int]) -> Iterator[tuple[Example, Prediction]]:
        """Yield each example with the prediction of some models together."""
        triples = zip(self._examples, self._encoded_for(members), self._mean_scores(members), strict=True)
        for example, encoded, scores in triples:
            yield example, prediction_to_write(self._task_type, example, encoded, scores)

    def _encoded_for(self, members: Sequence[int]) -> list[EncodedExample]:
        return with_most_truncated(self._encoded, [self._truncated[index] for index in members])

    def _mean_scores(self, members: Sequence[int]) -> list[ExampleScores]:
        return mean_scores([self._scores[index] for index in members], [1.0] * len(members))

    def _predictions(self, scores: Sequence[ExampleScores]) -> list[Prediction]:
        triples = zip(self._examples, self._encoded, scores, strict=True)
        return [self._task_type.prediction(*triple) for triple in triples]


def _score_examples(
    model: FinetunedModel, examples: Sequence[Example]
) -> tuple[list[EncodedExample], list[ExampleScores]]:
    tracked_examples = progress.track(examples, f"Scoring {model.source}", unit="examples")
    triples = list(model.create_scorer().score_examples(tracked_examples))
    return [encoded for _, encoded, _ in triples], [scores for _, _, scores in triples]


def _select_greedily(candidates: _Candidates) -> list[int]:
    """Return the indices of the selected models, in the order of their selection."""
    members = [int(np.argmax(candidates.single_metrics))]
    best = candidates.single_metrics[members[0]]
    while len(members) < len(candidates.single_metrics):
        others = [index for index in range(len(candidates.single_metrics)) if index not in members]
        extended_metrics = {index: candidates.primary_metric([*members, index]) for index in others}
        best_addition = max(extended_metrics, key=extended_metrics.__getitem__)
        if extended_metrics[best_addition] <= best:
            break
        members.append(best_addition)
        best = extended_metrics[best_addition]
    return members
