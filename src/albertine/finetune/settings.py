"""Settings of fine-tuning and of sweeps over its hyperparameters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from albertine.settings import DeviceName, SettingError, Settings, setting
from albertine.tasks.settings import DataSettings, SequenceSettings
from albertine.train.settings import OptimizerName, ScheduleName, TrainerSettings

_EXIT_PRIOR, _EXIT_PRIOR_WEIGHT = 0.1, 0.5
_HELD_OUT = 0.1
_MAX_LEARNING_RATE, _MAX_BATCH_SIZE, _MAX_DROPOUT = 10.0, 1_000_000, 0.99


@dataclass(frozen=True)
class FinetuneTrainSettings(TrainerSettings):
    """Training on a task; unset values are the paper's for the task (Table 14 of the ALBERT paper)."""

    steps: int = setting(
        0,
        "Optimizer steps; 0 takes the paper's number for the task, or fewer if there is less data.",
        minimum=0,
    )
    batch_size: int | None = setting(
        None,
        "Examples per step; if not set, the paper's for the task, or fewer if there is little data.",
        minimum=1,
        maximum=_MAX_BATCH_SIZE,
    )
    optimizer: OptimizerName | None = setting(
        None,
        "AdamW, AdamW without bias correction (bert-adam), Muon, or LAMB; if not set, bert-adam as in the "
        "paper, and muon for models narrower than the paper's.",
    )
    lr: float | None = setting(
        None,
        "Peak learning rate; if not set, the paper's for task and batch size, and for models narrower than "
        "the paper's one that suits the optimizer.",
        minimum=0.0,
        maximum=_MAX_LEARNING_RATE,
    )
    warmup: int | None = setting(
        None, "Warm-up steps; if not set, the paper's fraction of the steps.", minimum=0
    )
    schedule: ScheduleName | None = setting(
        None,
        "Learning rate after the warm-up: linear decay counted from the end of the warm-up (linear) or from "
        "the first step (linear-from-start), cosine decay to 0, or constant; if not set, linear-from-start "
        "as in the paper, and linear for models narrower than the paper's.",
    )
    evaluate_every: int | None = setting(
        None, "Steps between evaluations; if not set, a tenth of the run.", minimum=1
    )
    layer_decay: float = setting(
        1.0,
        "Factor on the learning rate for each layer below the head; a shared block counts as the last layer.",
        minimum=0.01,
        maximum=1,
    )
    freeze_embeddings: bool = setting(False, "Do not train the embeddings.")
    class_weights: Literal["none", "balanced"] = setting(
        "none",
        "For classification, with one label or several, and tagging: weight of each label in the loss: none, "
        "or balanced, in inverse proportion to its frequency, so that rare labels count as much as frequent "
        "ones.",
    )
    exits: bool = setting(
        False,
        "Train the head after every step of depth, so that predictions can leave early (--exit); the loss of "
        "a step has a weight proportional to its depth.",
    )
    learned_exit: bool = setting(
        False,
        "With --train.exits: train an exit unit, which predicts after each step whether to stop "
        "(--exit learned), as in PALBERT; the loss is the expected one over its exits.",
    )
    exit_prior: float = setting(
        _EXIT_PRIOR,
        "With --train.learned-exit: probability to stop at each step under the prior of the exits.",
        minimum=0.001,
        maximum=0.999,
    )
    exit_prior_weight: float = setting(
        _EXIT_PRIOR_WEIGHT,
        "With --train.learned-exit: weight in the loss of the KL divergence of the exits from the prior.",
        minimum=0.0,
        maximum=100.0,
    )

    def check(self) -> None:
        """Raise `SettingError` if there is an exit unit without exits, or a prior without an exit unit."""
        super().check()
        if self.learned_exit and not self.exits:
            raise SettingError("learned_exit", True, "needs exits = true", ("exits",))
        if self.learned_exit and self.class_weights != "none":
            raise SettingError(
                "class_weights", self.class_weights, "must be none with learned_exit", ("learned_exit",)
            )
        for name, default in (("exit_prior", _EXIT_PRIOR), ("exit_prior_weight", _EXIT_PRIOR_WEIGHT)):
            value = getattr(self, name)
            if value != default and not self.learned_exit:
                raise SettingError(name, value, "needs learned_exit = true", ("learned_exit",))


@dataclass(frozen=True)
class FinetuneSettings(DataSettings):
    """One fine-tuning run, or several with different seeds."""

    earlier_values: ClassVar[Mapping[str, Any]] = MappingProxyType({"mark_matches": False})

    dev: str | None = setting(
        None, "Data to evaluate on; if not set, the task's own dev, or a part held out of --data."
    )
    held_out: float = setting(
        _HELD_OUT,
        "Fraction of --data to hold out if there is no dev; --train.seed selects the examples.",
        minimum=0.001,
        maximum=0.9,
    )
    init_from: str | None = setting(
        None, "Run on another task to start from, in place of MODEL, such as one on MNLI for RTE."
    )
    random_weights: bool = setting(
        False, "Randomize the weights and keep only the architecture, to measure the gain of pre-training."
    )
    device: DeviceName = setting("auto", "Device; auto is a GPU if there is one.")
    dropout: float | None = setting(
        None, "Dropout of the encoder; if not set, the paper's for the task.", minimum=0, maximum=_MAX_DROPOUT
    )
    classifier_dropout: float | None = setting(
        None, "Dropout before the last layer; if not set, 0.1 as in the paper.", minimum=0, maximum=0.99
    )
    co_matching: bool = setting(
        False, "For multiple choice: match passage, question and option in pairs, in place of reading [CLS]."
    )
    matching: bool = setting(
        False, "For pairs of texts: compare the two token by token, beside reading [CLS]."
    )
    mark_matches: bool | None = setting(
        None,
        "For two texts in a sequence: add a vector to the embeddings of the tokens that both have. By "
        "default on for pairs and for questions about a passage, if the model departs from published "
        "ALBERT, as albertine-* do. A model that has the vector keeps it.",
    )
    exit_heads: Literal["shared", "own"] = setting(
        "shared", "With --train.exits: one head for all steps of depth (shared), or one for each step (own)."
    )
    albert_v2: bool = setting(False, "Use the paper's values for version 2 of its models where they differ.")
    metric: str | None = setting(
        None,
        "Metric on dev that selects the best model; if not set, that of the task, or macro_f1 for "
        "classify and multi-label with --train.class-weights balanced.",
    )
    seeds: int = setting(
        1, "Number of runs with different seeds; the median is reported.", minimum=1, maximum=1000
    )
    sequence: SequenceSettings = setting(SequenceSettings(), "How examples become sequences.")
    train: FinetuneTrainSettings = setting(FinetuneTrainSettings(), "Training on the task.")

    def check(self) -> None:
        """Raise `SettingError` if one setting makes another useless."""
        super().check()
        if self.dev is not None and self.held_out != _HELD_OUT:
            raise SettingError("held_out", self.held_out, "is not used if there is a dev", ("dev",))
        if self.exit_heads != "shared" and not self.train.exits:
            raise SettingError("exit_heads", self.exit_heads, "needs train.exits = true", ("train.exits",))


GRID_MAXIMA = {"lr": _MAX_LEARNING_RATE, "batch_size": _MAX_BATCH_SIZE, "dropout": _MAX_DROPOUT}


@dataclass(frozen=True)
class SweepGrid(Settings):
    """The values that a sweep combines."""

    lr: str = setting("0.5x, 1x, 2x", "Learning rates to try; 2x is twice the task's default.")
    batch_size: str = setting("1x", "Numbers of examples per step to try; 2x is twice the task's default.")
    dropout: str = setting("0, 0.1", "Dropout probabilities of the encoder to try.")

    def check(self) -> None:
        """Raise `SettingError` unless all values are lists of numbers in range."""
        for key in ("lr", "batch_size", "dropout"):
            self.values(key)

    def values(self, key: str) -> list[tuple[float, bool]]:
        """Return each entry of a list as its number and whether it is a multiple; "2x" is (2.0, True)."""
        entries = []
        for word in getattr(self, key).split(","):
            try:
                value = float(word.strip().removesuffix("x"))
            except ValueError:
                raise SettingError(key, getattr(self, key), 'must be numbers, as in "1e-5, 2x"') from None
            if not (0 <= value < 1 if key == "dropout" else 0 < value < math.inf):
                allowed = "from 0 to below 1" if key == "dropout" else "above 0"
                raise SettingError(key, getattr(self, key), f"each must be {allowed}")
            is_multiple = word.strip().endswith("x")
            if is_multiple and key == "dropout":
                raise SettingError(
                    key, getattr(self, key), "must be values; only lr and batch_size have an x"
                )
            if not is_multiple and value > (maximum := GRID_MAXIMA[key]):
                raise SettingError(key, getattr(self, key), f"each must be at most {maximum:,}")
            entries.append((value, is_multiple))
        return entries


GRID_WITHOUT_SWEEP = "--grid: only a sweep has a grid; add --sweep, or leave it out"


@dataclass(frozen=True)
class SweepSettings(FinetuneSettings):
    """Fine-tuning runs over a grid of hyperparameters."""

    grid: SweepGrid = setting(SweepGrid(), "Values that --sweep combines.")
