"""What a built corpus says about itself: its checksums, and what its build has skipped or lost."""

from collections.abc import Iterator

from albertine.check.findings import Finding
from albertine.corpus.manifest import Manifest
from albertine.display import display_text, percent
from albertine.text.characters import list_characters
from albertine.text.languages import language_name

_MANY_UNKNOWN = 0.01
_MIN_OCCURRENCES = 50  # of a token, on average
_MIN_DEV_TOKENS = 10_000


def corpus_findings(name: str, manifest: Manifest) -> Iterator[Finding]:
    """Yield findings about a corpus, from its name and manifest."""
    language = manifest.settings.get("language")
    if isinstance(language, str):
        yield Finding("note", "language", f"language: {language_name(display_text(language))} (its settings)")
    tokens = sum(manifest.tokens.values())
    if manifest.skipped:
        yield Finding(
            "warning", "skipped", "parts of the text that its build could not read", manifest.skipped,
            "", (manifest.skipped_locations or [name])[0], "fix them and build the corpus again",
        )  # fmt: skip
    if manifest.unknown_tokens:
        yield Finding(
            "error" if manifest.unknown_tokens >= _MANY_UNKNOWN * tokens else "note", "unknown-characters",
            f"unknown tokens, {percent(manifest.unknown_tokens, tokens)} of all", manifest.unknown_tokens,
            list_characters(manifest.lost_characters), name,
            "train a tokenizer on this text, or with --byte-fallback",
        )  # fmt: skip
    if manifest.duplicates:
        yield Finding("note", "duplicates", "repeated documents, left out", manifest.duplicates)
    if tokens < _MIN_OCCURRENCES * manifest.vocab_size:
        yield Finding(
            "warning", "too-little-text", f"tokens, few for a vocabulary of {manifest.vocab_size:,}", tokens,
            "", name, "use more text or a smaller vocabulary",
        )  # fmt: skip
    if manifest.tokens.get("dev", 0) < _MIN_DEV_TOKENS:
        yield Finding(
            "note", "few-dev-tokens", "tokens in dev: losses on dev will be missing or inexact",
            manifest.tokens.get("dev", 0), "", name, "build it with a larger --held-out, or of more text",
        )  # fmt: skip
