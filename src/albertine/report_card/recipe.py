"""The recipe of all report cards: how much data, how many steps, at which rate.

It is fixed, because scores can be compared only if the recipe is the same. It is also short.
No choice is made on dev: the model of the last step counts, and a run that predicts the same label for all
examples is not repeated.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.settings import DeviceName, ModelSettings
from albertine.tasks.settings import SequenceSettings
from albertine.train.settings import OptimizerName

# A change of any of these makes new cards incomparable with older ones: raise the version with it.
RECIPE_VERSION = 2
MAX_TRAIN_EXAMPLES, MAX_DEV_EXAMPLES = 8_000, 4_000
PAIRS_PER_PARADIGM = 100  # of BLiMP's 1,000
PROBE_TOKENS = 200_000
# Muon trains a model narrower than BERT-base; AdamW, whose rate falls with the width, trains the others.
_WIDTH, _MUON_RATE, _ADAMW_RATE = 768, 2e-3, 5e-5
_WARMUP = 0.1
_DROPOUT, _CLASSIFIER_DROPOUT = 0.0, 0.1

Metric = Literal["accuracy", "matthews", "f1"]
# Half the 95% interval of a metric, times the square root of the number of examples: at most, for means of
# numbers between 0 and 1; for a Matthews correlation, if there is none.
_MARGINS: dict[Metric, float] = {"accuracy": 0.98, "f1": 0.98, "matthews": 1.96}


@dataclass(frozen=True)
class TaskRecipe:
    """How a model is fine-tuned on one task.

    Attributes:
        task: name of the task in `albertine finetune`.
        title: name on the card.
        metric: the score on the card.
        question: what the task asks, in words.
        epochs: how often a run takes each training example.
        batch_size: examples per step.
        max_length: maximum tokens of a sequence.
        is_pair: whether an example has two texts, which the head then compares.
    """

    task: str
    title: str
    metric: Metric
    question: str
    epochs: int = 2
    batch_size: int = 32
    max_length: int = 128
    is_pair: bool = False

    @property
    def metric_title(self) -> str:
        """Name of the metric in words."""
        return {"accuracy": "accuracy", "matthews": "Matthews", "f1": "F1"}[self.metric]

    def steps(self, examples: int) -> int:
        """Return the number of steps for a number of training examples."""
        return math.ceil(examples * self.epochs / self.batch_size)

    def margin(self, examples: int) -> float:
        """Return half the 95% interval of a score on so many dev examples."""
        return _MARGINS[self.metric] / math.sqrt(examples)


# The longest runs first, because they start in this order.
TASK_RECIPES = {
    recipe.task: recipe
    for recipe in (
        TaskRecipe("mnli", "MNLI", "accuracy", "Does one sentence follow from the other?", is_pair=True),
        TaskRecipe("squad-1.1", "XQuAD", "f1", "Where in the passage is the answer?", 4, 16, 384),
        TaskRecipe("qqp", "QQP", "accuracy", "Do two questions ask the same?", is_pair=True),
        TaskRecipe("sst-2", "SST-2", "accuracy", "Is a review positive or negative?"),
        TaskRecipe("cola", "CoLA", "matthews", "Is a sentence acceptable English?"),
    )
}
# The order on the card.
CARD_ORDER = ("sst-2", "mnli", "qqp", "cola", "squad-1.1")


def optimizer_and_rate(width: int) -> tuple[OptimizerName, float]:
    """Return the optimizer and its peak learning rate for a model's width."""
    if width < _WIDTH:
        return "muon", _MUON_RATE
    return "adamw", float(f"{_ADAMW_RATE * (_WIDTH / width) ** 2:.3g}")


def compares_texts(recipe: TaskRecipe, model: ModelSettings) -> bool:
    """Return whether the head compares the two texts of a pair, which a model tells apart by segments."""
    return recipe.is_pair and model.segments > 1


def finetune_settings(
    recipe: TaskRecipe, model: ModelSettings, data: Path, steps: int, seed: int, device: DeviceName
) -> FinetuneSettings:
    """Return the settings of one fine-tuning run.

    Args:
        recipe: the recipe of the task.
        model: settings of the encoder.
        data: folder with `train.jsonl` and `dev.jsonl`; see `task_data`.
        steps: number of steps.
        seed: seed of the new layer and of the order of the examples.
        device: where to train.
    """
    optimizer, rate = optimizer_and_rate(model.hidden_size)
    return FinetuneSettings(
        task=recipe.task,
        data=str(data / "train.jsonl"),
        dev=str(data / "dev.jsonl"),
        text_pair="text_pair" if recipe.is_pair else None,
        matching=compares_texts(recipe, model),
        device=device,
        dropout=_DROPOUT,
        classifier_dropout=_CLASSIFIER_DROPOUT,
        sequence=SequenceSettings(max_length=min(recipe.max_length, model.max_length)),
        train=FinetuneTrainSettings(
            steps=steps,
            batch_size=recipe.batch_size,
            optimizer=optimizer,
            schedule="linear",
            lr=rate,
            warmup=round(_WARMUP * steps),
            evaluate_every=steps,
            keep_checkpoints=1,
            seed=seed,
        ),
    )


def recipe_json(model: ModelSettings) -> dict[str, Any]:
    """Return the recipe for a model as JSON values."""
    optimizer, rate = optimizer_and_rate(model.hidden_size)
    return {
        "version": RECIPE_VERSION,
        "max_train_examples": MAX_TRAIN_EXAMPLES,
        "max_dev_examples": MAX_DEV_EXAMPLES,
        "pairs_per_paradigm": PAIRS_PER_PARADIGM,
        "optimizer": optimizer,
        "learning_rate": rate,
        "tasks": {
            recipe.task: {
                "epochs": recipe.epochs,
                "batch_size": recipe.batch_size,
                "max_length": min(recipe.max_length, model.max_length),
                "matching": compares_texts(recipe, model),
            }
            for recipe in TASK_RECIPES.values()
        },
    }
