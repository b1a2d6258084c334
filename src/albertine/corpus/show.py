"""Output of `albertine corpus`: the counts of a corpus, and samples with their masked tokens highlighted."""

import dataclasses
import json
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
from albertine.progress import format_bytes
from albertine.text.token_text import split_marker
from albertine.text.tokenizer import Tokenizer

_SEGMENT_STYLES = ("", "cyan")
_MASKED, _KEPT, _REPLACED = "bold yellow", "bold green", "bold red"


def show_manifest(folder: Path, manifest: Manifest, *, as_json: bool) -> None:
    """Print the counts of a corpus, or its manifest as JSON."""
    if as_json:
        print(json.dumps(dataclasses.asdict(manifest), indent=2, ensure_ascii=False))
        return
    out = progress.result_console()
    for split in ("train", "dev"):
        documents, sentences = manifest.documents[split], manifest.sentences[split]
        if documents:
            out.print(
                f"{split:<6}{documents:>12,} documents{sentences:>14,} sentences"
                f"{manifest.tokens[split]:>16,} tokens",
                highlight=False,
            )
    summary = (
        f"{manifest.duplicates:,} duplicate documents dropped" if manifest.duplicates else "no duplicates"
    )
    if manifest.skipped:
        summary += (
            f"; {manifest.skipped:,} unreadable records skipped, first: {manifest.skipped_locations[0]}"
        )
    total = sum((folder / entry.file).stat().st_size for entry in manifest.shards)
    shards = f"{len(manifest.shards)} shards" if len(manifest.shards) != 1 else "1 shard"
    out.print(f"{summary}; {shards}, {format_bytes(total)}", highlight=False, markup=False)
    out.print(
        f"unigram entropy {manifest.unigram_entropy:.3f}: about the MLM loss of a model "
        "that knows only token frequencies",
        highlight=False,
    )


def show_samples(corpus: Corpus, settings: CorpusShowSettings, *, as_json: bool) -> None:
    """Print samples with highlighted tokens, or as JSON."""
    dataset = PretrainDataset(corpus, settings.objective, settings.split)
    indices = np.arange(settings.first, settings.first + settings.samples)
    samples = dataset.draw(indices)
    if as_json:
        described = [_sample_json(sample, corpus.tokenizer) for sample in samples]
        print(json.dumps({"samples": described}, indent=2, ensure_ascii=False))
        return
    out = progress.result_console()
    for index, sample in zip(indices.tolist(), samples, strict=True):
        _print_sample(out, index, sample, corpus.tokenizer, settings.objective)
    out.print(_legend())


def _legend() -> Text:
    legend = Text("to predict: ")
    legend.append("{token}", _MASKED).append(" replaced by [MASK], ")
    legend.append("{token=}", _KEPT).append(" unchanged, ")
    legend.append("{token|other}", _REPLACED).append(" replaced by another; ")
    return legend.append("/ separates tokens of a word")


def _print_sample(
    out: Console, index: int, sample: PretrainSample, tokenizer: Tokenizer, objective: ObjectiveSettings
) -> None:
    pair_names = {
        "sop": ("in order", "swapped"),
        "nsp": ("consecutive", "two documents"),
        "none": ("one segment",),
    }
    head = f"sample {index:,}: {len(sample)} tokens, {pair_names[objective.pair][sample.pair_label]}, "
    out.print(Text(head + f"{len(sample.masked_positions)} to predict", "bold"))
    out.print(highlighted_sample(sample, tokenizer))
    out.print()


def highlighted_sample(sample: PretrainSample, tokenizer: Tokenizer) -> Text:
    """Return a sample as rich text: segments in two colours, tokens to predict in braces."""
    text = Text()
    special = (tokenizer.special_ids.cls, tokenizer.special_ids.sep)
    expected = dict(zip(sample.masked_positions.tolist(), sample.labels.tolist(), strict=True))
    original = sample.original_tokens().tolist()
    for position, (seen, segment) in enumerate(
        zip(sample.tokens.tolist(), sample.segments.tolist(), strict=True)
    ):
        token = tokenizer.vocabulary[original[position]]
        previous = (
            tokenizer.vocabulary[original[position - 1]][-1:]
            if position and original[position - 1] not in special
            else " "
        )
        separator, bare = split_marker(token, previous, marks_continuations=tokenizer.marks_continuations)
        text.append(separator)
        if position not in expected:
            text.append(bare, "dim bold" if seen in special else _SEGMENT_STYLES[segment])
        elif seen == tokenizer.special_ids.mask:
            text.append(f"{{{bare}}}", _MASKED)
        elif seen == expected[position]:
            text.append(f"{{{bare}=}}", _KEPT)
        else:
            replacement = split_marker(
                tokenizer.vocabulary[seen], " ", marks_continuations=tokenizer.marks_continuations
            )[1]
            text.append(f"{{{bare}|{replacement}}}", _REPLACED)
    return text


def _sample_json(sample: PretrainSample, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "tokens": [tokenizer.vocabulary[one] for one in sample.tokens],
        "ids": sample.tokens.tolist(),
        "segments": sample.segments.tolist(),
        "masked_positions": sample.masked_positions.tolist(),
        "labels": sample.labels.tolist(),
        "pair_label": sample.pair_label,
    }
