"""Detects the language of text sources, and chooses the settings that keep its distinctions.

The language decides how text is split into sentences, and by default whether a vocabulary keeps accents and
capitals. An option that was given always wins. English text has ALBERT's defaults. See
docs/decisions/language-detection.md.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from albertine import progress
from albertine.display import counted
from albertine.text.language_samples import sample_passages
from albertine.text.languages import (
    AUTO,
    SPLITTER_LANGUAGES,
    UNKNOWN,
    keeps_accents,
    keeps_capitals,
    language_name,
)
from albertine.text.settings import ReadingSettings, TokenizerSettings
from albertine.text.sources import Source

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

R = TypeVar("R", bound=ReadingSettings)

_MIN_CONFIDENCE = 0.8  # of a passage; made-up words reach 0.7, an English sentence of 30 letters 0.96
_MIN_LETTERS = 10  # in a passage
_MIN_SHARE = 0.2  # of the passages, for a language of a mixed text to count
_MOST = 0.5  # of the passages; with less, rare languages are mentioned


@dataclass(frozen=True)
class DetectedLanguage:
    """The languages of a sample of passages.

    Attributes:
        shares: fraction of the passages in each language, largest first; `UNKNOWN` stands for passages
            without a probable language.
        passages: number of passages.
    """

    shares: dict[str, float]
    passages: int

    @property
    def code(self) -> str:
        """Code of the most frequent language; `UNKNOWN` if most passages have none."""
        return next(iter(self.shares), UNKNOWN)

    @property
    def significant(self) -> list[str]:
        """The languages of at least a fifth of the passages, and the most frequent one."""
        return [code for code, share in self.shares.items() if share >= _MIN_SHARE or code == self.code]

    @property
    def summary(self) -> str:
        """The languages in words, as in "German (98% of 200 passages sampled)"."""
        others = [code for code in self.significant if code not in (self.code, UNKNOWN)]
        mixed = "".join(f", {language_name(code)} {self.shares[code]:.0%}" for code in others)
        if not self.shares:
            return "unknown (no text to sample)"
        rare = self.shares.keys() - {*self.significant, UNKNOWN}
        if rare and self.shares[self.code] < _MOST:
            mixed += f", and {counted(len(rare), 'other language')}"
        share = f"{int(100 * self.shares[self.code])}% of {counted(self.passages, 'passage')}"
        return f"{language_name(self.code)} ({share} sampled{mixed})"


def detect_language(passages: Iterable[str]) -> DetectedLanguage:
    """Return the languages of passages; passages of few letters are left out."""
    counts = Counter(
        _passage_language(passage) for passage in passages if sum(map(str.isalpha, passage)) >= _MIN_LETTERS
    )
    total = counts.total()
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return DetectedLanguage({code: count / total for code, count in ordered}, total)


def detect_source_language(sources: Sequence[Source], reading: ReadingSettings) -> DetectedLanguage:
    """Return the languages of a sample of text sources."""
    return detect_language(sample_passages(sources, reading))


def resolve_reading_language(settings: R, sources: Sequence[Source]) -> R:
    """Return settings with the language detected if it is "auto"; print it in one line."""
    if settings.language != AUTO:
        return settings
    detected = detect_source_language(sources, settings)
    progress.print_message(_line(detected.summary, detected.code, settings.language, []))
    return replace(settings, language=detected.code or "en")


def resolve_tokenizer_language(settings: TokenizerSettings, sources: Sequence[Source]) -> TokenizerSettings:
    """Return settings with language, accents and capitals decided; print what follows in one line."""
    if settings.language == AUTO:
        detected = detect_source_language(sources, settings)
        codes, summary = detected.significant, detected.summary
        language = detected.code
    else:
        language = settings.language
        codes, summary = [language], f"{language_name(language)} (--language {language})"
    cased, keep_accents = settings.cased, settings.keep_accents
    kept = []
    if cased is None and (cased := any(map(keeps_capitals, codes))):
        kept.append(("capitals", "--no-cased"))
    if keep_accents is None and (keep_accents := any(map(keeps_accents, codes))):
        kept.append(("accents", "--no-keep-accents"))
    if settings.language == AUTO or kept:
        progress.print_message(_line(summary, language, settings.language, kept))
    return replace(settings, language=language or "en", cased=cased, keep_accents=keep_accents)


def _line(summary: str, language: str, given: str, kept: Sequence[tuple[str, str]]) -> str:
    """Return the message about a language.

    Args:
        summary: the language, and how it was found.
        language: its code.
        given: the setting.
        kept: what a vocabulary keeps by default, each with the option that removes it.
    """
    consequences = [f"{' and '.join(name for name, _ in kept)} are kept"] if kept else []
    overrides = [option for _, option in kept]
    if language == UNKNOWN:
        if not consequences:
            return f"language: {summary}; treated as English; --language names another"
        consequences.append("sentences are split as in English")
    elif language != "en":
        rules = "by its rules" if language in SPLITTER_LANGUAGES else "at the marks of all scripts"
        consequences.append(f"sentences are split {rules}")
    if given == AUTO and consequences:
        overrides.append("--language")
    if not consequences:
        return f"language: {summary}"
    verb = "overrides" if len(overrides) == 1 else "override"
    advice = [f"{', '.join(overrides)} {verb} this"] if overrides else []
    return "; ".join([f"language: {summary}", ", ".join(consequences), *advice])


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _passage_language(passage: str) -> str:
    code, confidence = _identifier().classify(passage)
    return str(code) if confidence >= _MIN_CONFIDENCE and code != "zxx" else UNKNOWN
