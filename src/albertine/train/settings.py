"""The settings of training: common ones, and those of pre-training.

The optimizer and the batch size determine the default learning rate and warm-up
(`schedule`); the device determines the default precision and micro-batch (`device`).
"""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import PrecisionName, SettingError, Settings, setting

# Of a pre-training run for which the user sets no length.
DEFAULT_EPOCHS = 40  # as often as BERT's pre-training read its text
DEFAULT_MAX_STEPS, DEFAULT_MAX_BATCH_TOKENS = 20_000, 32_768
_MIN_BATCH_TOKENS = 8
_MIN_EVALUATION_TOKENS = 8_192
# On a CPU, evaluating a token took up to 0.6 of the time of training on one.
_MIN_TRAINED_PER_EVALUATED = 8

LARGEST_EXACT_INTEGER = 1 << 53  # larger integers are not exact in fp64, nor in all readers of JSON

OptimizerName = Literal["muon", "adamw", "bert-adam", "lamb"]
TrackerName = Literal["none", "tensorboard", "wandb"]
ScheduleName = Literal["linear", "linear-from-start", "cosine", "constant"]


@dataclass(frozen=True)
class TrainerSettings(Settings):
    """Settings of a training run; the kind of run determines the values that are not set."""

    steps: int = setting(20_000, "Number of optimizer steps.", minimum=1, maximum=LARGEST_EXACT_INTEGER)
    minutes: float | None = setting(
        None,
        "Length of the run in minutes, in place of steps: the first seconds measure how many steps fit.",
        minimum=0.01,
        maximum=1e6,
    )
    micro_batch_tokens: int | None = setting(
        None,
        "Maximum tokens per micro-batch; gradients are accumulated over micro-batches. "
        "By default 4,096 on a CPU, and on a GPU the largest power of two, up to 131,072, whose "
        "activations take at most 40% of the memory.",
        minimum=8,
        maximum=1_000_000_000,
    )
    optimizer: OptimizerName | None = setting(None, "Optimizer.")
    lr: float | None = setting(
        None, "Peak learning rate; by default it follows from the batch.", minimum=0.0, maximum=10.0
    )
    warmup: int | None = setting(
        None, "Number of warm-up steps; by default it follows from the batch.", minimum=0
    )
    schedule: ScheduleName | None = setting(None, "Learning rate after the warm-up.")
    weight_decay: float = setting(
        0.01, "Weight decay of matrices; norms and biases have none.", minimum=0, maximum=1
    )
    max_gradient_norm: float = setting(1.0, "Clip the gradient to this norm; 0 does not clip.", minimum=0)
    precision: PrecisionName = setting(
        "auto", "Precision of matrix products; auto is bf16 where the device computes it fast."
    )
    recompute: bool = setting(False, "Recompute activations in the backward pass, which saves memory.")
    compile: bool = setting(False, "Compile the model with torch.compile, which makes the start slower.")
    kernels: bool = setting(True, "Use machine-specific kernels; switch off to debug with plain PyTorch.")
    shard: bool = setting(
        False, "Shard weights and optimizer state over the processes (FSDP2), which saves memory."
    )
    timeout_minutes: float = setting(
        10.0,
        "Minutes after which a run of several processes fails because one does not respond.",
        minimum=0.01,
        maximum=1e6,
    )
    seed: int = setting(0, "Random seed of weights and dropout.", minimum=0, maximum=LARGEST_EXACT_INTEGER)
    save_every: int | None = setting(
        None, "Steps between checkpoints, in addition to --train.save-minutes.", minimum=1
    )
    save_minutes: float = setting(15.0, "Maximum minutes between checkpoints.", minimum=0.01, maximum=1e6)
    keep_checkpoints: int = setting(
        2, "Number of newest checkpoints to keep, besides the best.", minimum=1, maximum=10_000
    )
    evaluate_every: int | None = setting(
        None, "Steps between evaluations; by default 1/40 of the run.", minimum=1
    )
    patience: int | None = setting(None, "Stop after this many evaluations without improvement.", minimum=1)
    tracker: TrackerName = setting("none", "Experiment tracker that also gets the metrics.")

    @property
    def evaluation_interval(self) -> int:
        """Number of steps between evaluations."""
        return self.evaluate_every or max(1, self.steps // 40)

    def check(self) -> None:
        """Raise `SettingError` if the warm-up is longer than the run."""
        if self.warmup is not None and 0 < self.steps < self.warmup:
            raise SettingError("warmup", self.warmup, f"must be at most steps = {self.steps}", ("steps",))


@dataclass(frozen=True)
class PretrainTrainSettings(TrainerSettings):
    """Training settings of a pre-training run."""

    steps: int = setting(
        0,
        f"Number of optimizer steps; 0 reads the corpus {DEFAULT_EPOCHS} times, in at most "
        f"{DEFAULT_MAX_STEPS:,} steps.",
        minimum=0,
        maximum=LARGEST_EXACT_INTEGER,
    )
    batch_tokens: int = setting(
        0,
        "Number of tokens per step, over all micro-batches and processes; 0 takes "
        f"{DEFAULT_MAX_BATCH_TOKENS:,}, or in a short run without --train.steps fewer (4,096 or more).",
        minimum=0,
        maximum=1_000_000_000,
    )
    lr: float | None = setting(
        None,
        "Peak learning rate; by default it grows with the square root of the batch: for Muon 0.006 with "
        "8,192 tokens per step, and at most 0.01.",
        minimum=0.0,
        maximum=10.0,
    )
    warmup: int | None = setting(
        None,
        "Number of warm-up steps; by default a tenth of the run, but not more than 500, except with batches "
        "of millions of tokens.",
        minimum=0,
    )
    evaluate_tokens: int | None = setting(
        None,
        "Held-out tokens per evaluation; by default about 5% of the tokens trained on in between.",
        minimum=8,
    )
    evaluate_every: int | None = setting(
        None,
        "Steps between evaluations; by default 1/40 of the run, and more in a short run, so that evaluations "
        "take less than about a tenth of its time.",
        minimum=1,
    )
    optimizer: OptimizerName = setting(
        "muon",
        "Muon (matrices; AdamW for the rest), AdamW, AdamW without bias correction as in Google's code "
        "(bert-adam), or LAMB as in the paper.",
    )
    schedule: ScheduleName = setting(
        "linear",
        "Learning rate after the warm-up: linear or cosine decay to 0, constant, or as in Google's code: "
        "linear decay counted from the first step of the run (linear-from-start).",
    )
    exits: bool = setting(
        False,
        "Train the head after several steps of depth, at most 6, so that fine-tuned models can leave early; "
        "the loss of a step has a weight proportional to its depth.",
    )

    def check(self) -> None:
        """Raise `SettingError` if a batch is too small for any sample."""
        super().check()
        if 0 < self.batch_tokens < _MIN_BATCH_TOKENS:
            raise SettingError(
                "batch_tokens",
                self.batch_tokens,
                f"must be at least {_MIN_BATCH_TOKENS}, or 0 for the default",
            )

    @property
    def evaluation_interval(self) -> int:
        """Number of steps between evaluations."""
        tokens_between = _MIN_TRAINED_PER_EVALUATED * (self.evaluate_tokens or _MIN_EVALUATION_TOKENS)
        shortest = min(self.steps, -(-tokens_between // max(1, self.batch_tokens)))
        return self.evaluate_every or max(1, self.steps // 40, shortest)

    @property
    def evaluation_tokens(self) -> int:
        """Number of tokens per evaluation; by default 1/20 of the tokens trained on in between."""
        tokens_between = self.evaluation_interval * self.batch_tokens
        return self.evaluate_tokens or min(262_144, max(_MIN_EVALUATION_TOKENS, tokens_between // 20))
