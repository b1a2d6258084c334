"""The report card: all scores of a pre-trained model, and their form as JSON."""

from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from albertine.report_card.finetune_runs import scores_of_runs
from albertine.report_card.recipe import CARD_ORDER, TASK_RECIPES, TaskRecipe, recipe_json
from albertine.report_card.results import BaselineScores, CopiedData, HeldOutScores, MinimalPairScores
from albertine.report_card.workspace import CardWorkspace

CARD_FORMAT = 1


@dataclass(frozen=True)
class TaskScores:
    """The scores on one task.

    Attributes:
        recipe: the recipe of the task.
        data: the copied examples.
        pretrained: score of each seed, from the pre-trained model.
        untrained: score of each seed, from the same network without pre-training.
        baselines: scores of the baselines.
    """

    recipe: TaskRecipe
    data: CopiedData
    pretrained: list[float]
    untrained: list[float]
    baselines: BaselineScores

    @property
    def score(self) -> float:
        """Median score of the pre-trained model."""
        return median(self.pretrained)

    @property
    def untrained_score(self) -> float:
        """Median score of the network without pre-training."""
        return median(self.untrained)

    @property
    def margin(self) -> float:
        """Half the 95% interval of a score, from the number of dev examples alone."""
        return self.recipe.margin(self.data.dev_examples)

    def to_json(self) -> dict[str, Any]:
        """Return the scores under stable keys."""
        return {
            "task": self.recipe.task,
            "title": self.recipe.title,
            "metric": self.recipe.metric,
            "score": self.score,
            "untrained_score": self.untrained_score,
            "pretrained": self.pretrained,
            "untrained": self.untrained,
            **asdict(self.baselines),
            "margin": self.margin,
            **asdict(self.data),
        }


@dataclass(frozen=True)
class ReportCard:
    """All scores of a model.

    Attributes:
        model: name of the model, as the user gave it.
        parameters: number of parameters of the encoder.
        held_out: losses and accuracies on held-out text; None without a corpus.
        blimp: accuracies on minimal pairs; None without such pairs.
        tasks: scores on the tasks, in the order of the card.
        skipped_parts: for each part without data, its title and what was not found.
        recipe: the recipe as JSON values.
        seeds: number of fine-tuning runs for each task and start.
    """

    model: str
    parameters: int
    held_out: HeldOutScores | None
    blimp: MinimalPairScores | None
    tasks: list[TaskScores]
    skipped_parts: dict[str, str]
    recipe: dict[str, Any]
    seeds: int

    @property
    def mean_gain(self) -> float | None:
        """Mean gain of pre-training over all tasks; None without tasks."""
        gains = [task.score - task.untrained_score for task in self.tasks]
        return fmean(gains) if gains else None

    def to_json(self) -> dict[str, Any]:
        """Return the card under stable keys."""
        return {
            "format": CARD_FORMAT,
            "model": self.model,
            "parameters": self.parameters,
            "held_out": asdict(self.held_out) if self.held_out else None,
            "blimp": asdict(self.blimp) if self.blimp else None,
            "tasks": [task.to_json() for task in self.tasks],
            "mean_gain": self.mean_gain,
            "skipped_parts": self.skipped_parts,
            "recipe": self.recipe,
            "seeds": self.seeds,
        }


def read_card(
    workspace: CardWorkspace, model: str, parameters: int, skipped_parts: dict[str, str]
) -> ReportCard:
    """Return the card of a workspace; parts that are not computed yet are computed now."""
    return ReportCard(
        model,
        parameters,
        workspace.probe_model(),
        workspace.score_minimal_pairs(),
        [_task_scores(workspace, task) for task in CARD_ORDER if task in workspace.sources.tasks],
        skipped_parts,
        recipe_json(workspace.model_settings),
        workspace.settings.seeds,
    )


def _task_scores(workspace: CardWorkspace, task: str) -> TaskScores:
    return TaskScores(
        TASK_RECIPES[task],
        workspace.copy_data(task),
        scores_of_runs(workspace, task, "pre-trained"),
        scores_of_runs(workspace, task, "untrained"),
        workspace.score_baselines(task),
    )
