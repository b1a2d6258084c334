"""Prints the reports of `model_info` as tables or JSON."""

from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from albertine import progress
from albertine.info.model_info import ModelInfo
from albertine.progress import format_bytes, format_flops

_PARAMETER_LABELS = {
    "token_embedding": "token embedding",
    "position_embedding": "position embedding",
    "segment_embedding": "segment embedding",
    "projection": "projection E to H",
    "attention": "attention",
    "ffn": "feed-forward",
    "layer_norms": "layer norms",
    "depth_control": "depth control",
    "step_differences": "differences by step",
    "pooler": "pooler",
}

_HEAD_LABELS = {
    "mlm_head": "MLM head (decoder tied)",
    "pair_head": "pair head",
    "task_head": "task head",
}

_PRESETS_NOTE = """
Parameters are exact and include encoder and pooler; the paper rounds and counts slightly
differently. GFLOP is per token of a forward pass at up to {length} tokens per sequence.
The presets albertine-* have the sizes of albert-*, with pre-norm and rotary
positions; their depth grows during pre-training.
One model in full: albertine info albert-base"""

InfoRow = tuple[str, Callable[[ModelInfo], str]]


def show_models(infos: Sequence[ModelInfo], *, as_json: bool) -> None:
    """Print the report on one model, or on two side by side."""
    if as_json:
        content = infos[0].to_json() if len(infos) == 1 else {"models": [info.to_json() for info in infos]}
        progress.print_json(content)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for info in infos:
        table.add_column(Text(info.name), justify="right")
    for title, rows in _sections(infos):
        table.add_row("")
        table.add_row(Text(title, style="bold"))
        for label, value in rows:
            table.add_row("  " + label, *(value(info) for info in infos))
    progress.result_console().print(table)


def show_presets(infos: Sequence[ModelInfo], *, as_json: bool) -> None:
    """Print all presets in one table."""
    if as_json:
        progress.print_json({"models": [info.to_json() for info in infos]})
        return
    # The last column is the paper's number or the largest batch, because only one fits into 80 characters.
    memory = infos[0].settings.memory
    last_column = "fits" if memory else "paper"
    table = progress.result_table(
        *("model", "L", "H", "E", "share", "parameters", "of BERT", "GFLOP", last_column),
        left_aligned=("model", "share"),
    )
    for info in infos:
        published = "" if info.published_millions is None else f"{info.published_millions}M"
        table.add_row(
            info.name,
            str(info.model.layers),
            str(info.model.hidden_size),
            str(info.model.embedding_size),
            info.model.share,
            f"{info.parameters.encoder:,}",
            _bert_fraction(info),
            f"{info.flops.forward_per_token / 1e9:.3g}",
            f"{info.largest_batch_sizes['without_recomputation']:,}"
            if info.largest_batch_sizes
            else published,
        )
    progress.result_console().print(table)
    length = infos[0].settings.length
    progress.print_message(_PRESETS_NOTE.format(length=length))
    if memory:
        progress.print_message(
            f"fits: largest batch of {length}-token sequences that trains in {memory}, without recomputation"
        )


def _sections(reports: Sequence[ModelInfo]) -> list[tuple[str, list[InfoRow]]]:
    first = reports[0].settings
    shape = f"batch {first.batch_size}, {first.length} tokens, {first.precision}"
    # Operations and memory of training are those of pre-training, whatever head a checkpoint has.
    is_pretrained = reports[0].parameters.pair_head > 0
    training = "Training memory" if is_pretrained else "Memory of pre-training"
    sections = [
        ("Shape", _shape_rows()),
        ("Parameters", _parameter_rows(reports)),
        ("Token embedding", _embedding_rows()),
        (f"Operations per token, at {first.length} tokens", _flops_rows()),
        ("Weights", [_weight_row(precision) for precision in ("fp32", "bf16", "int8")]),
        (f"{training}, {shape}", _memory_rows()),
        (f"Data-parallel training, {first.processes} processes", _data_parallel_rows()),
    ]
    if first.memory is not None:
        fits = [_largest_batch_row(key) for key in ("without_recomputation", "with_recomputation")]
        sections.append((f"Largest batch in {first.memory}", fits))
    return sections


def _part_row(part: str, label: str) -> InfoRow:
    return label, lambda info: f"{getattr(info.parameters, part):,}"


def _weight_row(precision: str) -> InfoRow:
    return precision, lambda info: format_bytes(info.weight_bytes()[precision])


def _largest_batch_row(key: str) -> InfoRow:
    return key.replace(
        "_", " "
    ), lambda info: f"{info.largest_batch_sizes[key]:,}" if info.largest_batch_sizes else ""


def _data_parallel_rows() -> list[InfoRow]:
    return [
        ("gradients", lambda info: format_bytes(info.gradient_bytes)),
        ("sent per process and step", lambda info: format_bytes(info.sent_bytes)),
    ]


def _shape_rows() -> list[InfoRow]:
    return [
        ("layers", lambda info: str(info.model.layers)),
        ("hidden size H, heads", lambda info: f"{info.model.hidden_size:,}, {info.model.heads}"),
        ("embedding size E", lambda info: f"{info.model.embedding_size:,}"),
        ("feed-forward size", lambda info: f"{info.model.effective_ffn_size:,}"),
        ("vocabulary V", lambda info: f"{info.model.vocab_size:,}"),
        ("shared, groups", lambda info: f"{info.model.share}, {info.model.groups}"),
    ]


def _parameter_rows(reports: Sequence[ModelInfo]) -> list[InfoRow]:
    heads = [part for part in _HEAD_LABELS if any(getattr(info.parameters, part) for info in reports)]
    return [
        *(_part_row(part, label) for part, label in _PARAMETER_LABELS.items()),
        ("encoder", lambda info: f"{info.parameters.encoder:,}"),
        *(_part_row(part, _HEAD_LABELS[part]) for part in heads),
        ("total", lambda info: f"{info.parameters.total:,}"),
        ("by the paper's count", lambda info: f"{info.paper_count:,}"),
        ("encoder of same-shape BERT", lambda info: f"{info.bert_encoder_count:,} ({_bert_fraction(info)})"),
    ]


def _embedding_rows() -> list[InfoRow]:
    return [
        ("V x H, not factorized", lambda info: f"{info.embedding_unfactorized:,}"),
        ("V x E + E x H", lambda info: f"{info.embedding_factorized:,}"),
    ]


def _flops_rows() -> list[InfoRow]:
    return [
        ("forward", lambda info: format_flops(info.flops.forward_per_token)),
        ("of it, attention scores", lambda info: format_flops(info.flops.attention_per_token)),
        ("pre-training heads", lambda info: format_flops(info.flops.heads_per_token)),
        ("training", lambda info: format_flops(info.flops.training_per_token)),
        (
            "training with recomputation",
            lambda info: format_flops(info.flops.training_with_recomputation_per_token),
        ),
    ]


def _memory_rows() -> list[InfoRow]:
    return [
        ("weights", lambda info: format_bytes(info.training_memory.weights)),
        ("gradients", lambda info: format_bytes(info.training_memory.gradients)),
        ("optimizer", lambda info: format_bytes(info.training_memory.optimizer)),
        ("activations", lambda info: format_bytes(info.training_memory.activations)),
        (
            "activations with recomputation",
            lambda info: format_bytes(info.training_memory_recomputed.activations),
        ),
        ("total", lambda info: format_bytes(info.training_memory.total)),
        ("total with recomputation", lambda info: format_bytes(info.training_memory_recomputed.total)),
    ]


def _bert_fraction(info: ModelInfo) -> str:
    """Return the parameters of a model relative to the BERT of its shape, such as 1/18.9 or 1.5 times."""
    if info.bert_encoder_count == info.parameters.encoder:
        return "1"
    return f"1/{info.bert_ratio:.1f}" if info.bert_ratio > 1 else f"{1 / info.bert_ratio:.1f} times"
