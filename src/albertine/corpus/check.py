"""`albertine corpus check`: verifies that a corpus is unchanged since it was built."""

from pathlib import Path

import numpy as np

from albertine import progress
from albertine.checksums import file_checksum
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import ShardEntry
from albertine.corpus.shards import Shard
from albertine.errors import InputError


def check_corpus(folder: Path) -> Corpus:
    """Return a corpus whose tokenizer and shards are verified; an error names the first damaged file."""
    corpus = Corpus(folder)
    folder = corpus.folder
    vocab_size, entries = len(corpus.tokenizer), corpus.manifest.shards
    total = sum(_file_size(folder, entry) for entry in entries)
    with progress.progress_counter("Checking", total=total, unit="bytes") as advance:
        for entry in entries:
            problem = _find_problem(folder / entry.file, entry, vocab_size)
            if problem:
                raise InputError(
                    f"{folder / entry.file}: {problem}; build the corpus again or get the file again"
                )
            advance(_file_size(folder, entry))
    for quantity, counts in (("documents", corpus.manifest.documents), ("tokens", corpus.manifest.tokens)):
        for split, count in counts.items():
            actual = sum(getattr(entry, quantity) for entry in entries if entry.split == split)
            if actual != count:
                raise InputError(
                    f"{folder}: {count:,} {quantity} in {split} in manifest.json, {actual:,} in the shards; "
                    "build the corpus again"
                )
    unrecorded = "" if corpus.manifest.tokenizer_files else ", but the manifest has none of the tokenizer"
    progress.print_message(f"{folder}: unchanged; all checksums and counts agree{unrecorded}")
    return corpus


def _file_size(folder: Path, entry: ShardEntry) -> int:
    file = folder / entry.file
    return file.stat().st_size if file.exists() else 0


def _find_problem(file: Path, entry: ShardEntry, vocab_size: int) -> str | None:
    """Return what is wrong with a shard, or None."""
    if not file.exists():
        return "missing"
    if file_checksum(file) != entry.sha256:
        return "checksum differs from the manifest"
    shard = Shard(file)
    document_offsets = shard.document_offsets.astype(np.int64)
    sentence_starts = shard.sentence_starts.astype(np.int64)
    counts = (len(document_offsets) - 1, len(sentence_starts), len(shard.tokens))
    if counts != (entry.documents, entry.sentences, entry.tokens):
        return "counts differ from the manifest"
    if len(shard.tokens) and int(shard.tokens.max()) >= vocab_size:
        return "token ids outside the vocabulary"
    is_increasing = (np.diff(document_offsets) > 0).all()
    if not is_increasing or document_offsets[0] != 0 or document_offsets[-1] != len(shard.tokens):
        return "document offsets do not cover the tokens in increasing order"
    is_increasing = (np.diff(sentence_starts) > 0).all()
    if not is_increasing or not np.isin(document_offsets[:-1], sentence_starts).all():
        return "sentence starts out of order, or missing at the start of a document"
    if not shard.word_starts(0, len(shard.tokens))[sentence_starts].all():
        return "sentence starts inside a word"
    return None
