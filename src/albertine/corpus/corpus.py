"""A corpus on disk: its manifest, its tokenizer, its shards mapped into memory."""

from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from albertine.corpus.manifest import CorpusSplit, read_manifest
from albertine.corpus.shards import Shard
from albertine.errors import InputError
from albertine.text.tokenizer import Tokenizer, load_tokenizer


class Corpus:
    """What was built into a folder; opening it reads no text.

    Attributes:
        folder: where it lies.
        manifest: what it is.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = read_manifest(folder)
        self._shards: dict[str, list[Shard]] = {}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that its ids are of."""
        tokenizer = load_tokenizer(self.folder / "tokenizer")
        if tokenizer.fingerprint != self.manifest.tokenizer_fingerprint:
            raise InputError(f"{self.folder / 'tokenizer'}: not the tokenizer that the corpus was built with")
        return tokenizer

    def check_ids(self, ids: NDArray[Any]) -> None:
        """Refuse ids of pieces that the vocabulary has not: the disk or somebody has changed a shard."""
        if len(ids) and ids.max() >= len(self.tokenizer):
            raise InputError(
                f"{self.folder}: damaged, it has pieces that are not in its vocabulary; "
                f"`albertine corpus check {self.folder}` says where"
            )

    def shards(self, split: CorpusSplit) -> list[Shard]:
        """Return the shards of a split, opened once."""
        if split not in self._shards:
            entries = [entry for entry in self.manifest.shards if entry.split == split]
            if not entries:
                advice = "; build it with --held-out" if split == "dev" else ""
                raise InputError(f"{self.folder}: the corpus has no {split}{advice}")
            shards = []
            for entry in entries:
                shard = Shard(self.folder / entry.file)
                found = (len(shard.document_offsets) - 1, len(shard.sentence_starts), len(shard.tokens))
                if found != (entry.documents, entry.sentences, entry.tokens):
                    raise InputError(
                        f"{self.folder / entry.file}: not the shard that the manifest tells of; "
                        "build the corpus again"
                    )
                shards.append(shard)
            self._shards[split] = shards
        return self._shards[split]
