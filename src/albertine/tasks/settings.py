"""What can be set of tasks: where examples are, how a model is tuned on them; apart, for the help page."""

import math
from dataclasses import dataclass
from typing import Literal

from albertine.settings import SettingError, Settings, setting
from albertine.train.settings import OptimizerName, TrainerSettings

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "fp32", "bf16"]
Split = Literal["dev", "test", "train"]


@dataclass(frozen=True)
class DataSettings(Settings):
    """Which task, where its examples are, and what the columns of a file are called."""

    task: str | None = setting(
        None,
        "One of GLUE's (cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli), squad-1.1, squad-2.0, race, "
        "dream; or your own: classify, regress, tag, span, choice.",
    )
    data: str | None = setting(
        None,
        "The task's folder in its official layout, a file (.csv, .tsv, .jsonl, .parquet, .conll, .json), "
        "or hub:OWNER/NAME.",
    )
    text: str = setting("text", "Column of the text; of the words, for tag.")
    text_pair: str | None = setting(None, "Column of a second text, where a pair is judged.")
    label: str = setting("label", "Column of the label, number or tags; of the right option, for choice.")
    question: str = setting("question", "Column of the question.")
    context: str = setting("context", "Column of the passage.")
    answers: str = setting("answers", "Column of the answers; of SQuAD's form, or plain text.")
    options: str = setting(
        "options", "Column of the list of options, or several columns: a,b,c,d (for choice)."
    )
    id: str = setting("id", "Column of what a row is called; if there is none, rows are numbered.")
    on_error: Literal["stop", "skip"] = setting(
        "stop", "A row that cannot be read: stop, or leave it out, counted and told."
    )


@dataclass(frozen=True)
class FinetuneTrainSettings(TrainerSettings):
    """How a model is tuned on a task; what is not set is the paper's, for the task (its Table 14)."""

    steps: int = setting(
        0, "Steps of the optimizer; 0: the paper's for the task, fewer where there is less data.", minimum=0
    )
    batch_size: int | None = setting(
        None,
        "Examples of one step; if not set, the paper's for the task, or fewer where there is little data.",
        minimum=1,
        maximum=1_000_000,
    )
    optimizer: OptimizerName = setting("adamw", "AdamW as in the paper, Muon or LAMB.")
    lr: float | None = setting(
        None,
        "Highest learning rate; if not set, the paper's for task and batch, higher for narrow models.",
        minimum=0.0,
        maximum=10.0,
    )
    warmup: int | None = setting(
        None, "Steps in which the rate rises; the paper's share of the steps if not set.", minimum=0
    )
    evaluate_every: int | None = setting(
        None, "Steps between evaluations; if not set, a tenth of the run.", minimum=1
    )
    layer_decay: float = setting(
        1.0,
        "What the rate is multiplied with for each layer further down; a shared layer counts as the last.",
        minimum=0.01,
        maximum=1,
    )
    freeze_embeddings: bool = setting(False, "Leave the embeddings as they are.")


@dataclass(frozen=True)
class SequenceSettings(Settings):
    """How examples become sequences."""

    max_length: int | None = setting(
        None, "Longest sequence, in pieces; the paper's for the task, or what the model takes.", minimum=8
    )
    stride: int = setting(128, "Pieces from one window of a long passage to the next (span).", minimum=1)
    max_question_length: int = setting(64, "Most pieces of a question (span).", minimum=4)
    max_answer_length: int = setting(30, "Most pieces of an answer (span).", minimum=1)
    num_candidates: int = setting(
        20, "How many answers are weighed against each other (span).", minimum=1, maximum=1000
    )


@dataclass(frozen=True)
class FinetuneSettings(DataSettings):
    """One run, or several of a kind."""

    dev: str | None = setting(
        None, "What the model is measured on; if not set, the task's own dev, or a part held out of --data."
    )
    held_out: float = setting(
        0.1, "The part held out where there is no dev, drawn by --train.seed.", minimum=0.001, maximum=0.9
    )
    init_from: str | None = setting(
        None, "A run on another task to start from, in place of a pre-trained model (MNLI for RTE)."
    )
    random_weights: bool = setting(
        False, "Draw all weights anew and keep the network alone: what a task teaches without pre-training."
    )
    device: Device = setting("auto", "Where; auto is a GPU where there is one.")
    dropout: float | None = setting(
        None, "Dropout of the network; the paper's for the task if not set.", minimum=0, maximum=0.99
    )
    classifier_dropout: float | None = setting(
        None, "Dropout before the last layer; 0.1 if not set, as in the paper.", minimum=0, maximum=0.99
    )
    albert_v2: bool = setting(
        False, "Take the paper's settings for version 2 of its models, where they differ."
    )
    seeds: int = setting(1, "Runs with different seeds; the median is reported.", minimum=1, maximum=1000)
    sequence: SequenceSettings = setting(SequenceSettings(), "How examples become sequences.")
    train: FinetuneTrainSettings = setting(FinetuneTrainSettings(), "How the model is tuned.")


@dataclass(frozen=True)
class SweepGrid(Settings):
    """What a sweep tries: all combinations of what is listed."""

    lr: str = setting("0.5x, 1x, 2x", "Rates; with an x, times the one of the task.")
    batch_size: str = setting("1x", "Examples of one step; with an x, times the task's.")
    dropout: str = setting("0, 0.1", "Dropout of the network.")

    def check(self) -> None:
        """Refuse what is no list of numbers."""
        for key in ("lr", "batch", "dropout"):
            self.values(key)

    def values(self, key: str) -> list[tuple[float, bool]]:
        """Return the numbers of a list, and whether each is a multiple."""
        found = []
        for word in getattr(self, key).split(","):
            try:
                value = float(word.strip().removesuffix("x"))
            except ValueError:
                raise SettingError(key, getattr(self, key), 'must be numbers, as in "1e-5, 2x"') from None
            if not (0 <= value < 1 if key == "dropout" else 0 < value < math.inf):
                below = "from 0 to below 1" if key == "dropout" else "above 0"
                raise SettingError(key, getattr(self, key), f"each must be {below}")
            found.append((value, word.strip().endswith("x")))
        return found


@dataclass(frozen=True)
class SweepSettings(FinetuneSettings):
    """Runs over a grid."""

    grid: SweepGrid = setting(SweepGrid(), "What --sweep tries.")


@dataclass(frozen=True)
class InferenceSettings(DataSettings):
    """How a tuned model is asked."""

    device: Device = setting("auto", "Where; auto is a GPU where there is one.")
    precision: Precision = setting(
        "auto", "Of the matrix products; auto takes bf16 where the machine is fast at it."
    )


@dataclass(frozen=True)
class EvaluateSettings(InferenceSettings):
    """What to measure a model on."""

    split: Split = setting("dev", "Which part of a task's folder.")


@dataclass(frozen=True)
class PredictSettings(InferenceSettings):
    """What to predict, and where."""

    split: Split = setting("test", "Which part of a task's folder.")


@dataclass(frozen=True)
class EnsembleSettings(InferenceSettings):
    """What is joined, and how."""

    selection: Literal["greedy", "all"] = setting(
        "greedy", "Take what makes the score on dev better, one after another; or all."
    )
