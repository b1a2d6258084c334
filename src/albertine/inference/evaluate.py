"""Evaluation of fine-tuned models with the metrics of their tasks, and the paper's averages over tasks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from albertine import progress
from albertine.errors import InputError
from albertine.inference.ensemble_model import TaskModel, load_task_model
from albertine.inference.read_split import read_split
from albertine.inference.settings import EvaluateSettings
from albertine.inference.training_data import warn_of_training_data
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example
from albertine.tasks.formats.locations import is_folder
from albertine.tasks.metrics.display import format_metrics
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.task_type import TaskType

# The paper's averages: GLUE without WNLI, and the five tasks of Table 2.
_GLUE_TASKS = ("mnli", "qnli", "qqp", "rte", "sst-2", "mrpc", "cola", "sts-b")
_TABLE_2_TASKS = ("squad-1.1", "squad-2.0", "mnli", "sst-2", "race")


@dataclass(frozen=True)
class EvaluationResult:
    """The metrics of one model on one split of its task.

    Attributes:
        model: name of the model.
        task: name of the task.
        split: name of the split, such as "dev_matched".
        num_examples: number of examples.
        metrics: metrics by name.
        primary_metric: score by which models are compared: the mean of the main metrics of the task, such
            as F1 and accuracy for MRPC.
        seconds: time for reading, encoding and computing.
        num_truncated: number of examples that were truncated to the model's maximum length.
        mean_truncated_tokens: mean number of tokens that the truncated examples lost.
        unknown_share: share of unknown tokens, between 0 and 1.
        mean_depth: mean number of steps of depth; None if the depth was not adjusted.
        data: the folder, file or dataset with the examples.
    """

    model: str
    task: str
    split: str
    num_examples: int
    metrics: dict[str, float]
    primary_metric: float
    seconds: float
    num_truncated: int = 0
    mean_truncated_tokens: float = 0.0
    unknown_share: float = 0.0
    mean_depth: float | None = None
    data: str = ""


def evaluate(models: str | Path | Sequence[str | Path], settings: EvaluateSettings) -> list[EvaluationResult]:
    """Return the metrics of fine-tuned models, each on its own task or on the task in the settings.

    Args:
        models: one or several runs, folders of checkpoints or ensembles, or hub names.
        settings: the data, and its columns where they differ from those of the training data.
    """
    sources = [models] if isinstance(models, str | Path) else list(models)
    check_evaluation(sources, settings)
    assert settings.data is not None
    results = []
    for source in sources:
        model = load_task_model(
            source, settings.engine_options, task=settings.task, exit_rule=settings.exit_rule
        )
        warn_of_training_data(model, settings.data)
        for split_name in model.task.split_names(settings.split, settings.data):
            results.append(evaluate_split(model, split_name, settings))
            if len(sources) > 1:  # not only at the end, in case a later model fails
                progress.print_message(f"{source}, {split_name}: {format_metrics(results[-1].metrics)}")
    return results


def check_evaluation(sources: Sequence[str | Path], settings: EvaluateSettings) -> None:
    """Raise `InputError` if there are no models or no data, or if the task is unknown."""
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, a file, or hub:OWNER/NAME")
    if not sources:
        raise InputError("MODEL is missing: a fine-tuned run, the folder of a checkpoint, or a hub name")
    if settings.task is not None:
        find_task(settings.task)  # an unknown task must fail before a model is loaded


def evaluate_split(model: TaskModel, split_name: str, settings: DataSettings) -> EvaluationResult:
    """Return the metrics of a model on a split of its task."""
    started = time.monotonic()
    data = settings.data or ""
    name = examples_name(split_name, data)
    tracked_examples = progress.track(
        read_split(model, split_name, settings, require_labels=True),
        f"Evaluating {model.card.task}, {name}",
        unit="examples",
    )
    counts = EncodingCounts(model.tokenizer.special_ids)
    pairs = list(model.create_scorer().predict(tracked_examples, counts))
    examples, predictions = zip(*pairs, strict=True)
    metrics = model.task_type.compute_metrics(examples, predictions)
    print_example_warnings(model.task_type, f"{model.source}, {name}", examples, counts)
    has_depth = "depth" in predictions[0]
    return EvaluationResult(
        model=model.source,
        task=model.card.task,
        split=split_name,
        num_examples=len(pairs),
        metrics=metrics,
        primary_metric=model.task.primary_metric(metrics),
        seconds=time.monotonic() - started,
        num_truncated=counts.num_truncated_examples,
        mean_truncated_tokens=counts.mean_truncated_tokens,
        unknown_share=counts.unknown_share,
        mean_depth=fmean(prediction["depth"] for prediction in predictions) if has_depth else None,
        data=data,
    )


def print_example_warnings(
    task_type: TaskType, name: str, examples: Sequence[Example], counts: EncodingCounts
) -> None:
    """Print what lowers a score: truncated examples, unknown tokens, examples that no prediction can match.

    Args:
        task_type: task type of the model.
        name: name of the examples, for the messages.
        examples: the examples that were scored.
        counts: counts of their tokens.
    """
    counts.print_warnings(name)
    if message := task_type.evaluation_warning(examples):
        progress.print_message(f"{name}: {message}")


def examples_name(split_name: str, data: str) -> str:
    """Return the name of examples in messages: that of the split, or of the file."""
    return split_name if is_folder(data) else Path(data).name


def paper_averages(results: Sequence[EvaluationResult]) -> dict[str, float]:
    """Return each of the paper's averages, by name, whose tasks all have a result.

    If a task has several results, such as those of MNLI's two dev files, the first one counts. The score is
    the official one, also of a model that was selected by another metric.
    """
    score_by_task: dict[str, float] = {}
    for result in results:
        score_by_task.setdefault(result.task, find_task(result.task).primary_metric(result.metrics))
    return {
        name: fmean(score_by_task[task] for task in tasks)
        for name, tasks in (("GLUE", _GLUE_TASKS), ("Table 2", _TABLE_2_TASKS))
        if set(tasks) <= set(score_by_task)
    }
