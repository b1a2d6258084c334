"""What can be set of a corpus and of the samples drawn from it; apart, for the help page."""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import Settings, setting
from albertine.text.settings import ReadingSettings

LARGEST = 1 << 53  # a whole number beyond is not exact everywhere


@dataclass(frozen=True)
class CorpusSettings(ReadingSettings):
    """How text is read, and what of it goes where."""

    held_out: float = setting(0.0, "Share of the documents to set aside as dev.", least=0, most=0.5)
    keep_duplicates: bool = setting(False, "Keep documents that are there already, letter by letter.")
    seed: int = setting(0, "What the documents set aside are drawn from.", least=0, most=LARGEST)
    workers: int = setting(0, "Processes; 0 takes one for each core.", least=0, most=1024)


@dataclass(frozen=True)
class Objective(Settings):
    """What a sample asks of the network: how its pair is drawn, and how it is masked."""

    pair: Literal["sop", "nsp", "none"] = setting(
        "sop", "Second segment: the next one or both swapped (sop), another document's (nsp), none."
    )
    max_length: int = setting(
        512, "Longest sample, in pieces, special ones counted.", least=8, most=1_000_000
    )
    short: float = setting(0.1, "Share of pairs that are cut shorter at random.", least=0, most=1)
    masked: float = setting(0.15, "Share of a sample's pieces to predict.", least=0.01, most=0.9)
    most_masked: int = setting(77, "Most pieces to predict in one sample.", least=1)
    ngram: int = setting(
        3, "Longest run of words that is masked as one; n of them with chance 1/n.", least=1, most=16
    )
    seed: int = setting(0, "What all samples are drawn from.", least=0, most=LARGEST)


@dataclass(frozen=True)
class ShowSettings(Settings):
    """Which samples to show."""

    samples: int = setting(3, "How many samples.", least=1, most=10_000)
    first: int = setting(0, "The first of them, in the order of training.", least=0, most=LARGEST)
    split: Literal["train", "dev"] = setting("train", "Of which part of the corpus.")
    objective: Objective = setting(Objective(), "What is asked of the network.")
