"""The tasks of the little world on which studies fine-tune, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.inference.ensemble import evaluate_ensemble
from albertine.inference.evaluate import evaluate
from albertine.inference.settings import EnsembleSettings, EvaluateSettings
from albertine.tasks.registry import primary_metric
from albertine.train.settings import OptimizerName

_SEEDS_PER_RUN = 1_000  # keeps the seeds of the models of one run apart from those of the next


@dataclass(frozen=True)
class StudyTask:
    """A task of the little world.

    Attributes:
        world_name: its name in `albertine world write --tasks`.
        batch_size: examples of a step.
        lr: peak learning rate.
        optimizer: name of the optimizer.
    """

    world_name: str
    batch_size: int = 16
    lr: float = 1e-3
    optimizer: OptimizerName = "muon"


# Rates of the demo, whose models have the same size.
STUDY_TASKS: Mapping[str, StudyTask] = {
    **{name: StudyTask(name) for name in ("mnli", "sst-2", "rte", "sts-b", "mrpc", "cola", "qqp", "qnli")},
    "squad-1.1": StudyTask("squad", 24, 2e-3),
}


@dataclass(frozen=True)
class FinetuningPlan:
    """How an arm is fine-tuned on each task, and scored on examples that chose nothing.

    Attributes:
        start: task whose fine-tuned model all other tasks start from; None for the pre-trained model.
        runs: models that are fine-tuned on each task, with different seeds; the score is their median.
        ensemble: average the predictions of these models, those that the dev set selects, instead.
    """

    start: str | None = None
    runs: int = 1
    ensemble: bool = False


def finetuned_score(model: Path, world: Path, out: Path, name: str, steps: int, seed: int) -> float:
    """Fine-tune a model on a task; return the score of the last step on dev."""
    return primary_metric(name, finetune(model, out, _settings(name, world, steps, seed)).median_metrics)


def planned_score(
    model: Path, worlds: tuple[Path, Path], out: Path, name: str, steps: int, seed: int, plan: FinetuningPlan
) -> float:
    """Fine-tune a model on a task by a plan; return the score on the second world.

    Args:
        model: the pre-trained model.
        worlds: the world for training and for the selection of ensembles, and one for the score.
        out: folder of the fine-tuned models; models that it already holds are used, or resumed.
        name: the task.
        steps: steps of each run.
        seed: seed of the run of the study.
        plan: the plan.
    """
    world, test_world = worlds
    if plan.start is not None and plan.start != name:
        start = out / f"start-{plan.start}"
        finetune(model, start, _settings(plan.start, world, steps, _SEEDS_PER_RUN * seed))
        model = start
    tuned = []
    for number in range(plan.runs):
        tuned.append(out / f"{name}-{number}")
        finetune(model, tuned[-1], _settings(name, world, steps, _SEEDS_PER_RUN * seed + number))
    if plan.ensemble:
        ensemble = out / f"{name}-ensemble"
        if not ensemble.exists():
            evaluate_ensemble(tuned, EnsembleSettings(data=str(world)), save=ensemble)
        tuned = [ensemble]
    results = [evaluate(one, EvaluateSettings(data=str(test_world)))[0] for one in tuned]
    return median(primary_metric(name, result.metrics) for result in results)


def _settings(name: str, world: Path, steps: int, seed: int) -> FinetuneSettings:
    task = STUDY_TASKS[name]
    return FinetuneSettings(
        task=name,
        data=str(world),
        train=FinetuneTrainSettings(
            steps=steps,
            batch_size=task.batch_size,
            lr=task.lr,
            optimizer=task.optimizer,
            seed=seed,
            evaluate_every=steps,
        ),
    )
