"""Prints the report of `anatomy`: tables for people, JSON for programs."""

import json
from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from albertine import progress
from albertine.progress import operations, size
from albertine.study.anatomy import Anatomy

_PARTS = {
    "token_embedding": "token embedding",
    "positions": "position embedding",
    "segments": "segment embedding",
    "projection": "projection E to H",
    "attention": "attention",
    "ffn": "feed-forward",
    "norms": "layer norms",
    "pooler": "pooler",
}

_FAMILY_NOTE = """
Parameters of the encoder with its pooler, exact; the paper rounds, and counts a
little differently. GFLOP per token of a forward pass at up to {length} pieces.
One model in full: albertine info albert-base"""

Row = tuple[str, Callable[[Anatomy], str]]


def show(reports: Sequence[Anatomy], *, as_json: bool) -> None:
    """Print one model, or two side by side."""
    if as_json:
        content = (
            reports[0].to_json() if len(reports) == 1 else {"models": [one.to_json() for one in reports]}
        )
        print(json.dumps(content, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for one in reports:
        table.add_column(one.name, justify="right")
    for title, rows in _sections(reports):
        table.add_row("")
        table.add_row(Text(title, style="bold"))
        for label, value in rows:
            table.add_row("  " + label, *(value(one) for one in reports))
    progress.results().print(table)


def show_family(reports: Sequence[Anatomy], *, as_json: bool) -> None:
    """Print the whole family in one table."""
    if as_json:
        print(json.dumps({"models": [one.to_json() for one in reports]}, indent=2))
        return
    # What the paper printed, or the batch that fits if memory was asked for: 80 columns hold one of them.
    asked = reports[0].settings.memory
    last = "fits" if asked else "paper"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("model", "L", "H", "E", "share", "parameters", "of BERT", "GFLOP", last):
        table.add_column(title, justify="left" if title in ("model", "share") else "right", no_wrap=True)
    for one in reports:
        published = "" if one.published_millions is None else f"{one.published_millions}M"
        table.add_row(
            one.name,
            str(one.model.layers),
            str(one.model.hidden_size),
            str(one.model.embedding_size),
            one.model.share,
            f"{one.parameters.encoder:,}",
            _factor(one),
            f"{one.flops.forward_per_token / 1e9:.3g}",
            f"{one.fits['without_recomputation']:,}" if one.fits else published,
        )
    progress.results().print(table)
    length = reports[0].settings.length
    progress.say(_FAMILY_NOTE.format(length=length))
    if asked:
        progress.say(
            f"Fits: the largest batch of {length} pieces that trains in {asked}, without recomputation."
        )


def _sections(reports: Sequence[Anatomy]) -> list[tuple[str, list[Row]]]:
    first = reports[0].settings
    shape = f"batch {first.batch}, {first.length} pieces, {first.precision}"
    sections = [
        ("Shape", _shape_rows()),
        ("Parameters", _parameter_rows()),
        ("Token embedding", _embedding_rows()),
        (f"Operations per token, at {first.length} pieces", _flops_rows()),
        ("Weights", [_weight_row(precision) for precision in ("fp32", "bf16", "int8")]),
        (f"Training memory, {shape}", _memory_rows()),
        (f"Data-parallel training, {first.processes} processes", _traffic_rows()),
    ]
    if first.memory is not None:
        fits = [_fits_row(key) for key in ("without_recomputation", "with_recomputation")]
        sections.append((f"Largest batch in {first.memory}", fits))
    return sections


def _part_row(part: str, label: str) -> Row:
    return label, lambda one: f"{getattr(one.parameters, part):,}"


def _weight_row(precision: str) -> Row:
    return precision, lambda one: size(one.weight_bytes()[precision])


def _fits_row(key: str) -> Row:
    return key.replace("_", " "), lambda one: f"{one.fits[key]:,}" if one.fits else ""


def _traffic_rows() -> list[Row]:
    return [
        ("gradients", lambda one: size(one.gradient_bytes)),
        ("sent by each per step", lambda one: size(one.traffic_bytes)),
    ]


def _shape_rows() -> list[Row]:
    return [
        ("layers", lambda one: str(one.model.layers)),
        ("hidden size H, heads", lambda one: f"{one.model.hidden_size:,}, {one.model.heads}"),
        ("embedding size E", lambda one: f"{one.model.embedding_size:,}"),
        ("feed-forward size", lambda one: f"{one.model.ffn:,}"),
        ("vocabulary V", lambda one: f"{one.model.vocab_size:,}"),
        ("shared, groups", lambda one: f"{one.model.share}, {one.model.groups}"),
    ]


def _parameter_rows() -> list[Row]:
    return [
        *(_part_row(part, label) for part, label in _PARTS.items()),
        ("encoder", lambda one: f"{one.parameters.encoder:,}"),
        ("MLM head (decoder tied)", lambda one: f"{one.parameters.mlm_head:,}"),
        ("pair head", lambda one: f"{one.parameters.pair_head:,}"),
        ("total", lambda one: f"{one.parameters.total:,}"),
        ("by the paper's rule", lambda one: f"{one.as_published:,}"),
        ("encoder of its BERT", lambda one: f"{one.bert_encoder:,} ({_factor(one)})"),
    ]


def _embedding_rows() -> list[Row]:
    return [
        ("V x H, not factorized", lambda one: f"{one.embedding_unfactorized:,}"),
        ("V x E + E x H", lambda one: f"{one.embedding_factorized:,}"),
    ]


def _flops_rows() -> list[Row]:
    return [
        ("forward", lambda one: operations(one.flops.forward_per_token)),
        ("of it, growing with length", lambda one: operations(one.flops.attention_per_token)),
        ("pre-training heads", lambda one: operations(one.flops.heads_per_token)),
        ("training", lambda one: operations(one.flops.training_per_token)),
        ("training, recomputing", lambda one: operations(one.flops.training_with_recomputation_per_token)),
    ]


def _memory_rows() -> list[Row]:
    return [
        ("weights", lambda one: size(one.training.weights)),
        ("gradients", lambda one: size(one.training.gradients)),
        ("optimizer", lambda one: size(one.training.optimizer)),
        ("activations", lambda one: size(one.training.activations)),
        ("activations, recomputing", lambda one: size(one.training_recomputed.activations)),
        ("total", lambda one: size(one.training.total)),
        ("total, recomputing", lambda one: size(one.training_recomputed.total)),
    ]


def _factor(one: Anatomy) -> str:
    return "1" if one.bert_encoder == one.parameters.encoder else f"1/{one.factor:.1f}"
