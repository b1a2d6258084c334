"""What can be set of reading text and of training a vocabulary; apart, for the help page."""

import re
from dataclasses import dataclass
from typing import Literal

from albertine.settings import Settings, setting
from albertine.settings.schema import SettingError


@dataclass(frozen=True)
class ReadingSettings(Settings):
    """How text is read."""

    layout: Literal["auto", "prose", "lines"] = setting(
        "auto", "Of .txt: prose, or one sentence per line with blank lines between documents."
    )
    field: str = setting("text", "Of .jsonl, .parquet and data sets: which field holds the text.")
    language: str = setting("en", "Code of the language, as in en or de, whose rules tell sentences apart.")
    on_error: Literal["stop", "skip"] = setting(
        "stop", "Text that cannot be read: stop, or skip it, counted and listed."
    )

    def check(self) -> None:
        """Refuse a language that is no code."""
        if not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise SettingError("language", self.language, "must be a code of two or three letters, as in en")


MIN_VOCAB_SIZE = 16  # pieces of a vocabulary


@dataclass(frozen=True)
class TokenizerSettings(ReadingSettings):
    """How text is read, and what vocabulary comes of it."""

    vocab_size: int = setting(
        30_000, "Pieces in all, the five special ones among them.", minimum=MIN_VOCAB_SIZE, maximum=1_000_000
    )
    allow_smaller: bool = setting(False, "Take fewer pieces where there is too little text for so many.")
    cased: bool = setting(False, "Keep capitals.")
    keep_accents: bool = setting(False, "Keep accents.")
    character_coverage: float = setting(
        0.99995, "Share of all characters that get pieces.", minimum=0.5, maximum=1
    )
    max_text_mb: int = setting(
        256, "Megabytes of text to learn from, drawn at random where there is more.", minimum=1
    )
    seed: int = setting(0, "What the sample is drawn from.", minimum=0)
