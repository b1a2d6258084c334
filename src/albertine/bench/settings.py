"""What can be set of each benchmark; apart from the benchmarks, since the help page needs it at once."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from albertine.settings import MODEL_PRESETS, ModelSettings, Settings, setting
from albertine.tasks.settings import FinetuneSettings
from albertine.text.settings import ReadingSettings


@dataclass(frozen=True)
class StartupBenchSettings(Settings):
    """What to measure."""

    runs: int = setting(7, "Measured runs of each side; the median counts.", minimum=1, maximum=1000)


@dataclass(frozen=True)
class ModelBenchSettings(Settings):
    """What to measure."""

    runs: int = setting(5, "Measured turns of each side; the median counts.", minimum=1, maximum=1000)
    batch: Literal["all", "8 x 128", "8 x 512", "sentences"] = setting("all", "Which batch.")
    precision: Literal["both", "fp32", "bf16"] = setting("both", "Which precision of the computation.")
    workload: Literal["both", "training", "forward"] = setting("both", "Which work.")
    device: Literal["cpu", "cuda"] = setting("cpu", "Where.")
    compile: bool = setting(False, "Compile both sides.")
    model: ModelSettings = setting(MODEL_PRESETS["albert-base"], "The network.")


@dataclass(frozen=True)
class RaceSettings(Settings):
    """What to race over."""

    corpus: Path | None = setting(None, "A corpus with held-out documents.")
    minutes: float = setting(10.0, "Minutes of training for each side.", minimum=0.05, maximum=100_000)
    sweep_fraction: float = setting(
        1.0,
        "Length of each run of the sweeps of rates, as a share of those minutes.",
        minimum=0.01,
        maximum=1,
    )
    batch_tokens: int = setting(8192, "Tokens of one step.", minimum=64)
    max_length: int = setting(128, "Longest sample, in pieces.", minimum=16, maximum=100_000)
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "Where.")
    precision: Literal["auto", "fp32", "bf16"] = setting("auto", "Of the matrix products, on both sides.")
    model: ModelSettings = setting(MODEL_PRESETS["albert-tiny"], "The network.")


@dataclass(frozen=True)
class FinetuneBenchSettings(FinetuneSettings):
    """What to tune, on both sides."""

    seeds: int = setting(
        3, "Runs of each side, with different seeds; the median counts.", minimum=1, maximum=1000
    )


@dataclass(frozen=True)
class GradientBenchSettings(Settings):
    """What to measure."""

    processes: int = setting(2, "How many processes, on this machine.", minimum=2, maximum=1024)
    runs: int = setting(7, "Measured turns; the median counts.", minimum=1, maximum=1000)
    device: Literal["cpu", "cuda"] = setting("cpu", "Where; a GPU for each process.")
    model: ModelSettings = setting(MODEL_PRESETS["albert-base"], "The network.")


@dataclass(frozen=True)
class CorpusBenchSettings(ReadingSettings):
    """What to measure, and how the text is read."""

    runs: int = setting(3, "Measured turns of each side; the median counts.", minimum=1, maximum=1000)
    max_length: int = setting(512, "Longest sample, in pieces.", minimum=16, maximum=100_000)

    def reading_settings(self) -> ReadingSettings:
        """Return what is about reading alone."""
        return ReadingSettings(**{field.name: getattr(self, field.name) for field in fields(ReadingSettings)})
