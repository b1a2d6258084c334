"""Compares a fine-tuned model with a bag of words that is fitted to the same examples."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from albertine.errors import InputError
from albertine.finetune.finetuning import samples_digest
from albertine.finetune.paper_defaults import task_defaults
from albertine.finetune.prepare import FinetuneData
from albertine.finetune.run import FinetuneResult, patience_advice
from albertine.finetune.settings import FinetuneSettings
from albertine.finetune.trials import SINGLE_RUN
from albertine.interop.hub import TASK_CARD_FILE
from albertine.model.parameter_counts import count_parameters
from albertine.tasks.examples import TextExample
from albertine.tasks.metrics.display import metric_title
from albertine.train.metrics_log import METRICS_FILE, read_last_metrics
from albertine.train.run_folder import read_run_settings

# A model below one of these probably gains from more. ALBERT-base has 11.7 million parameters.
_FEW_PARAMETERS = 10_000_000
_FEW_TOKENS = 1_000_000_000
_FEW_EXAMPLES = 2_000


@dataclass(frozen=True)
class BaselineResult:
    """The scores of a bag of words.

    Attributes:
        metrics: metrics on dev.
        examples_sha256: hash of the examples of train and dev, and whether labels had balanced weights, by
            which a later call recognizes them.
    """

    metrics: dict[str, float]
    examples_sha256: str


def evaluate_baseline(
    data: FinetuneData, known: BaselineResult | None, *, balanced: bool = False
) -> BaselineResult | None:
    """Return the scores of a bag of words; None if the task type has no such baseline.

    Args:
        data: the examples of train and dev.
        known: the result of an earlier call, which is returned if its examples are the same.
        balanced: weigh rare labels in its loss as much as frequent ones, as in that of the model.
    """
    digest = samples_digest([*data.train_samples, *data.dev_samples]) + ("-balanced" if balanced else "")
    if known is not None and known.examples_sha256 == digest:
        return known
    examples = [example for example, _ in data.dev]
    predictions = data.task_type.baseline_predictions(data.train_examples, examples, balanced=balanced)
    if predictions is None:
        return None
    return BaselineResult(data.task_type.compute_metrics(examples, predictions), digest)


def baseline_advice(
    baseline: Mapping[str, float], best: FinetuneResult, data: FinetuneData, settings: FinetuneSettings
) -> str | None:
    """Return what would improve a model that scores lower than the bag of words; None if it does not.

    Args:
        baseline: metrics of the bag of words on dev.
        best: the best run.
        data: the examples and the checkpoint.
        settings: settings of the runs.
    """
    score, baseline_score = data.task.primary_metric(best.metrics), data.task.primary_metric(baseline)
    if score >= baseline_score:
        return None
    remedies = list(_remedies(best, data, settings)) or ["try other learning rates (--sweep)"]
    run = "" if best.run_name == SINGLE_RUN else f", of {best.run_name}"
    return (
        "a bag of words, a linear model on words and bigrams, scores higher "
        f"({_score_title(data)}{100 * baseline_score:.1f}) than this model ({100 * score:.1f}{run}); "
        f"to improve the model, {', '.join(remedies)}"
    )


def _score_title(data: FinetuneData) -> str:
    """Return the name of the score by which models are compared, with a space; empty if none is fixed."""
    names = data.task.primary_metrics or data.task_type.primary_metrics
    titles = " and ".join(map(metric_title, names))
    return f"{'mean of ' if len(names) > 1 else ''}{titles} " if names else ""


def _remedies(best: FinetuneResult, data: FinetuneData, settings: FinetuneSettings) -> Iterator[str]:
    """Yield what would improve a model, from the facts of its run; what is easiest to change comes first."""
    usual_steps = task_defaults(data.task.name).scaled_steps(data.num_samples, best.batch_size)
    if best.stopped_at is not None:
        if best.stopped_at < usual_steps:
            yield patience_advice(best.stopped_at, best.steps)
    elif best.steps < usual_steps:
        yield f"take more steps ({best.steps:,}; {usual_steps:,} are usual)"
    elif best.best_step == best.steps:
        yield f"take more than {best.steps:,} steps (--train.steps; the last evaluation was the best)"
    has_pairs = any(isinstance(one, TextExample) and len(one.texts) > 1 for one in data.train_examples)
    if has_pairs and not data.model_settings.mark_matches:
        yield "mark the tokens that both texts have (--mark-matches)"
    if has_pairs and not settings.matching:
        yield "compare the two texts token by token (--matching)"
    if settings.random_weights:
        yield "start from pre-trained weights (leave out --random-weights)"
    elif (tokens := _pretraining_tokens(data.checkpoint)) is not None and tokens < _FEW_TOKENS:
        yield f"pre-train it on more text (it has seen {tokens:,} tokens)"
    parameters = count_parameters(data.model_settings).encoder
    if parameters < _FEW_PARAMETERS:
        yield f"use a larger one (it has {parameters:,} parameters)"
    if len(data.train) < _FEW_EXAMPLES:
        yield f"label more examples (there are {len(data.train):,})"


def _pretraining_tokens(checkpoint: Path) -> int | None:
    """Return the number of tokens that a model has seen in its pre-training run; None if it is unknown."""
    if (checkpoint / TASK_CARD_FILE).exists() or not (checkpoint / METRICS_FILE).is_file():
        return None
    if _starts_from_checkpoint(checkpoint):  # what that one has seen is not among the metrics of the run
        return None
    tokens = [line["tokens"] for line in read_last_metrics(checkpoint) if line.get("tokens")]
    return int(max(tokens)) if tokens else None


def _starts_from_checkpoint(run: Path) -> bool:
    """Return whether a run was started from a checkpoint; False if its settings cannot be read."""
    try:
        return bool(read_run_settings(run).values.get("init_from"))
    except InputError:
        return False
