"""A corpus: manifest, tokenizer and memory-mapped shards. One on object storage is copied into the cache."""

from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from albertine.corpus.manifest import CorpusSplit, read_manifest
from albertine.corpus.shards import Shard
from albertine.errors import InputError
from albertine.storage.cache import local_folder
from albertine.storage.urls import storage_url
from albertine.text.tokenizer import Tokenizer, load_tokenizer, tokenizer_checksums


class Corpus:
    """A built corpus; opening a local one reads only the manifest.

    Attributes:
        location: absolute path or URL of the corpus, to name it in settings.
        folder: the folder of the corpus; of one on object storage, the copy in the cache.
        manifest: counts, shards and settings.
    """

    def __init__(self, folder: str | Path):
        folder = Path(folder)
        self.folder = local_folder(folder)
        self.location = folder.resolve() if storage_url(folder) is None else folder
        self.manifest = read_manifest(self.folder)
        self._shards: dict[str, list[Shard]] = {}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the corpus."""
        self._check_tokenizer_files()
        tokenizer = load_tokenizer(self.folder / "tokenizer")
        if tokenizer.fingerprint != self.manifest.tokenizer_fingerprint:
            raise InputError(
                f"{self.folder / 'tokenizer'}: differs from the tokenizer that the corpus was built with; "
                "restore that one or build the corpus again"
            )
        return tokenizer

    def _check_tokenizer_files(self) -> None:
        """Raise an error if a file of the tokenizer was changed, removed or added."""
        recorded = self.manifest.tokenizer_files
        if not recorded:  # built by an earlier version
            return
        folder = self.folder / "tokenizer"
        found = tokenizer_checksums(folder)
        for name in sorted({*recorded, *found}):
            if name not in recorded:
                raise InputError(f"{folder / name}: not a file of the corpus; remove it")
            if recorded[name] != found.get(name):
                problem = "changed since the corpus was built" if name in found else "missing"
                raise InputError(f"{folder / name}: {problem}; restore it or build the corpus again")

    def check_token_ids(self, ids: NDArray[Any]) -> None:
        """Raise `InputError` for token ids outside the vocabulary: a shard was changed or damaged."""
        if len(ids) and ids.max() >= len(self.tokenizer):
            raise InputError(
                f"{self.folder}: damaged, token ids outside the vocabulary; "
                f"run `albertine corpus check {self.folder}` to find the shard"
            )

    def shards(self, split: CorpusSplit) -> list[Shard]:
        """Return the shards of a split, opened on first use."""
        if split not in self._shards:
            entries = [entry for entry in self.manifest.shards if entry.split == split]
            if not entries:
                advice = " (held-out documents); build it with --held-out" if split == "dev" else ""
                raise InputError(f"{self.folder}: the corpus has no {split} split{advice}")
            shards = []
            for entry in entries:
                shard = Shard(self.folder / entry.file)
                counts = (len(shard.document_offsets) - 1, len(shard.sentence_starts), len(shard.tokens))
                if counts != (entry.documents, entry.sentences, entry.tokens):
                    raise InputError(
                        f"{self.folder / entry.file}: counts differ from manifest.json; "
                        "build the corpus again"
                    )
                shards.append(shard)
            self._shards[split] = shards
        return self._shards[split]


def open_corpus(folder: Path | None) -> Corpus:
    """Return the corpus of the setting `--corpus`; raise `InputError` if it is not set."""
    if folder is None:
        raise InputError("--corpus is missing: name a folder that `albertine corpus build` made")
    return Corpus(folder)


def check_same_tokenizer(checkpoint: str, fingerprint: str, corpus: Corpus) -> None:
    """Raise `InputError` if the tokenizer of a checkpoint is not that of the corpus."""
    if fingerprint != corpus.manifest.tokenizer_fingerprint:
        raise InputError(
            f"{checkpoint}: its tokenizer ({fingerprint}) is not that of {corpus.folder} "
            f"({corpus.manifest.tokenizer_fingerprint}); build the corpus with --tokenizer {checkpoint}"
        )
