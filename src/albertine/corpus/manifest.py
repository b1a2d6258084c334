"""The manifest of a corpus, `manifest.json`. It is written last: a folder without one is unfinished."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from albertine.atomic import atomic_file
from albertine.errors import InputError, check_format

MANIFEST_FILE = "manifest.json"
MANIFEST_FORMAT = 2
CorpusSplit = Literal["train", "dev"]


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
        unigram_entropy: entropy of the token frequencies of train, in nats. It is about the MLM loss of
            a model that knows only token frequencies, so a useful model must be below it.
        duplicates: number of documents that were dropped as duplicates.
        skipped: number of files, lines or records that could not be read.
        skipped_locations: location and problem of the first of these.
        unknown_tokens: number of unknown tokens in the text, before duplicates are dropped.
        lost_characters: how often the most frequent characters without a token occur there.
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
    unknown_tokens: int = 0  # manifests of earlier versions lack this field and the next two
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
    """Write the manifest, which marks the corpus as finished."""
    text = json.dumps(manifest.to_json(), indent=2, ensure_ascii=False, sort_keys=True)
    with atomic_file(folder / MANIFEST_FILE) as file:
        file.write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a corpus."""
    file = folder / MANIFEST_FILE
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        check_format(file, values.get("format"), MANIFEST_FORMAT, "build the corpus again")
        shards = [ShardEntry(**shard) for shard in values.pop("shards")]
        manifest = Manifest(shards=shards, **values)
        _validate(manifest)
        return manifest
    except FileNotFoundError:
        if not folder.exists():
            raise InputError(
                f"{folder}: no such folder; name the folder of a corpus (albertine corpus build)"
            ) from None
        unfinished = "; it is unfinished, repeat its build command" if (folder / "building").exists() else ""
        raise InputError(f"{folder}: no corpus{unfinished or ' here (no manifest.json)'}") from None
    except NotADirectoryError:
        raise InputError(f"{folder}: a file; name the folder of a corpus (albertine corpus build)") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise InputError(f"{file}: damaged ({error}); build the corpus again") from None


def _validate(manifest: Manifest) -> None:
    """Raise ValueError for values that a build does not write."""
    for name in ("documents", "sentences", "tokens"):
        counts = getattr(manifest, name)
        if set(counts) != {"train", "dev"} or not all(isinstance(count, int) for count in counts.values()):
            raise ValueError(f"{name}: not one count per split")
    for shard in manifest.shards:
        if "/" in shard.file or shard.split not in ("train", "dev"):
            raise ValueError(f"shard {shard.file}")


def checksum(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
