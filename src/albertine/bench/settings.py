"""Settings of the benchmarks; in a module of their own, because the help page must import fast."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.settings import (
    MODEL_PRESETS,
    DeviceName,
    ModelSettings,
    PrecisionName,
    SettingError,
    Settings,
    setting,
)
from albertine.settings.engine import ENGINE_HELP, EngineName
from albertine.text.settings import ReadingSettings

# Those of models that transformers lacks.
_OWN_SETTINGS = (
    "depth_rule",
    "step_signal",
    "norm_first",
    "rotary",
    "mark_matches",
    "step_rank",
    "step_vectors",
)
# Tokens of the longest rows that are measured.
EXPORT_ROW_TOKENS, GPU_ROW_TOKENS = 128, 512


def _check_max_length(model: ModelSettings, row_tokens: int) -> None:
    """Raise `SettingError` if a model cannot take rows of some tokens."""
    if model.max_length < row_tokens:
        raise SettingError(
            "model.max_length", model.max_length, f"is less than the {row_tokens} tokens of a row"
        )


@dataclass(frozen=True)
class StartupBenchSettings(Settings):
    """Settings of `albertine bench startup`."""

    runs: int = setting(7, "Runs of each side; the result is the median.", minimum=1, maximum=1000)


@dataclass(frozen=True)
class ModelBenchSettings(Settings):
    """Settings of `albertine bench model`."""

    runs: int = setting(5, "Measurements of each side; the result is the median.", minimum=1, maximum=1000)
    batch: Literal["all", "8 x 128", "8 x 512", "sentences"] = setting("all", "Batches to measure.")
    precision: Literal["both", "fp32", "bf16"] = setting("both", "Precisions to measure.")
    workload: Literal["both", "training", "forward"] = setting("both", "Workloads to measure.")
    device: Literal["cpu", "cuda"] = setting("cpu", "Device of both sides.")
    compile: bool = setting(False, "Compile both sides with torch.compile.")
    model: ModelSettings = setting(MODEL_PRESETS["albert-base"], "The model.")


@dataclass(frozen=True)
class PretrainBenchSettings(Settings):
    """Settings of `albertine bench pretrain`."""

    corpus: Path | None = setting(None, "Folder of a corpus with held-out documents.")
    minutes: float = setting(10.0, "Minutes of training for each side.", minimum=0.05, maximum=100_000)
    sweep_fraction: float = setting(
        1.0,
        "Length of each run of the learning-rate sweep, as a fraction of the minutes.",
        minimum=0.01,
        maximum=1,
    )
    batch_tokens: int = setting(8192, "Tokens per step.", minimum=64)
    max_length: int = setting(128, "Maximum tokens per sample.", minimum=16, maximum=100_000)
    device: DeviceName = setting("auto", "Device of both sides.")
    precision: PrecisionName = setting("auto", "Precision of both sides.")
    model: ModelSettings = setting(MODEL_PRESETS["albert-tiny"], "The model.")

    def check(self) -> None:
        """Raise `SettingError` for a model that transformers does not have."""
        super().check()
        if not self.model.is_published_architecture:
            default = ModelSettings()
            name = next(name for name in _OWN_SETTINGS if getattr(self.model, name) != getattr(default, name))
            problem = "transformers has no such network; choose one it has, such as albert-tiny or bert-base"
            raise SettingError(f"model.{name}", getattr(self.model, name), problem)
        if self.model.share not in ("all", "none"):
            raise SettingError(
                "model.share", self.model.share, "transformers shares all of a layer or nothing"
            )
        if self.max_length > self.model.max_length:
            problem = f"the model takes at most {self.model.max_length:,} tokens"
            raise SettingError("max_length", self.max_length, problem, ("model.max_length",))


@dataclass(frozen=True)
class FinetuneBenchSettings(FinetuneSettings):
    """Settings of `albertine bench finetune`, for both sides."""

    seeds: int = setting(
        3, "Runs of each side with different seeds; the result is the median.", minimum=1, maximum=1000
    )
    train: FinetuneTrainSettings = setting(
        FinetuneTrainSettings(optimizer="adamw", schedule="linear"), "Training, with the AdamW of torch."
    )

    def check(self) -> None:
        """Raise `SettingError` for what the side of transformers lacks."""
        super().check()
        train = self.train
        for name, is_refused in (
            ("layer_decay", train.layer_decay != 1),
            ("freeze_embeddings", train.freeze_embeddings),
            ("class_weights", train.class_weights != "none"),
        ):
            if is_refused:
                problem = "transformers is trained with one learning rate, and without class weights"
                raise SettingError(f"train.{name}", getattr(train, name), problem)
        if self.random_weights:
            raise SettingError("random_weights", True, "both sides start from the checkpoint; leave it out")
        if self.metric is not None:
            raise SettingError("metric", self.metric, "both sides are compared by the task's; leave it out")
        if train.exits:
            raise SettingError("train.exits", True, "transformers has no exits to compare with")
        for name in ("co_matching", "matching"):
            if getattr(self, name):
                raise SettingError(name, True, "transformers has no such head to compare with")


@dataclass(frozen=True)
class ExitBenchSettings(FinetuneSettings):
    """Settings of `albertine bench exits`: those of all its fine-tuning runs, and of the measurements."""

    seeds: int = setting(5, "Runs of each kind with different seeds.", minimum=1, maximum=1000)
    examples_at_a_time: int = setting(
        32, "Examples of dev that are scored at a time, in their order.", minimum=1, maximum=100_000
    )
    tolerance: float = setting(
        0.5, "Points of the score that the recommended setting may lose.", minimum=0, maximum=100
    )


@dataclass(frozen=True)
class GradientBenchSettings(Settings):
    """Settings of `albertine bench gradients`."""

    processes: int = setting(2, "Number of processes on this machine.", minimum=2, maximum=1024)
    runs: int = setting(7, "Measurements; the result is the median.", minimum=1, maximum=1000)
    device: Literal["cpu", "cuda"] = setting("cpu", "Device; cuda needs one GPU per process.")
    model: ModelSettings = setting(MODEL_PRESETS["albert-base"], "The model.")


@dataclass(frozen=True)
class GpuBenchSettings(Settings):
    """Settings of `albertine bench gpu`."""

    minutes: float = setting(
        10.0, "Minutes of the measurements of all paths; checks take some more.", minimum=0.01, maximum=10_000
    )
    only: str | None = setting(None, "Only paths whose name contains this text; by default all.")
    dry: bool = setting(False, "Run the same code on the CPU, with a small model and few tokens.")
    model: ModelSettings = setting(
        MODEL_PRESETS["albert-base"], "The model, with random weights; demo in the dry form."
    )

    def check(self) -> None:
        """Raise `SettingError` if the model is too short for the measured rows."""
        if not self.dry:
            _check_max_length(self.model, GPU_ROW_TOKENS)


@dataclass(frozen=True)
class PlanBenchSettings(Settings):
    """Settings of `albertine bench plan`."""

    seconds: float = setting(
        60.0, "Approximate seconds of each training run.", minimum=1.0, maximum=100_000.0
    )
    run: Literal["all", "1", "2", "3", "4", "5"] = setting("all", "Which of the five runs to measure.")


@dataclass(frozen=True)
class ScoreBenchSettings(Settings):
    """Settings of `albertine bench score`."""

    pairs: int = setting(10, "Pairs of each paradigm.", minimum=1)
    runs: int = setting(3, "Measurements of each side; the result is the median.", minimum=1, maximum=1000)
    device: Literal["cpu", "cuda"] = setting("cpu", "Device of both sides.")
    model: ModelSettings = setting(MODEL_PRESETS["albert-tiny"], "The model, with random weights.")


@dataclass(frozen=True)
class ServeBenchSettings(Settings):
    """Settings of `albertine bench serve`."""

    seconds: float = setting(
        3.0, "Seconds of each measurement, after half a second of warm-up.", minimum=0.1, maximum=3600
    )
    workers: int = setting(1, "Worker processes of Albertine's server.", minimum=1, maximum=256)
    device: DeviceName = setting("cpu", "Device; the peer computes on the CPU.")
    precision: PrecisionName = setting("fp32", "Precision of Albertine's server; the peer computes in fp32.")
    engine: EngineName | None = setting(None, ENGINE_HELP)
    peer: str | None = setting(
        None, "For an exported model: the checkpoint that it was made from, which the peer serves."
    )


@dataclass(frozen=True)
class PipelineBenchSettings(Settings):
    """Settings of `albertine bench pipeline`."""

    runs: int = setting(
        9, "Measurements of each workload; of a single text, ten times as many.", minimum=1, maximum=1000
    )
    device: DeviceName = setting("cpu", "Device.")
    precision: PrecisionName = setting("auto", "Precision of the matrix products; auto as in predict.")
    engine: EngineName | None = setting(None, ENGINE_HELP)


@dataclass(frozen=True)
class ExportBenchSettings(Settings):
    """Settings of `albertine bench export`."""

    runs: int = setting(5, "Measurements of each engine; the result is the median.", minimum=1, maximum=1000)
    model: ModelSettings = setting(MODEL_PRESETS["albert-base"], "The model, with random weights.")

    def check(self) -> None:
        """Raise `SettingError` if the model is too short for the measured rows."""
        _check_max_length(self.model, EXPORT_ROW_TOKENS)


@dataclass(frozen=True)
class CorpusBenchSettings(ReadingSettings):
    """Settings of `albertine bench corpus`, and of reading its text."""

    runs: int = setting(3, "Measurements of each side; the result is the median.", minimum=1, maximum=1000)
    max_length: int = setting(512, "Maximum tokens per sample.", minimum=16, maximum=100_000)

    def reading_settings(self) -> ReadingSettings:
        """Return the settings of reading alone."""
        return ReadingSettings(**{field.name: getattr(self, field.name) for field in fields(ReadingSettings)})
