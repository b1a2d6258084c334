"""Settings of inference: evaluation, prediction, ensembles, scores and vectors of texts, fill-mask."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albertine.settings import DeviceName, PrecisionName, SettingError, Settings, setting
from albertine.settings.engine import ENGINE_HELP, EngineName, EngineOptions
from albertine.settings.exit_rule import (
    DEPTH_HELP,
    EXIT_HELP,
    MAX_DEPTH,
    PRETRAINED_DEPTH_HELP,
    ExitRule,
    make_exit_rule,
)
from albertine.tasks.settings import HEADER_HELP, DataSettings, Split

_PRECISION_HELP = (
    "Precision of the matrix products; auto is fp32 if the model was fine-tuned in fp32, else bf16 where the "
    "machine computes it fast"
)


@dataclass(frozen=True)
class InferenceSettings(DataSettings):
    """Data, device and precision of inference."""

    device: DeviceName = setting("auto", "Device; auto is a GPU if there is one.")
    precision: PrecisionName = setting("auto", f"{_PRECISION_HELP}.")
    engine: EngineName | None = setting(None, ENGINE_HELP)

    @property
    def engine_options(self) -> EngineOptions:
        """Where and how the model runs."""
        return EngineOptions(self.device, self.precision, self.engine)


@dataclass(frozen=True)
class DepthSettings(InferenceSettings):
    """Inference with an adjustable depth."""

    exit: str | None = setting(None, EXIT_HELP)
    depth: int | None = setting(None, DEPTH_HELP, minimum=1, maximum=MAX_DEPTH)

    def check(self) -> None:
        """Raise `SettingError` if `exit` is not a rule."""
        super().check()
        make_exit_rule(self.exit, self.depth)

    @property
    def exit_rule(self) -> ExitRule | None:
        """When a prediction is final; None after all steps of the model."""
        return make_exit_rule(self.exit, self.depth)


_TOLERANCE = 0.5  # points of a score


@dataclass(frozen=True)
class EvaluateSettings(DepthSettings):
    """Evaluation of fine-tuned models, and of pre-trained models on minimal pairs."""

    task: str | None = setting(
        None,
        "Task to evaluate on; by default the one that the model was fine-tuned on. For a pre-trained model, "
        "blimp: does it prefer the right sentence of minimal pairs?",
    )
    split: Split = setting("dev", "Split of the task's folder.")
    method: Literal["word-l2r", "token", "both", "left-to-right"] = setting(
        "word-l2r",
        "For blimp: how to score a sentence: word-l2r masks each token and those after it in the same word; "
        "token masks each token alone, as in many published results; left-to-right masks none, as in score.",
    )
    pairs: int | None = setting(
        None, "For blimp: number of pairs of each paradigm, the first ones; by default all.", minimum=1
    )
    exits: Literal["all"] | None = setting(
        None, "Compare exit rules and fixed depths: score, mean depth, FLOPs and time of each."
    )
    tolerance: float = setting(
        _TOLERANCE,
        "With --exits: points of the score that the recommended setting may lose.",
        minimum=0,
        maximum=100,
    )
    precision: PrecisionName = setting("auto", f"{_PRECISION_HELP}. For blimp, auto is fp32.")
    picture: Path | None = setting(None, "With --exits: new file for the curve, .svg.")

    def check(self) -> None:
        """Raise `SettingError` if settings contradict each other, or `exit` is not a rule."""
        super().check()
        for name in ("exit", "depth"):
            value = getattr(self, name)
            if self.exits is not None and value is not None:
                raise SettingError(
                    name, value, "must not be set with exits = all, which tries several", ("exits",)
                )
        if self.exits is not None and self.engine not in (None, "torch"):
            raise SettingError("engine", self.engine, "must be torch with exits = all", ("exits",))
        for name, default in (("picture", None), ("tolerance", _TOLERANCE)):
            value = getattr(self, name)
            if self.exits is None and value != default:
                raise SettingError(name, value, "needs exits = all", ("exits",))
        if self.picture is not None and self.picture.suffix.lower() != ".svg":
            raise SettingError("picture", self.picture, "must be a file that ends in .svg")


@dataclass(frozen=True)
class PredictSettings(DepthSettings):
    """Predictions for a file or a split."""

    split: Split | None = setting(
        None, "Split of the task's folder; by default test, or dev if there is no test split, as in SQuAD."
    )
    keep: str | None = setting(
        None,
        "Columns of the input that the output repeats before the prediction, as in date,text; all for every "
        "column.",
    )


@dataclass(frozen=True)
class EnsembleSettings(InferenceSettings):
    """An ensemble of fine-tuned models."""

    selection: Literal["greedy", "all"] = setting(
        "greedy", "Add models one by one while the metric on dev improves, or use all."
    )


@dataclass(frozen=True)
class ScoreSettings(Settings):
    """Pseudo-log-likelihoods of the texts of a file."""

    data: str | None = setting(
        None, "File of texts: .txt, one on each line, .csv, .tsv, .jsonl or .parquet; or hub:OWNER/NAME."
    )
    text: str = setting(
        "text", "Column of the text, or several to join, as in title,body; a .txt file has none."
    )
    id: str = setting("id", "Column of the id of a row; without such a column, rows are numbered from 0.")
    header: bool = setting(True, HEADER_HELP)
    method: Literal["word-l2r", "token", "left-to-right"] = setting(
        "word-l2r",
        "What to mask when a token is predicted: word-l2r, this token and those after it in the same word; "
        "token, this token alone, which overrates words of many tokens; left-to-right, nothing: the model "
        "reads the tokens before it, and must have learned that (objective.causal_fraction of pretrain).",
    )
    depth: int | None = setting(None, PRETRAINED_DEPTH_HELP, minimum=1, maximum=MAX_DEPTH)
    tokens: bool = setting(False, "Also write the log-probability of each token, as JSON lines.")
    on_error: Literal["stop", "skip"] = setting(
        "stop",
        "What to do with an invalid or too long text: stop, or skip it and report the number skipped.",
    )
    device: DeviceName = setting("auto", "Device; auto is a GPU if there is one.")
    precision: PrecisionName = setting(
        "fp32", "Precision of the matrix products; auto is bf16 where it is fast."
    )


@dataclass(frozen=True)
class EmbedSettings(Settings):
    """Vectors of the texts of a file."""

    data: str | None = setting(
        None, "File of texts: .txt, one on each line, .csv, .tsv, .jsonl or .parquet; or hub:OWNER/NAME."
    )
    text: str = setting(
        "text", "Column of the text, or several to join, as in title,body; a .txt file has none."
    )
    id: str = setting("id", "Column of the id of a row; without such a column, rows are numbered from 0.")
    header: bool = setting(True, HEADER_HELP)
    pooling: Literal["mean", "cls"] | None = setting(
        None,
        "Vector of a text: mean of the hidden states of its tokens, or the state of [CLS]; by default that "
        "of a folder of sentence-transformers, else the mean.",
    )
    normalize: bool | None = setting(
        None,
        "Divide each vector by its length; by default what a folder of sentence-transformers does, else yes.",
    )
    on_error: Literal["stop", "skip"] = setting(
        "stop", "What to do with an invalid row: stop, or skip it and report the number of skipped rows."
    )
    device: DeviceName = setting("auto", "Device; auto is a GPU if there is one.")
    precision: PrecisionName = setting(
        "auto", "Precision of the matrix products; auto is fp32, bf16 is faster on some machines."
    )
    engine: EngineName | None = setting(
        None,
        "Library that runs the model: for an export that of its format, which is the default, else torch.",
    )


@dataclass(frozen=True)
class FillMaskSettings(Settings):
    """Masks to fill, and how much to show."""

    corpus: Path | None = setting(None, "Corpus whose held-out samples are filled.")
    samples: int = setting(3, "Number of samples.", minimum=1, maximum=10_000)
    first: int = setting(0, "Number of the first sample.", minimum=0, maximum=1 << 53)
    top_k: int = setting(5, "Predictions to show for each mask.", minimum=1, maximum=1_000)
    max_length: int | None = setting(
        None,
        "Maximum tokens of a sample; if not set, 128 or the model's maximum if that is smaller.",
        minimum=8,
    )
    seed: int = setting(0, "Seed of the samples.", minimum=0)
    depth: int | None = setting(None, PRETRAINED_DEPTH_HELP, minimum=1, maximum=MAX_DEPTH)
    device: DeviceName = setting("auto", "Device; auto is a GPU if there is one.")
