"""What `albertine corpus` prints: the counts of a corpus, and samples as the network will see them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import Manifest
from albertine.corpus.samples import Sample, Sampler
from albertine.corpus.settings import Objective, ShowSettings
from albertine.progress import size
from albertine.text.pieces import parted
from albertine.text.tokenizer import Tokenizer

_STYLES = ("", "cyan")
_HIDDEN, _KEPT, _REPLACED = "bold yellow", "bold green", "bold red"


def show_manifest(folder: Path, manifest: Manifest, *, as_json: bool) -> None:
    """Print what a corpus is."""
    if as_json:
        print(json.dumps(dataclasses.asdict(manifest), indent=2, ensure_ascii=False))
        return
    out = progress.results()
    for split in ("train", "dev"):
        documents, sentences = manifest.documents[split], manifest.sentences[split]
        if documents:
            out.print(
                f"{split:<6}{documents:>12,} documents{sentences:>14,} sentences"
                f"{manifest.tokens[split]:>16,} pieces",
                highlight=False,
            )
    told = f"{manifest.duplicates:,} duplicate documents dropped" if manifest.duplicates else "no duplicates"
    if manifest.skipped:
        told += f"; {manifest.skipped:,} places skipped, as {manifest.skipped_places[0]}"
    total = sum((folder / entry.file).stat().st_size for entry in manifest.shards)
    shards = f"{len(manifest.shards)} shards" if len(manifest.shards) != 1 else "1 shard"
    out.print(f"{told}; {shards}, {size(total)}", highlight=False, markup=False)
    out.print(
        f"unigram entropy {manifest.unigram_entropy:.3f}: about the MLM loss of knowing frequencies alone",
        highlight=False,
    )


def show_samples(corpus: Corpus, settings: ShowSettings, *, as_json: bool) -> None:
    """Print samples."""
    sampler = Sampler(corpus, settings.objective, settings.split)
    places = np.arange(settings.first, settings.first + settings.samples)
    samples = sampler.draw(places)
    if as_json:
        told = [_as_json(sample, corpus.tokenizer) for sample in samples]
        print(json.dumps({"samples": told}, indent=2, ensure_ascii=False))
        return
    out = progress.results()
    for place, sample in zip(places.tolist(), samples, strict=True):
        _print_sample(out, place, sample, corpus.tokenizer, settings.objective)
    out.print(_legend())


def _legend() -> Text:
    legend = Text("to be predicted: ")
    legend.append("{hidden}", _HIDDEN).append(" behind [MASK], ")
    legend.append("{kept=}", _KEPT).append(" as it is, ")
    legend.append("{the piece|what stands there}", _REPLACED).append(" replaced; ")
    return legend.append("/ parts pieces of a word")


def _print_sample(
    out: Console, place: int, sample: Sample, tokenizer: Tokenizer, objective: Objective
) -> None:
    kinds = {
        "sop": ("in order", "swapped"),
        "nsp": ("as in the text", "two documents"),
        "none": ("one segment",),
    }
    head = f"sample {place:,}: {len(sample)} pieces, {kinds[objective.pair][sample.label]}, "
    out.print(Text(head + f"{len(sample.masked)} to be predicted", "bold"))
    out.print(drawn(sample, tokenizer))
    out.print()


def drawn(sample: Sample, tokenizer: Tokenizer) -> Text:
    """Return a sample as text: segments in two colours, what is to be predicted marked."""
    text = Text()
    special = (tokenizer.special.opening, tokenizer.special.closing)
    expected = dict(zip(sample.masked.tolist(), sample.labels.tolist(), strict=True))
    original = sample.original().tolist()
    for at, (seen, kind) in enumerate(zip(sample.tokens.tolist(), sample.types.tolist(), strict=True)):
        piece = tokenizer.pieces[original[at]]
        after = tokenizer.pieces[original[at - 1]][-1:] if at and original[at - 1] not in special else " "
        space, bare = parted(piece, after, rest_is_marked=tokenizer.marks_rest)
        text.append(space)
        if at not in expected:
            text.append(bare, "dim bold" if seen in special else _STYLES[kind])
        elif seen == tokenizer.special.mask:
            text.append(f"{{{bare}}}", _HIDDEN)
        elif seen == expected[at]:
            text.append(f"{{{bare}=}}", _KEPT)
        else:
            instead = parted(tokenizer.pieces[seen], " ", rest_is_marked=tokenizer.marks_rest)[1]
            text.append(f"{{{bare}|{instead}}}", _REPLACED)
    return text


def _as_json(sample: Sample, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "pieces": [tokenizer.pieces[one] for one in sample.tokens],
        "tokens": sample.tokens.tolist(),
        "types": sample.types.tolist(),
        "masked": sample.masked.tolist(),
        "labels": sample.labels.tolist(),
        "label": sample.label,
    }
