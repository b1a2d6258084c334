"""What can be set of each benchmark; apart from the benchmarks, since the help page needs it at once."""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import MODELS, ModelSettings, Settings, setting


@dataclass(frozen=True)
class StartupBench(Settings):
    """What to measure."""

    runs: int = setting(7, "Measured runs of each side; the median counts.", least=1, most=1000)


@dataclass(frozen=True)
class ModelBench(Settings):
    """What to measure."""

    runs: int = setting(5, "Measured turns of each side; the median counts.", least=1, most=1000)
    batch: Literal["all", "8 x 128", "8 x 512", "sentences"] = setting("all", "Which batch.")
    precision: Literal["both", "fp32", "bf16"] = setting("both", "Which precision of the computation.")
    work: Literal["both", "training", "forward"] = setting("both", "Which work.")
    device: Literal["cpu", "cuda"] = setting("cpu", "Where.")
    compile: bool = setting(False, "Compile both sides.")
    model: ModelSettings = setting(MODELS["albert-base"], "The network.")
