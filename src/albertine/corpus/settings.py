"""What can be set of a corpus and of the samples drawn from it; apart, for the help page."""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import Settings, setting
from albertine.text.settings import ReadingSettings

LARGEST_EXACT_INTEGER = 1 << 53  # a whole number beyond is not exact everywhere


@dataclass(frozen=True)
class CorpusSettings(ReadingSettings):
    """How text is read, and what of it goes where."""

    held_out: float = setting(0.0, "Share of the documents to set aside as dev.", minimum=0, maximum=0.5)
    keep_duplicates: bool = setting(False, "Keep documents that are there already, letter by letter.")
    seed: int = setting(
        0, "What the documents set aside are drawn from.", minimum=0, maximum=LARGEST_EXACT_INTEGER
    )
    workers: int = setting(0, "Processes; 0 takes one for each core.", minimum=0, maximum=1024)


@dataclass(frozen=True)
class ObjectiveSettings(Settings):
    """What a sample asks of the network: how its pair is drawn, and how it is masked."""

    pair: Literal["sop", "nsp", "none"] = setting(
        "sop", "Second segment: the next one or both swapped (sop), another document's (nsp), none."
    )
    max_length: int = setting(
        512, "Longest sample, in pieces, special ones counted.", minimum=8, maximum=1_000_000
    )
    short_seq_prob: float = setting(
        0.1, "Share of pairs that are cut shorter at random.", minimum=0, maximum=1
    )
    mlm_probability: float = setting(
        0.15, "Share of a sample's pieces to predict.", minimum=0.01, maximum=0.9
    )
    max_predictions: int = setting(77, "Most pieces to predict in one sample.", minimum=1)
    max_ngram: int = setting(
        3, "Longest run of words that is masked as one; n of them with chance 1/n.", minimum=1, maximum=16
    )
    seed: int = setting(0, "What all samples are drawn from.", minimum=0, maximum=LARGEST_EXACT_INTEGER)


@dataclass(frozen=True)
class CorpusShowSettings(Settings):
    """Which samples to show."""

    samples: int = setting(3, "How many samples.", minimum=1, maximum=10_000)
    first: int = setting(
        0, "The first of them, in the order of training.", minimum=0, maximum=LARGEST_EXACT_INTEGER
    )
    split: Literal["train", "dev"] = setting("train", "Of which part of the corpus.")
    objective: ObjectiveSettings = setting(ObjectiveSettings(), "What is asked of the network.")
