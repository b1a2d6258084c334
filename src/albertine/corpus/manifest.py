"""The manifest of a corpus, `manifest.json`. It is written last: a folder without one is unfinished."""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from albertine.atomic import atomic_file
from albertine.checksums import json_checksum
from albertine.errors import InputError, check_format
from albertine.input_files import check_regular_file
from albertine.json_input import JsonError, dataclass_from_json, read_json

MANIFEST_FILE = "manifest.json"
MANIFEST_FORMAT = 2
CorpusSplit = Literal["train", "dev"]
_MAX_COUNT = 1 << 53


@dataclass(frozen=True)
class ShardEntry:
    """File, counts and checksum of a shard."""

    file: str
    split: CorpusSplit
    documents: int
    sentences: int
    tokens: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Description of a corpus.

    Attributes:
        tokenizer_files: SHA-256 of each file of the tokenizer; empty if an earlier version built the corpus.
        unigram_entropy: entropy of the token frequencies of train, in nats. It is about the MLM loss of
            a model that knows only token frequencies, so a useful model must be below it.
        duplicates: number of documents that were dropped as duplicates.
        skipped: number of files, lines or records that could not be read.
        skipped_locations: location and problem of the first of these.
        unknown_tokens: number of unknown tokens in the text, before duplicates are dropped.
        lost_characters: how often the most frequent characters without a token occur there; for a BERT
            vocabulary, those without a token for the start of a word, or for inside one, where they occur.
        held_out_passages: number of passages in dev, each from another document; None if dev has whole
            documents.
    """

    tokenizer_fingerprint: str
    vocab_size: int
    shards: list[ShardEntry]
    documents: dict[str, int]
    sentences: dict[str, int]
    tokens: dict[str, int]
    words: int
    unigram_entropy: float
    duplicates: int
    skipped: int
    skipped_locations: list[str]
    sources: list[str]
    settings: dict[str, Any]
    versions: dict[str, str]
    tokenizer_files: dict[str, str] = field(default_factory=dict)  # earlier versions do not write
    unknown_tokens: int = 0  # this field and the next three
    lost_characters: dict[str, int] = field(default_factory=dict)
    held_out_passages: int | None = None
    format: int = field(default=MANIFEST_FORMAT)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values, without fields that are None."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}

    @property
    def held_out_summary(self) -> str:
        """Description of the split dev, for a message."""
        match self.held_out_passages:
            case None:
                return "whole documents"
            case 1:
                return "a passage of one document"
            case count:
                return f"a passage of each of {count:,} documents"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, with a checksum of its content; it marks the corpus as finished."""
    values = manifest.to_json()
    values["sha256"] = json_checksum(values)
    text = json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True)
    with atomic_file(folder / MANIFEST_FILE) as file:
        # Names of files that are not UTF-8 are read with surrogates, which JSON can write as "\\udce9".
        file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a corpus."""
    file = folder / MANIFEST_FILE
    try:
        check_regular_file(file)
        with file.open("rb") as stream:
            values = read_json(stream)
        if not isinstance(values, dict):
            raise JsonError("not an object")
        check_format(file, values.get("format"), MANIFEST_FORMAT, "build the corpus again")
        recorded = values.pop("sha256", None)  # earlier versions wrote none
        manifest = dataclass_from_json(Manifest, values)
        _check_values(manifest)
        if recorded is not None and recorded != json_checksum(values):
            raise JsonError("changed since the corpus was built")
    except FileNotFoundError:
        if not folder.exists():
            raise InputError(
                f"{folder}: no such folder; name the folder of a corpus (albertine corpus build)"
            ) from None
        unfinished = "; it is unfinished, repeat its build command" if (folder / "building").exists() else ""
        raise InputError(
            f"{folder}: no corpus{unfinished or ' here; build one (albertine corpus build)'}"
        ) from None
    except NotADirectoryError:
        raise InputError(f"{folder}: a file; name the folder of a corpus (albertine corpus build)") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    except JsonError as error:
        raise InputError(f"{file}: damaged ({error}); restore it or build the corpus again") from None
    return manifest


def _check_values(manifest: Manifest) -> None:
    """Raise `JsonError` for values that a build does not write."""
    counts: list[tuple[str, int]] = [
        (name, getattr(manifest, name)) for name in ("words", "duplicates", "skipped", "unknown_tokens")
    ]
    counts += [("held_out_passages", manifest.held_out_passages or 0), ("vocab_size", manifest.vocab_size)]
    counts += [("lost_characters", count) for count in manifest.lost_characters.values()]
    for name in ("documents", "sentences", "tokens"):
        count_by_split = getattr(manifest, name)
        if set(count_by_split) != {"train", "dev"}:
            raise JsonError(f"{name}: not one count per split")
        counts += [(name, count) for count in count_by_split.values()]
    for shard in manifest.shards:
        if not re.fullmatch(r"(train|dev)-[0-9]+\.arrow", shard.file):
            raise JsonError(f"the file of a shard is {ascii(shard.file)[:80]}")
        counts += [(shard.file, count) for count in (shard.documents, shard.sentences, shard.tokens)]
    for name, count in counts:
        if not 0 <= count < _MAX_COUNT:
            raise JsonError(f"{name}: {str(count)[:80]} is no count")
    if manifest.unigram_entropy < 0:
        raise JsonError(f"unigram_entropy: {manifest.unigram_entropy} is negative")
