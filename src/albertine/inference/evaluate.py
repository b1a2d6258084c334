"""How good tuned models are, by their tasks' official scores; of several, also as the paper averages them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from albertine import progress
from albertine.errors import InputError
from albertine.finetune.prepare import report_skipped, with_equal_options
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned, resolve_columns
from albertine.tasks.examples import Example
from albertine.tasks.metrics.scores import format_metrics, primary_metric
from albertine.tasks.registry import is_unlabelled
from albertine.tasks.settings import DataSettings, EvaluateSettings
from albertine.text.documents import ReadErrors

# GLUE's average leaves WNLI out in the paper's tables; those of its Table 2 are five tasks.
_GLUE_TASKS = ("mnli", "qnli", "qqp", "rte", "sst-2", "mrpc", "cola", "sts-b")
_TABLE_2_TASKS = ("squad-1.1", "squad-2.0", "mnli", "sst-2", "race")


@dataclass(frozen=True)
class EvaluationResult:
    """One model on one part of its task.

    Attributes:
        model: the model.
        task: the task.
        split: which part of its data.
        num_examples: how many.
        metrics: by name.
        primary_metric: the one number that the benchmark takes of them.
        seconds: what reading, encoding and computing took.
    """

    model: str
    task: str
    split: str
    num_examples: int
    metrics: dict[str, float]
    primary_metric: float
    seconds: float


def evaluate(
    sources: Sequence[str], settings: EvaluateSettings, explicit: frozenset[str]
) -> list[EvaluationResult]:
    """Measure models, each on its own task or on the one that is named."""
    if settings.data is None:
        raise InputError("--data is missing: the task's folder, a file, or hub:OWNER/NAME")
    if not sources:
        raise InputError("MODEL is missing: a tuned run, a checkpoint's folder or a hub name")
    found = []
    for source in sources:
        model = load_finetuned(source, settings.device, settings.precision, task=settings.task)
        for part in model.task.split_names(settings.split, settings.data):
            found.append(_evaluate_split(model, part, settings, explicit))
            if len(sources) > 1:  # what is found is not lost if a later one fails
                progress.print_message(f"{source}, {part}: {format_metrics(found[-1].metrics)}")
    return found


def _evaluate_split(
    model: FinetunedModel, split_name: str, settings: EvaluateSettings, given: frozenset[str]
) -> EvaluationResult:
    started = time.monotonic()
    examples_read = read_split(model, split_name, settings, given, require_labels=True)
    counted = progress.track(examples_read, f"Evaluating {model.card.task}, {split_name}", unit="examples")
    pairs = list(model.create_scorer().predict(counted))
    if all(is_unlabelled(example) for example, _ in pairs):
        raise InputError(
            f"{settings.data}: {split_name} of {model.card.task} does not say what is right; "
            "answer it with albertine predict"
        )
    examples, answers = zip(*pairs, strict=True)
    metrics = model.task_type.compute_metrics(examples, answers)
    return EvaluationResult(
        model.source,
        model.card.task,
        split_name,
        len(pairs),
        metrics,
        primary_metric(model.card.task, metrics),
        time.monotonic() - started,
    )


def read_split(
    model: FinetunedModel,
    split_name: str,
    settings: DataSettings,
    explicit: frozenset[str],
    *,
    require_labels: bool,
) -> Iterator[Example]:
    """Yield the examples of a part, at least one, read as the model was tuned; say what was left out."""
    assert settings.data is not None
    troubles = ReadErrors(skip=settings.on_error == "skip")
    columns = resolve_columns(model.card, settings, explicit)
    require_ids = "name" in explicit
    found = model.task.read_examples(
        settings.data, split_name, columns, troubles, require_labels=require_labels, require_ids=require_ids
    )
    count = 0
    for count, example in enumerate(with_equal_options(found, model.card.num_options, troubles), start=1):  # noqa: B007
        yield example
    report_skipped(troubles)
    if not count:
        raise InputError(f"{settings.data}: no examples in {split_name}")


def paper_averages(results: Sequence[EvaluationResult]) -> dict[str, float]:
    """Return the averages of the paper for which all tasks are there."""
    metric_by_task: dict[str, float] = {}
    for one in results:
        metric_by_task.setdefault(one.task, one.primary_metric)
    return {
        name: fmean(metric_by_task[task] for task in tasks)
        for name, tasks in (("GLUE", _GLUE_TASKS), ("Table 2", _TABLE_2_TASKS))
        if set(tasks) <= set(metric_by_task)
    }
