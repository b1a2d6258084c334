"""Settings of text reading and tokenizer training; without heavy imports, so that --help is fast."""

from dataclasses import dataclass
from typing import Literal

from albertine.errors import did_you_mean
from albertine.settings import Settings, setting
from albertine.settings.schema import SettingError
from albertine.text.languages import AUTO, LANGUAGES, SPLITTER_LANGUAGES


@dataclass(frozen=True)
class ReadingSettings(Settings):
    """Settings of reading text."""

    layout: Literal["auto", "prose", "lines"] = setting(
        "auto", "Layout of .txt files: prose, or one sentence per line and blank lines between documents."
    )
    field: str = setting("text", "Field with the text, in .jsonl, .parquet and hub datasets.")
    language: str = setting(AUTO, "Language code of the text, such as en or de; auto: detect it.")
    on_error: Literal["stop", "skip"] = setting("stop", "On unreadable text: stop, or skip and list it.")

    def check(self) -> None:
        """Raise an error for a language that is not known."""
        if self.language not in LANGUAGES | {AUTO}:
            # Among the codes of three letters, some rare one is close to any other code.
            two_letter_codes = [code for code in LANGUAGES if len(code) == 2]
            similar = did_you_mean(self.language.lower(), two_letter_codes)
            raise SettingError(
                "language",
                self.language,
                f"not a known language{similar}; docs/corpus.md lists the languages; for others, use en",
            )

    @property
    def splitter_language(self) -> str:
        """The language whose rules split the text into sentences; English if it has none of its own."""
        return self.language if self.language in SPLITTER_LANGUAGES else "en"


MIN_VOCAB_SIZE = 110  # special tokens, "▁" and the characters of `required_characters`


@dataclass(frozen=True)
class TokenizerSettings(ReadingSettings):
    """Settings of tokenizer training."""

    vocab_size: int = setting(
        30_000,
        "Number of tokens, including the five special ones.",
        minimum=MIN_VOCAB_SIZE,
        maximum=1_000_000,
    )
    allow_smaller: bool = setting(False, "Use a smaller vocabulary if the text is too short.")
    cased: bool | None = setting(
        None, "Keep capitals; by default in languages that need them, such as German and Turkish."
    )
    keep_accents: bool | None = setting(None, "Keep accents; by default in all languages except English.")
    character_coverage: float = setting(
        0.99995,
        "Fraction of all characters covered by the vocabulary, which always has digits, ASCII and "
        "common punctuation.",
        minimum=0.98,  # SentencePiece's trainer accepts no less
        maximum=1,
    )
    byte_fallback: bool = setting(
        False, "Write characters without a token as UTF-8 bytes; 256 tokens are bytes then."
    )
    max_text_mb: int = setting(
        256, "Maximum megabytes of text to train on; more text is sampled at random.", minimum=1
    )
    seed: int = setting(0, "Random seed of the text sample.", minimum=0)
