"""Maps Albertine's parameter names to the tensor names of `transformers`, for ALBERT and BERT.

The mapping is one to one with two exceptions. Query, key and value are one matrix in
Albertine, so a parameter may consist of several tensors, concatenated along rows. ALBERT
in `transformers` shares only whole layers, so a model that shares only attention or only
FFN is saved with one layer group per layer, and a shared parameter has several copies.

Local names without "transformers" are those of Albertine.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from albertine.model.depth_plan import depth_plan
from albertine.model.step_shapes import STEP_DIFFERENCES_PREFIX, matrix_shapes, vector_sizes
from albertine.settings import HeadSettings, ModelSettings

Family = Literal["albert", "bert"]


@dataclass(frozen=True)
class ParameterMapping:
    """The tensors in a checkpoint of `transformers` that hold one parameter.

    Attributes:
        name: name of the parameter in Albertine.
        copies: for each copy, the names of its tensors, which are concatenated along rows.
        file: file of its own for a layer that `transformers` lacks; None for the file of the model.
    """

    name: str
    copies: tuple[tuple[str, ...], ...]
    file: str | None = None


def checkpoint_family(model: ModelSettings) -> Family:
    """Return the family that a model is saved as: BERT if it shares and projects nothing, else ALBERT.

    A model that brings its modelling file is saved as ALBERT.
    """
    is_bert = model.share == "none" and not model.has_projection and model.is_published_architecture
    return "bert" if is_bert else "albert"


def layer_group_count(model: ModelSettings) -> int:
    """Return the number of layer groups with which a model is saved as ALBERT of `transformers`."""
    return model.groups if model.share == "all" else model.layers


def parameter_mappings(model: ModelSettings, head: HeadSettings, family: Family) -> list[ParameterMapping]:
    """Return the tensor names of all parameters."""
    encoder = [
        *_embedding_mappings(model, family),
        *(_albert_mappings(model) if family == "albert" else _bert_mappings(model)),
    ]
    head_mappings = list(_head_mappings(head, family))
    return [*encoder, *head_mappings, *_exit_mappings(model, head, head_mappings)]


def _weight_and_bias(module: str, transformers_module: str) -> Iterator[ParameterMapping]:
    """Yield the mappings of the weight and bias of one module."""
    for part in ("weight", "bias"):
        yield ParameterMapping(f"{module}.{part}", ((f"{transformers_module}.{part}",),))


def _embedding_mappings(model: ModelSettings, family: Family) -> Iterator[ParameterMapping]:
    module, transformers_module = "encoder.embedding", f"{family}.embeddings"
    for table, transformers_table in (
        ("tokens", "word_embeddings"),
        ("positions", "position_embeddings"),
        ("segments", "token_type_embeddings"),
    ):
        if table == "positions" and model.rotary:
            continue
        yield ParameterMapping(
            f"{module}.{table}.weight", ((f"{transformers_module}.{transformers_table}.weight",),)
        )
    if model.mark_matches:
        yield ParameterMapping(f"{module}.match", ((f"{transformers_module}.match",),))
    yield from _weight_and_bias(f"{module}.norm", f"{transformers_module}.LayerNorm")
    if model.has_projection:
        yield from _weight_and_bias(f"{module}.projection", "albert.encoder.embedding_hidden_mapping_in")


# For each module of a block: the modules in a layer of `transformers` that hold its tensors.
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
    # For each block: the prefixes of the layers of `transformers` that hold a copy of it.
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
    if model.norm_first:
        yield from _weight_and_bias("encoder.last_norm", "albert.encoder.last_norm")
    if model.step_signal:
        yield ParameterMapping("encoder.step_signal.gain", (("albert.encoder.step_signal.gain",),))
    if model.depth_rule == "halting":
        yield from _weight_and_bias("encoder.halting.unit", "albert.encoder.halting.unit")
    yield from _step_difference_mappings(model)


def _step_difference_mappings(model: ModelSettings) -> Iterator[ParameterMapping]:
    """Yield the mappings of what layers have of their own, for which our modelling file has our names."""
    names: list[str] = []
    if model.step_rank:
        names += [f"matrices.{name}.{part}" for name in matrix_shapes(model) for part in ("inner", "outer")]
    if model.step_vectors:
        attention, ffn = vector_sizes(model)
        names += [f"attention_vectors.{name}" for name in attention]
        names += [f"ffn_vectors.{name}" for name in ffn]
    for name in names:
        yield ParameterMapping(
            f"{STEP_DIFFERENCES_PREFIX}{name}", ((f"albert.{STEP_DIFFERENCES_PREFIX}{name}",),)
        )


def _bert_mappings(model: ModelSettings) -> Iterator[ParameterMapping]:
    prefixes = {layer: [f"bert.encoder.layer.{layer}"] for layer in range(model.layers)}
    yield from _block_mappings("attention", _ATTENTION["bert"], prefixes)
    yield from _block_mappings("ffn", _FFN["bert"], prefixes)


def _block_mappings(
    component: str, table: Mapping[str, tuple[str, ...]], prefixes: dict[int, list[str]]
) -> Iterator[ParameterMapping]:
    for block, block_prefixes in sorted(prefixes.items()):
        for module, transformers_modules in table.items():
            for part in ("weight", "bias"):
                copies = tuple(
                    tuple(f"{prefix}.{name}.{part}" for name in transformers_modules)
                    for prefix in block_prefixes
                )
                yield ParameterMapping(f"encoder.{component}.{block}.{module}.{part}", copies)


ANSWERABLE_FILE, EXITS_FILE = "answerable.safetensors", "exits.safetensors"
CO_MATCHING_FILE, MATCHING_FILE = "co_matching.safetensors", "matching.safetensors"
# The layers that `transformers` lacks, by the file that they are saved in.
_OWN_LAYERS = {
    ANSWERABLE_FILE: ("answerable.weight", "answerable.bias"),
    CO_MATCHING_FILE: (
        "attention.weight",
        *(f"{layer}.{part}" for layer in ("first", "second", "gate", "out") for part in ("weight", "bias")),
    ),
    MATCHING_FILE: (
        *(f"matching.{name}" for name in ("query.weight", "key.weight", "dense.weight", "dense.bias")),
        "out.weight",
        "out.bias",
    ),
}


def _own_layer_mappings(file: str) -> Iterator[ParameterMapping]:
    for name in _OWN_LAYERS[file]:
        yield ParameterMapping(f"head.{name}", ((name,),), file)


def _head_mappings(head: HeadSettings, family: Family) -> Iterator[ParameterMapping]:
    if head.co_matching:
        yield from _own_layer_mappings(CO_MATCHING_FILE)
        return
    pooler = "albert.pooler" if family == "albert" else "bert.pooler.dense"
    if head.kind in ("pretrain", "classify", "multi-label", "regress", "choice"):
        yield from _weight_and_bias("head.pooler.dense", pooler)
    if head.matching:
        yield from _own_layer_mappings(MATCHING_FILE)
    elif head.kind == "pretrain":
        yield from _weight_and_bias(
            "head.pair", "sop_classifier.classifier" if family == "albert" else "cls.seq_relationship"
        )
        yield from _masked_lm_mappings("head.masked", family)
    elif head.kind == "mlm":
        yield from _masked_lm_mappings("head", family)
    elif head.kind == "span":
        yield from _weight_and_bias("head.out", "qa_outputs")
        if head.answerable:
            yield from _own_layer_mappings(ANSWERABLE_FILE)
    else:
        yield from _weight_and_bias("head.out", "classifier")


def _exit_mappings(
    model: ModelSettings, head: HeadSettings, head_mappings: Iterable[ParameterMapping]
) -> Iterator[ParameterMapping]:
    """Yield the mappings of the heads of all steps but the last and of the exit unit, if it has them."""
    for step in range(model.layers - 1 if head.exits == "own" else 0):
        for mapping in head_mappings:
            name = f"exit_heads.{step}.{mapping.name.removeprefix('head.')}"
            yield ParameterMapping(name, ((name,),), EXITS_FILE)
    if head.learned_exit:
        for layer in ("dense", "out"):
            for part in ("weight", "bias"):
                name = f"exit_unit.{layer}.{part}"
                yield ParameterMapping(name, ((name,),), EXITS_FILE)


def _masked_lm_mappings(module: str, family: Family) -> Iterator[ParameterMapping]:
    predictions = _predictions_module(family)
    transform = predictions if family == "albert" else f"{predictions}.transform"
    yield from _weight_and_bias(f"{module}.dense", f"{transform}.dense")
    yield from _weight_and_bias(f"{module}.norm", f"{transform}.LayerNorm")
    # The decoder stores the bias and the token embeddings a second time; see `tied_tensors`.
    yield ParameterMapping(f"{module}.bias", ((f"{predictions}.bias",),))


def _predictions_module(family: Family) -> str:
    return "predictions" if family == "albert" else "cls.predictions"


def tied_tensors(family: Family) -> dict[str, str]:
    """Return the names of the tied tensors of `transformers`: the original of each copy, by the copy."""
    predictions = _predictions_module(family)
    return {
        f"{predictions}.decoder.weight": f"{family}.embeddings.word_embeddings.weight",
        f"{predictions}.decoder.bias": f"{predictions}.bias",
    }


ARCHITECTURE_SUFFIXES = {
    "pretrain": "PreTraining",
    "mlm": "MaskedLM",
    "classify": "SequenceClassification",
    "regress": "SequenceClassification",
    "multi-label": "SequenceClassification",
    "span": "QuestionAnswering",
    "choice": "MultipleChoice",
    "token": "TokenClassification",
}


# The pair layer of pre-training alone: a classifier of two labels, whose tensors have another name.
NEXT_SENTENCE_ARCHITECTURE = "BertForNextSentencePrediction"
NEXT_SENTENCE_RENAMES = {f"cls.seq_relationship.{part}": f"classifier.{part}" for part in ("weight", "bias")}


def architecture_name(family: Family | Literal["albertine"], head: HeadSettings) -> str:
    """Return the name of the class of `transformers`, or of our modelling file, that has a given head."""
    return f"{family.capitalize()}For{ARCHITECTURE_SUFFIXES[head.kind]}"


def head_kinds(name: str) -> list[str]:
    """Return the kinds of head that a class of `transformers` may have: three for SequenceClassification."""
    if name == NEXT_SENTENCE_ARCHITECTURE:
        return ["classify"]
    task = name.partition("For")[2]
    return [kind for kind, suffix in ARCHITECTURE_SUFFIXES.items() if suffix == task]
