"""What `transformers` calls our tensors, for ALBERT and for BERT.

A table of slots, one for each of our parameters. Two things are not one to one.
Our query, key and value are one matrix: a slot may name several of their
tensors, joined along rows. And their ALBERT has only whole shared layers: a plan
that shares half of a layer is written with a layer group for each layer, so a
slot may name several copies of itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from albertine.model.depth_plan import depth_plan
from albertine.settings import HeadSettings, ModelSettings

Family = Literal["albert", "bert"]


@dataclass(frozen=True)
class ParameterMapping:
    """One of our parameters and its places in their checkpoint.

    Attributes:
        name: our name.
        copies: each copy as the names of the tensors that make it, joined along rows.
    """

    name: str
    copies: tuple[tuple[str, ...], ...]


def checkpoint_family(model: ModelSettings) -> Family:
    """Return the format that a model is written in: BERT where it can say it, else ALBERT."""
    plain = model.share == "none" and not model.has_projection
    return "bert" if plain else "albert"


def layer_group_count(model: ModelSettings) -> int:
    """Return how many layer groups their ALBERT needs to hold a plan."""
    return model.groups if model.share == "all" else model.layers


def parameter_mappings(model: ModelSettings, head: HeadSettings, family: Family) -> list[ParameterMapping]:
    """Return the slots of all our parameters."""
    encoder = [
        *_embedding_mappings(model, family),
        *(_albert_mappings(model) if family == "albert" else _bert_mappings(model)),
    ]
    return [*encoder, *_head_mappings(head, family)]


def _weight_and_bias(ours: str, theirs: str) -> Iterator[ParameterMapping]:
    """Yield weight and bias of one layer."""
    for part in ("weight", "bias"):
        yield ParameterMapping(f"{ours}.{part}", ((f"{theirs}.{part}",),))


def _embedding_mappings(model: ModelSettings, family: Family) -> Iterator[ParameterMapping]:
    ours, theirs = "encoder.embedding", f"{family}.embeddings"
    for one, other in (("tokens", "word"), ("positions", "position"), ("segments", "token_type")):
        yield ParameterMapping(f"{ours}.{one}.weight", ((f"{theirs}.{other}_embeddings.weight",),))
    yield from _weight_and_bias(f"{ours}.norm", f"{theirs}.LayerNorm")
    if model.has_projection:
        yield from _weight_and_bias(f"{ours}.projection", "albert.encoder.embedding_hidden_mapping_in")


# Our layer inside a block, and theirs inside a layer; three names are joined into one matrix.
_ATTENTION = {
    "albert": {
        "qkv": ("attention.query", "attention.key", "attention.value"),
        "out": ("attention.dense",),
        "norm": ("attention.LayerNorm",),
    },
    "bert": {
        "qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
        "out": ("attention.output.dense",),
        "norm": ("attention.output.LayerNorm",),
    },
}
_FFN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "albert": {"up": ("ffn",), "down": ("ffn_output",), "norm": ("full_layer_layer_norm",)},
    "bert": {"up": ("intermediate.dense",), "down": ("output.dense",), "norm": ("output.LayerNorm",)},
}


def _albert_mappings(model: ModelSettings) -> Iterator[ParameterMapping]:
    groups = layer_group_count(model)
    # For each of our blocks, the layers of theirs that repeat it.
    attention: dict[int, list[str]] = {}
    ffn: dict[int, list[str]] = {}
    for number, blocks in enumerate(depth_plan(model)):
        layer, inner = divmod(number, model.inner_groups)
        group = layer * groups // model.layers
        prefix = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        for block, prefixes in ((blocks.attention, attention), (blocks.ffn, ffn)):
            if prefix not in prefixes.setdefault(block, []):
                prefixes[block].append(prefix)
    yield from _block_mappings("attention", _ATTENTION["albert"], attention)
    yield from _block_mappings("ffn", _FFN["albert"], ffn)


def _bert_mappings(model: ModelSettings) -> Iterator[ParameterMapping]:
    prefixes = {layer: [f"bert.encoder.layer.{layer}"] for layer in range(model.layers)}
    yield from _block_mappings("attention", _ATTENTION["bert"], prefixes)
    yield from _block_mappings("ffn", _FFN["bert"], prefixes)


def _block_mappings(
    component: str, table: Mapping[str, tuple[str, ...]], prefixes: dict[int, list[str]]
) -> Iterator[ParameterMapping]:
    for block, block_prefixes in sorted(prefixes.items()):
        for ours, theirs in table.items():
            for part in ("weight", "bias"):
                copies = tuple(tuple(f"{place}.{one}.{part}" for one in theirs) for place in block_prefixes)
                yield ParameterMapping(f"encoder.{component}.{block}.{ours}.{part}", copies)


def _head_mappings(head: HeadSettings, family: Family) -> Iterator[ParameterMapping]:
    pooler = "albert.pooler" if family == "albert" else "bert.pooler.dense"
    if head.kind in ("pretrain", "classify", "regress", "choice"):
        yield from _weight_and_bias("head.pooler.dense", pooler)
    if head.kind == "pretrain":
        yield from _weight_and_bias(
            "head.pair", "sop_classifier.classifier" if family == "albert" else "cls.seq_relationship"
        )
        yield from _masked_lm_mappings("head.masked", family)
    elif head.kind == "mlm":
        yield from _masked_lm_mappings("head", family)
    elif head.kind == "span":
        yield from _weight_and_bias("head.out", "qa_outputs")
    else:
        yield from _weight_and_bias("head.out", "classifier")


def _masked_lm_mappings(ours: str, family: Family) -> Iterator[ParameterMapping]:
    theirs = "predictions" if family == "albert" else "cls.predictions"
    transform = theirs if family == "albert" else f"{theirs}.transform"
    yield from _weight_and_bias(f"{ours}.dense", f"{transform}.dense")
    yield from _weight_and_bias(f"{ours}.norm", f"{transform}.LayerNorm")
    # Their decoder repeats the bias and the token embedding under names of its own; see `repeated`.
    yield ParameterMapping(f"{ours}.bias", ((f"{theirs}.bias",),))


def tied_tensors(family: Family) -> dict[str, str]:
    """Return their tensors that only repeat another one, with the name of that one."""
    theirs = "predictions" if family == "albert" else "cls.predictions"
    return {
        f"{theirs}.decoder.weight": f"{family}.embeddings.word_embeddings.weight",
        f"{theirs}.decoder.bias": f"{theirs}.bias",
    }


_ARCHITECTURE_SUFFIXES = {
    "pretrain": "PreTraining",
    "mlm": "MaskedLM",
    "classify": "SequenceClassification",
    "regress": "SequenceClassification",
    "span": "QuestionAnswering",
    "choice": "MultipleChoice",
    "token": "TokenClassification",
}


def architecture_name(family: Family, head: HeadSettings) -> str:
    """Return the name of their class for a head."""
    return ("Albert" if family == "albert" else "Bert") + "For" + _ARCHITECTURE_SUFFIXES[head.kind]


def head_kinds(name: str) -> list[str]:
    """Return our heads that their class may be; the number of labels tells regression from classification."""
    task = name.partition("For")[2]
    return [kind for kind, suffix in _ARCHITECTURE_SUFFIXES.items() if suffix == task]
