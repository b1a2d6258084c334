"""The report card: all scores of a pre-trained model, and their form as JSON."""

from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from albertine.report_card.finetune_runs import scores_of_runs
from albertine.report_card.recipe import CARD_ORDER, TASK_RECIPES, TaskRecipe, recipe_json
from albertine.report_card.workspace import CardWorkspace

CARD_FORMAT = 1


@dataclass(frozen=True)
class TaskScores:
    """The scores on one task.

    Attributes:
        recipe: the recipe of the task.
        train_examples: number of training examples.
        dev_examples: number of dev examples.
        pretrained: score of each seed, from the pre-trained model.
        untrained: score of each seed, from the same network without pre-training.
        tf_idf: score of a linear model on TF-IDF; None for questions on passages.
        most_common_label: score of the most common label; None for questions on passages.
    """

    recipe: TaskRecipe
    train_examples: int
    dev_examples: int
    pretrained: list[float]
    untrained: list[float]
    tf_idf: float | None
    most_common_label: float | None

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
        return self.recipe.margin(self.dev_examples)

    def to_json(self) -> dict[str, Any]:
        """Return the scores under stable keys."""
        values = {key: value for key, value in asdict(self).items() if key != "recipe"}
        return {
            "task": self.recipe.task,
            "title": self.recipe.title,
            "metric": self.recipe.metric,
            "score": self.score,
            "untrained_score": self.untrained_score,
            "margin": self.margin,
            **values,
        }


@dataclass(frozen=True)
class ReportCard:
    """All scores of a model.

    Attributes:
        model: name of the model, as the user gave it.
        parameters: number of parameters of the encoder.
        held_out: losses and accuracies on held-out text, the JSON of a probe; None without a corpus.
        blimp: accuracies on minimal pairs, with their intervals; None without such pairs.
        tasks: scores on the tasks, in the order of the card.
        left_out: for each part without data, its title and what was not found.
        recipe: the recipe as JSON values.
        seeds: number of fine-tuning runs for each task and start.
    """

    model: str
    parameters: int
    held_out: dict[str, Any] | None
    blimp: dict[str, Any] | None
    tasks: list[TaskScores]
    left_out: dict[str, str]
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
            "held_out": self.held_out,
            "blimp": self.blimp,
            "tasks": [task.to_json() for task in self.tasks],
            "mean_gain": self.mean_gain,
            "left_out": self.left_out,
            "recipe": self.recipe,
            "seeds": self.seeds,
        }


def read_card(workspace: CardWorkspace, model: str, parameters: int, left_out: dict[str, str]) -> ReportCard:
    """Return the card of a workspace; parts that are not computed yet are computed now."""
    return ReportCard(
        model,
        parameters,
        workspace.probe_model(),
        workspace.score_minimal_pairs(),
        [_task_scores(workspace, task) for task in CARD_ORDER if task in workspace.sources.tasks],
        left_out,
        recipe_json(workspace.model_settings),
        workspace.settings.seeds,
    )


def _task_scores(workspace: CardWorkspace, task: str) -> TaskScores:
    data, baselines = workspace.copy_data(task), workspace.score_baselines(task)
    return TaskScores(
        TASK_RECIPES[task],
        data["train_examples"],
        data["dev_examples"],
        scores_of_runs(workspace, task, "pre-trained"),
        scores_of_runs(workspace, task, "untrained"),
        baselines.get("tf_idf"),
        baselines.get("most_common_label"),
    )
