"""Settings of a corpus and of the samples drawn from it; without heavy imports, so that --help is fast."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from albertine.settings import Settings, setting
from albertine.settings.schema import SettingError
from albertine.text.settings import ReadingSettings

LARGEST_EXACT_INTEGER = 1 << 53  # larger integers are not exact as a JSON number (float64)


# Fraction of the tokens of a causal sample to predict. The loss over the vocabulary takes as long as a layer,
# and other epochs predict other tokens; see docs/records/ideas/causal-steps.md.
CAUSAL_TARGET_FRACTION = 0.5
_MAX_DENOMINATOR = 1_000_000  # of a fraction of causal samples

PairTask: TypeAlias = Literal["sop", "nsp", "none"]


@dataclass(frozen=True)
class CorpusSettings(ReadingSettings):
    """Settings of a corpus build."""

    held_out: float = setting(
        0.0,
        "Fraction to hold out as split dev: whole documents, or passages if documents are few and long.",
        minimum=0,
        maximum=0.5,
    )
    keep_duplicates: bool = setting(False, "Keep exact duplicates of documents.")
    seed: int = setting(
        0, "Random seed for the choice of held-out text.", minimum=0, maximum=LARGEST_EXACT_INTEGER
    )
    workers: int = setting(0, "Number of processes; 0: one per core.", minimum=0, maximum=1024)

    def check(self) -> None:
        """Raise `SettingError` if there is a seed and no choice for it."""
        super().check()
        if self.seed and not self.held_out:
            raise SettingError("seed", self.seed, "chooses the held-out text; needs held_out", ("held_out",))


@dataclass(frozen=True)
class ObjectiveSettings(Settings):
    """Settings of the pre-training objective: segment pairs, lengths and masking."""

    pair: PairTask = setting(
        "sop", "Pair objective: sentence order (sop), next sentence (nsp), or one segment (none)."
    )
    max_length: int = setting(
        512, "Maximum tokens per sample, including special tokens.", minimum=8, maximum=1_000_000
    )
    short_seq_prob: float = setting(
        0.1,
        "Probability that a sample of two segments gets a random length below the maximum.",
        minimum=0,
        maximum=1,
    )
    mlm_probability: float = setting(
        0.15, "Fraction of a sample's tokens to predict.", minimum=0.01, maximum=0.9
    )
    max_predictions: int | None = setting(
        None,
        "Maximum tokens to predict per sample; by default as many as --objective.mlm-probability gives.",
        minimum=1,
    )
    max_ngram: int = setting(
        3,
        "Maximum words per masked n-gram; n words have probability proportional to 1/n.",
        minimum=1,
        maximum=16,
    )
    causal_fraction: float = setting(
        0.0,
        "Fraction of the samples that have no masks: tokens are predicted from those before them.",
        minimum=0,
        maximum=0.9,
    )
    text_fraction: float = setting(
        1.0,
        "Fraction of the documents to train on, to see whether more text would help.",
        minimum=1e-6,
        maximum=1,
    )
    distinct_epochs: int | None = setting(
        None,
        "Epochs after which samples repeat, masks included; by default every epoch has new ones.",
        minimum=1,
    )
    seed: int = setting(0, "Random seed of the samples.", minimum=0, maximum=LARGEST_EXACT_INTEGER)

    @property
    def exact_causal_fraction(self) -> Fraction:
        """The fraction that `causal_fraction` stands for: 4/5 for 0.8, which is not exact as a float."""
        return Fraction(self.causal_fraction).limit_denominator(_MAX_DENOMINATOR)

    @property
    def predicted_fraction(self) -> float:
        """Mean fraction of the tokens to predict."""
        causal = self.causal_fraction
        return (1 - causal) * self.mlm_probability + causal * CAUSAL_TARGET_FRACTION

    @property
    def evaluation_passes(self) -> int:
        """Number of passes over the held-out samples: with masks, and as causal samples."""
        return 2 if self.causal_fraction else 1

    @property
    def micro_batch_fraction(self) -> float:
        """Fraction of the tokens to predict for which a micro-batch on a GPU must have memory.

        Masked samples count as 15%, also with 30%: that was measured to fit.
        """
        return CAUSAL_TARGET_FRACTION if self.causal_fraction else 0.15

    def check(self) -> None:
        """Raise SettingError if segments would come from documents that are left out."""
        if self.pair == "nsp" and self.text_fraction < 1:
            problem = (
                "with objective.pair = nsp, second segments would come from the documents that are left out"
            )
            raise SettingError("text_fraction", self.text_fraction, f"{problem}; use sop or none", ("pair",))


@dataclass(frozen=True)
class CorpusShowSettings(Settings):
    """Settings of `albertine corpus show`."""

    samples: int = setting(3, "Number of samples.", minimum=1, maximum=10_000)
    first: int = setting(
        0, "Index of the first sample, in training order.", minimum=0, maximum=LARGEST_EXACT_INTEGER
    )
    split: Literal["train", "dev"] = setting("train", "Split of the corpus.")
    objective: ObjectiveSettings = setting(ObjectiveSettings(), "Pre-training objective.")

    def check(self) -> None:
        """Raise `SettingError` for a fraction of the held-out text, of which samples always use all."""
        fraction = self.objective.text_fraction
        if self.split == "dev" and fraction < 1:
            raise SettingError(
                "objective.text_fraction", fraction, "is for split = train; leave it out", ("split",)
            )
