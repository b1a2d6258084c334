"""Output of `albertine corpus`: the counts of a corpus, and samples with highlighted tokens to predict."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.manifest import Manifest
from albertine.corpus.settings import CorpusShowSettings, ObjectiveSettings
from albertine.display import counted
from albertine.progress import format_bytes
from albertine.storage.objects import file_size
from albertine.text.backends import WORD_START
from albertine.text.token_text import LONE_SPACE, split_marker
from albertine.text.tokenizer import Tokenizer

_SEGMENT_STYLES = ("", "cyan")
_MASKED, _KEPT, _REPLACED = "bold yellow", "bold green", "bold red"


def show_manifest(folder: Path, manifest: Manifest, *, as_json: bool) -> None:
    """Print the counts of a corpus, or its manifest as JSON."""
    if as_json:
        progress.print_json(manifest.to_json())
        return
    out = progress.result_console()
    for split in ("train", "dev"):
        documents, sentences = manifest.documents[split], manifest.sentences[split]
        if documents:
            tokens = counted(manifest.tokens[split], "token")
            counts = f"{counted(documents, 'document'):>22}{counted(sentences, 'sentence'):>24}{tokens:>23}"
            out.print(f"{split:<6}{counts}", highlight=False)
    if manifest.held_out_passages:
        out.print(
            f"held out: {manifest.held_out_summary}; the text before and after a passage is two documents "
            "of train",
            highlight=False,
        )
    summary = (
        f"{manifest.duplicates:,} duplicate documents dropped" if manifest.duplicates else "no duplicates"
    )
    if manifest.skipped:
        summary += (
            f"; {manifest.skipped:,} unreadable records skipped, first: {manifest.skipped_locations[0]}"
        )
    total = sum(file_size(folder / entry.file) for entry in manifest.shards)
    shards = f"{len(manifest.shards)} shards" if len(manifest.shards) != 1 else "1 shard"
    out.print(f"{summary}; {shards}, {format_bytes(total)}", highlight=False, markup=False)
    out.print(
        f"unigram entropy {manifest.unigram_entropy:.3f}: about the MLM loss of a model "
        "that knows only token frequencies",
        highlight=False,
    )


def show_samples(corpus: Corpus, settings: CorpusShowSettings, *, as_json: bool) -> None:
    """Print samples with the tokens to predict highlighted, or as JSON."""
    dataset = PretrainDataset(corpus, settings.objective, settings.split)
    indices = np.arange(settings.first, settings.first + settings.samples)
    samples = dataset.draw(indices)
    if as_json:
        report = {"samples": [_sample_json(sample, corpus.tokenizer) for sample in samples]}
        progress.print_json(report)
        return
    out = progress.result_console()
    for index, sample in zip(indices.tolist(), samples, strict=True):
        _print_sample(out, index, sample, corpus.tokenizer, settings.objective)
    out.print(_legend(corpus.tokenizer))
    if settings.objective.causal_fraction and settings.split == "train":
        out.print("causal: a token to predict is not hidden; the model reads the tokens before it")


def _legend(tokenizer: Tokenizer) -> Text:
    legend = Text("to predict: ")
    legend.append("{token}", _MASKED).append(" replaced by [MASK], ")
    legend.append("{token=}", _KEPT).append(" unchanged, ")
    legend.append("{token|other}", _REPLACED).append(" replaced by another; ")
    legend.append("/ separates tokens of a word")
    if WORD_START in tokenizer.vocabulary:
        legend.append(f", and {LONE_SPACE} is a space that is a token of its own")
    return legend


def _print_sample(
    out: Console, index: int, sample: PretrainSample, tokenizer: Tokenizer, objective: ObjectiveSettings
) -> None:
    pair_names = {
        "sop": ("in order", "swapped"),
        "nsp": ("consecutive", "two documents"),
        "none": ("one segment",),
    }
    pair_name = "causal" if sample.is_causal else pair_names[objective.pair][sample.pair_label]
    masked = len(sample.masked_positions)
    out.print(Text(f"sample {index:,}: {len(sample)} tokens, {pair_name}, {masked} to predict", "bold"))
    out.print(highlighted_sample(sample, tokenizer))
    out.print()


def highlighted_sample(sample: PretrainSample, tokenizer: Tokenizer) -> Text:
    """Return a sample as rich text: segments in two colours, tokens to predict in braces."""
    text = Text()
    vocabulary, marks_continuations = tokenizer.vocabulary, tokenizer.marks_continuations
    special_ids = (tokenizer.special_ids.cls, tokenizer.special_ids.sep)
    # The outputs of a causal sample predict the tokens behind them.
    predicted_positions = set((sample.masked_positions + sample.is_causal).tolist())
    original_ids = sample.original_tokens().tolist()
    for position, (input_id, original_id, segment) in enumerate(
        zip(sample.tokens.tolist(), original_ids, sample.segments.tolist(), strict=True)
    ):
        previous = (
            vocabulary[original_ids[position - 1]][-1:]
            if position and original_ids[position - 1] not in special_ids
            else " "
        )
        separator, bare = split_marker(
            vocabulary[original_id], previous, marks_continuations=marks_continuations
        )
        text.append(separator)
        if position not in predicted_positions:
            text.append(bare, "dim bold" if input_id in special_ids else _SEGMENT_STYLES[segment])
        elif input_id == tokenizer.special_ids.mask or sample.is_causal:
            text.append(f"{{{bare}}}", _MASKED)
        elif input_id == original_id:
            text.append(f"{{{bare}=}}", _KEPT)
        else:
            _, replacement = split_marker(vocabulary[input_id], " ", marks_continuations=marks_continuations)
            text.append(f"{{{bare}|{replacement}}}", _REPLACED)
    return text


def _sample_json(sample: PretrainSample, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "tokens": [tokenizer.vocabulary[token_id] for token_id in sample.tokens],
        "ids": sample.tokens.tolist(),
        "segments": sample.segments.tolist(),
        "masked_positions": sample.masked_positions.tolist(),
        "labels": sample.labels.tolist(),
        "pair_label": None if sample.is_causal else sample.pair_label,
        "causal": sample.is_causal,
    }
