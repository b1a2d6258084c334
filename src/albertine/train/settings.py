"""What can be set of training: of any, and of pre-training; apart, for the help page.

What is not set follows from the rest: the rate and the warm-up from the optimizer and
the batch (`schedule`), precision and micro-batch from the machine (`machine`).
"""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import SettingError, Settings, setting

LARGEST_EXACT_INTEGER = 1 << 53  # a whole number beyond is not exact everywhere

OptimizerName = Literal["muon", "adamw", "lamb"]
TrackerName = Literal["none", "tensorboard", "wandb"]
ScheduleName = Literal["linear", "cosine", "constant"]


@dataclass(frozen=True)
class TrainerSettings(Settings):
    """One training run, of whatever kind."""

    steps: int = setting(20_000, "Steps of the optimizer.", minimum=1, maximum=LARGEST_EXACT_INTEGER)
    micro_batch_tokens: int | None = setting(
        None,
        "Most tokens that one device computes at a time; the rest of its share is accumulated. "
        "If not set, 4,096 on a CPU and 32,768 on a GPU.",
        minimum=8,
        maximum=1_000_000_000,
    )
    optimizer: OptimizerName = setting(
        "muon", "Muon for the matrices and AdamW for the rest, AdamW, or LAMB as in the paper."
    )
    lr: float | None = setting(
        None, "Highest learning rate; if not set, it follows from the batch.", minimum=0.0, maximum=10.0
    )
    warmup: int | None = setting(
        None, "Steps in which the rate rises; if not set, they follow from the batch.", minimum=0
    )
    schedule: ScheduleName = setting("linear", "How the rate falls after the warm-up, to 0 if it does.")
    weight_decay: float = setting(
        0.01, "Decay of the matrices; norms and biases have none.", minimum=0, maximum=1
    )
    max_gradient_norm: float = setting(1.0, "Largest norm of the whole gradient; 0 does not clip.", minimum=0)
    precision: Literal["auto", "fp32", "bf16"] = setting(
        "auto", "Of the matrix products; auto takes bf16 where the machine is fast at it."
    )
    recompute: bool = setting(False, "Keep less for the backward pass, and compute it again there.")
    compile: bool = setting(False, "Compile the network; it takes a while at the start.")
    shard: bool = setting(
        False, "Spread weights and optimizer over the processes (FSDP2): for what one cannot hold."
    )
    seed: int = setting(
        0, "What weights and dropout are drawn from.", minimum=0, maximum=LARGEST_EXACT_INTEGER
    )
    save_every: int | None = setting(
        None, "Steps between checkpoints, if not minutes alone decide.", minimum=1
    )
    save_minutes: float = setting(15.0, "Minutes between checkpoints at most.", minimum=0.01, maximum=1e6)
    keep_checkpoints: int = setting(
        2, "How many of the last checkpoints stay, beside the best.", minimum=1, maximum=10_000
    )
    evaluate_every: int | None = setting(
        None, "Steps between evaluations; if not set, a fortieth of the run.", minimum=1
    )
    patience: int | None = setting(
        None, "Evaluations in a row without a better one after which the run ends early.", minimum=1
    )
    tracker: TrackerName = setting("none", "Where else the numbers go.")

    def check(self) -> None:
        """Refuse a warm-up longer than the run, where its length is known."""
        if self.warmup is not None and 0 < self.steps < self.warmup:
            raise SettingError("warmup", self.warmup, f"must be at most steps = {self.steps}", ("steps",))


@dataclass(frozen=True)
class PretrainTrainSettings(TrainerSettings):
    """One run of pre-training."""

    batch_tokens: int = setting(
        32_768, "Tokens of one step, over all processes and micro-batches.", minimum=8, maximum=1_000_000_000
    )
    evaluate_tokens: int | None = setting(
        None, "Held-out tokens of an evaluation; if not set, so many that they take little time.", minimum=8
    )
