"""Maps our parameter names to the tensor names of `transformers`, for ALBERT and BERT.

The mapping is one to one with two exceptions. Query, key and value are one matrix here:
a parameter may consist of several tensors, concatenated along rows. And ALBERT in
`transformers` shares only whole layers: a model that shares only attention or only FFN
is written with one layer group per layer, so a parameter may have several copies.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from albertine.model.depth_plan import depth_plan
from albertine.settings import HeadSettings, ModelSettings

Family = Literal["albert", "bert"]


@dataclass(frozen=True)
class ParameterMapping:
    """The tensors in a checkpoint of `transformers` that hold one parameter.

    Attributes:
        name: name of the parameter in our model.
        copies: for each copy, the names of its tensors, which are concatenated along rows.
    """

    name: str
    copies: tuple[tuple[str, ...], ...]


def checkpoint_family(model: ModelSettings) -> Family:
    """Return the family that a model is saved as: BERT if it shares and projects nothing, else ALBERT."""
    plain = model.share == "none" and not model.has_projection
    return "bert" if plain else "albert"


def layer_group_count(model: ModelSettings) -> int:
    """Return the number of layer groups that ALBERT of `transformers` needs for a model."""
    return model.groups if model.share == "all" else model.layers


def parameter_mappings(model: ModelSettings, head: HeadSettings, family: Family) -> list[ParameterMapping]:
    """Return the tensor names of all parameters."""
    encoder = [
        *_embedding_mappings(model, family),
        *(_albert_mappings(model) if family == "albert" else _bert_mappings(model)),
    ]
    return [*encoder, *_head_mappings(head, family)]


def _weight_and_bias(ours: str, theirs: str) -> Iterator[ParameterMapping]:
    """Yield the mappings of the weight and bias of one module."""
    for part in ("weight", "bias"):
        yield ParameterMapping(f"{ours}.{part}", ((f"{theirs}.{part}",),))


def _embedding_mappings(model: ModelSettings, family: Family) -> Iterator[ParameterMapping]:
    ours, theirs = "encoder.embedding", f"{family}.embeddings"
    for table, their_table in (("tokens", "word"), ("positions", "position"), ("segments", "token_type")):
        yield ParameterMapping(f"{ours}.{table}.weight", ((f"{theirs}.{their_table}_embeddings.weight",),))
    yield from _weight_and_bias(f"{ours}.norm", f"{theirs}.LayerNorm")
    if model.has_projection:
        yield from _weight_and_bias(f"{ours}.projection", "albert.encoder.embedding_hidden_mapping_in")


# For each module of our blocks: the modules of a `transformers` layer that hold its tensors.
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
    # For each of our blocks: the prefixes of the `transformers` layers that hold a copy of it.
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
                copies = tuple(
                    tuple(f"{prefix}.{module}.{part}" for module in theirs) for prefix in block_prefixes
                )
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
    # The decoder stores the bias and the token embeddings a second time; see `tied_tensors`.
    yield ParameterMapping(f"{ours}.bias", ((f"{theirs}.bias",),))


def tied_tensors(family: Family) -> dict[str, str]:
    """Return the tied tensors of `transformers`: the name of each copy, with the name of its original."""
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
    """Return the name of the `transformers` class with a given head."""
    return ("Albert" if family == "albert" else "Bert") + "For" + _ARCHITECTURE_SUFFIXES[head.kind]


def head_kinds(name: str) -> list[str]:
    """Return the kinds of head that a class of `transformers` can have: two for SequenceClassification."""
    task = name.partition("For")[2]
    return [kind for kind, suffix in _ARCHITECTURE_SUFFIXES.items() if suffix == task]
