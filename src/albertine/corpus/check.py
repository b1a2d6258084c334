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
    with progress.progress_counter(
        "Checking", total=sum(_file_size(folder, one) for one in _entries(corpus)), unit="bytes"
    ) as advance:
        for entry in _entries(corpus):
            problem = _problem(folder / entry.file, entry, size)
            if problem:
                raise WorkError(
                    f"{folder / entry.file}: {problem}; build the corpus again, or get the file again"
                )
            advance(_file_size(folder, entry))
    for quantity, counts in (("documents", corpus.manifest.documents), ("tokens", corpus.manifest.tokens)):
        for split, count in counts.items():
            found = sum(getattr(entry, quantity) for entry in _entries(corpus) if entry.split == split)
            if found != count:
                raise WorkError(
                    f"{folder}: the manifest says {count:,} {quantity} in {split}, its shards {found:,}"
                )
    progress.print_message(f"{folder}: as it was built; every checksum and count agrees")
    return corpus


def _entries(corpus: Corpus) -> list[ShardEntry]:
    return corpus.manifest.shards


def _file_size(folder: Path, entry: ShardEntry) -> int:
    file = folder / entry.file
    return file.stat().st_size if file.exists() else 0


def _problem(file: Path, entry: ShardEntry, vocab_size: int) -> str | None:
    """Return what is wrong with a shard."""
    if not file.exists():
        return "missing"
    if checksum(file) != entry.sha256:
        return "not the bytes that were written (checksum)"
    shard = Shard(file)
    documents, sentences = shard.document_offsets.astype(np.int64), shard.sentence_starts.astype(np.int64)
    found = (len(documents) - 1, len(sentences), len(shard.tokens))
    if found != (entry.documents, entry.sentences, entry.tokens):
        return "holds other counts than the manifest says"
    if len(shard.tokens) and int(shard.tokens.max()) >= vocab_size:
        return "has ids that the tokenizer does not"
    if (np.diff(documents) <= 0).any() or documents[0] != 0 or documents[-1] != len(shard.tokens):
        return "has documents out of order"
    if (np.diff(sentences) <= 0).any() or not np.isin(documents[:-1], sentences).all():
        return "has sentences out of order"
    if not shard.word_starts(0, len(shard.tokens))[sentences].all():
        return "has sentences that begin inside a word"
    return None
