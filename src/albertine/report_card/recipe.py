"""The recipe of all report cards: how much data, how many steps, at which learning rate.

It is fixed, because scores can be compared only if the recipe is the same, and short, because the card of a
small model should take less than an hour on a CPU. Nothing is selected on dev: the model of the last step
counts, and a run that predicts the same label for all examples is not repeated. See
docs/decisions/report-card-recipe.md.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.settings import DeviceName, ModelSettings
from albertine.tasks.settings import SequenceSettings
from albertine.train.settings import OptimizerName

# Cards of different recipes cannot be compared. So a change of any value in this file raises the version, and
# a folder with an older card is refused.
RECIPE_VERSION = 4
MAX_TRAIN_EXAMPLES, MAX_DEV_EXAMPLES = 8_000, 4_000
# Of the 1,000 pairs that BLiMP has; those of all paradigms together give an interval of about one point.
PAIRS_PER_PARADIGM = 100
PROBE_TOKENS = 200_000  # of held-out text
# A model narrower than BERT-base learns more in few steps with Muon than with AdamW.
_BERT_BASE_WIDTH = 768
_MUON_RATE = 2e-3  # the same for all widths: see docs/decisions/muon-update-scale.md
_ADAMW_RATE = 5e-5  # at the width of BERT-base; falls with the square of the width
_WARMUP = 0.1  # of the steps
# The values of the paper for four of the five tasks; QQP has 0.1 and 0.1 there.
_DROPOUT, _CLASSIFIER_DROPOUT = 0.0, 0.1

Metric = Literal["accuracy", "matthews", "f1"]
# Half the 95% interval of a score on one example; it falls with the square root of the number of examples.
# Accuracy and F1 are means of values from 0 to 1, whose standard deviation is at most 0.5. A Matthews
# correlation of 0, as by chance, has the standard deviation 1.
_MARGINS: dict[Metric, float] = {"accuracy": 1.96 * 0.5, "f1": 1.96 * 0.5, "matthews": 1.96}


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
        has_text_pair: whether an example has the columns text and text_pair.
        marks_matches: whether the tokens that both texts have in common are marked.
    """

    task: str
    title: str
    metric: Metric
    question: str
    epochs: int = 2
    batch_size: int = 32
    max_length: int = 128
    has_text_pair: bool = False
    marks_matches: bool = False

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


# The longest runs first: runs start in this order, and if a long one were last, it would run alone.
TASK_RECIPES = {
    recipe.task: recipe
    for recipe in (
        TaskRecipe(
            "mnli",
            "MNLI",
            "accuracy",
            "Does one sentence follow from the other?",
            has_text_pair=True,
            marks_matches=True,
        ),
        # Fewer than 900 training questions, so more epochs of smaller batches; their passages are long.
        TaskRecipe(
            "squad-1.1",
            "XQuAD",
            "f1",
            "Where in the passage is the answer?",
            epochs=4,
            batch_size=16,
            max_length=384,
            marks_matches=True,
        ),
        TaskRecipe(
            "qqp", "QQP", "accuracy", "Do two questions ask the same?", has_text_pair=True, marks_matches=True
        ),
        TaskRecipe("sst-2", "SST-2", "accuracy", "Is a review positive or negative?"),
        TaskRecipe("cola", "CoLA", "matthews", "Is a sentence acceptable English?"),
    )
}
# The order on the card.
CARD_ORDER = ("sst-2", "mnli", "qqp", "cola", "squad-1.1")


def optimizer_and_rate(width: int) -> tuple[OptimizerName, float]:
    """Return the optimizer and its peak learning rate for a model's width."""
    if width < _BERT_BASE_WIDTH:
        return "muon", _MUON_RATE
    rate = _ADAMW_RATE * (_BERT_BASE_WIDTH / width) ** 2
    return "adamw", float(f"{rate:.3g}")  # rounded, so that settings and cards show a short number


def compares_texts(recipe: TaskRecipe, model: ModelSettings) -> bool:
    """Return whether the head compares the two texts of a pair, which it tells apart by their segments."""
    return recipe.has_text_pair and model.segments > 1


def marks_matches(recipe: TaskRecipe, model: ModelSettings) -> bool:
    """Return whether the tokens that two texts have in common are marked; segments tell the texts apart."""
    return recipe.marks_matches and model.segments > 1


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
        text_pair="text_pair" if recipe.has_text_pair else None,
        matching=compares_texts(recipe, model),
        mark_matches=marks_matches(recipe, model),
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
            evaluate_every=steps,  # only after the last step, because nothing is selected on dev
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
                "mark_matches": marks_matches(recipe, model),
            }
            for recipe in TASK_RECIPES.values()
        },
    }
