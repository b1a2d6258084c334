"""The tasks of the little world on which studies fine-tune, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.tasks.registry import primary_metric
from albertine.train.settings import OptimizerName


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
    batch_size: int
    lr: float
    optimizer: OptimizerName = "muon"


# Rates of the demo, whose models have the same size.
STUDY_TASKS: Mapping[str, StudyTask] = {
    "mnli": StudyTask("mnli", 16, 1e-3),
    "squad-1.1": StudyTask("squad", 24, 2e-3),
    "sst-2": StudyTask("sst-2", 16, 1e-3),
}


def finetuned_score(model: Path, world: Path, out: Path, name: str, steps: int, seed: int) -> float:
    """Fine-tune a model on a task; return the score of the last step on dev."""
    task = STUDY_TASKS[name]
    settings = FinetuneSettings(
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
    return primary_metric(name, finetune(model, out, settings).median_metrics)
