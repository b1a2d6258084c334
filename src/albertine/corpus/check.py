"""`albertine corpus check`: whether a corpus is what it was when it was built."""

from pathlib import Path

import numpy as np

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import ShardEntry, checksum
from albertine.corpus.shards import Shard
from albertine.errors import WorkError


def check_corpus(folder: Path) -> Corpus:
    """Verify every shard's checksum and inner order, and the tokenizer; a failure names the file."""
    corpus = Corpus(folder)
    size = len(corpus.tokenizer)
    with progress.advancing(
        "Checking", total=sum(_bytes(folder, one) for one in _all(corpus)), unit="bytes"
    ) as told:
        for entry in _all(corpus):
            problem = _problem(folder / entry.file, entry, size)
            if problem:
                raise WorkError(
                    f"{folder / entry.file}: {problem}; build the corpus again, or get the file again"
                )
            told(_bytes(folder, entry))
    for split, counts in (("documents", corpus.manifest.documents), ("tokens", corpus.manifest.tokens)):
        for part, count in counts.items():
            found = sum(getattr(entry, split) for entry in _all(corpus) if entry.split == part)
            if found != count:
                raise WorkError(
                    f"{folder}: the manifest says {count:,} {split} in {part}, its shards {found:,}"
                )
    progress.say(f"{folder}: as it was built; every checksum and count agrees")
    return corpus


def _all(corpus: Corpus) -> list[ShardEntry]:
    return corpus.manifest.shards


def _bytes(folder: Path, entry: ShardEntry) -> int:
    file = folder / entry.file
    return file.stat().st_size if file.exists() else 0


def _problem(file: Path, entry: ShardEntry, vocab_size: int) -> str | None:
    """Return what is wrong with a shard."""
    if not file.exists():
        return "missing"
    if checksum(file) != entry.sha256:
        return "not the bytes that were written (checksum)"
    shard = Shard(file)
    documents, sentences = shard.documents.astype(np.int64), shard.sentences.astype(np.int64)
    found = (len(documents) - 1, len(sentences), len(shard.tokens))
    if found != (entry.documents, entry.sentences, entry.tokens):
        return "holds other counts than the manifest says"
    if len(shard.tokens) and int(shard.tokens.max()) >= vocab_size:
        return "has ids that the tokenizer does not"
    if (np.diff(documents) <= 0).any() or documents[0] != 0 or documents[-1] != len(shard.tokens):
        return "has documents out of order"
    if (np.diff(sentences) <= 0).any() or not np.isin(documents[:-1], sentences).all():
        return "has sentences out of order"
    if not shard.starts(0, len(shard.tokens))[sentences].all():
        return "has sentences that begin inside a word"
    return None
