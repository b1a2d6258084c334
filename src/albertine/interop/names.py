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

from albertine.model.plan import plan_of
from albertine.settings import HeadSettings, ModelSettings

Family = Literal["albert", "bert"]


@dataclass(frozen=True)
class Slot:
    """One of our parameters and its places in their checkpoint.

    Attributes:
        ours: our name.
        copies: each copy as the names of the tensors that make it, joined along rows.
    """

    ours: str
    copies: tuple[tuple[str, ...], ...]


def family_of(model: ModelSettings) -> Family:
    """Return the format that a model is written in: BERT where it can say it, else ALBERT."""
    plain = model.share == "none" and not model.projects
    return "bert" if plain else "albert"


def whole_groups(model: ModelSettings) -> int:
    """Return how many layer groups their ALBERT needs to hold a plan."""
    return model.groups if model.share == "all" else model.layers


def slots(model: ModelSettings, head: HeadSettings, family: Family) -> list[Slot]:
    """Return the slots of all our parameters."""
    encoder = [
        *_embedding(model, family),
        *(_albert_blocks(model) if family == "albert" else _bert_blocks(model)),
    ]
    return [*encoder, *_head(head, family)]


def _both(ours: str, theirs: str) -> Iterator[Slot]:
    """Yield weight and bias of one layer."""
    for part in ("weight", "bias"):
        yield Slot(f"{ours}.{part}", ((f"{theirs}.{part}",),))


def _embedding(model: ModelSettings, family: Family) -> Iterator[Slot]:
    ours, theirs = "encoder.embedding", f"{family}.embeddings"
    for one, other in (("tokens", "word"), ("positions", "position"), ("segments", "token_type")):
        yield Slot(f"{ours}.{one}.weight", ((f"{theirs}.{other}_embeddings.weight",),))
    yield from _both(f"{ours}.norm", f"{theirs}.LayerNorm")
    if model.projects:
        yield from _both(f"{ours}.projection", "albert.encoder.embedding_hidden_mapping_in")


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


def _albert_blocks(model: ModelSettings) -> Iterator[Slot]:
    groups = whole_groups(model)
    # For each of our blocks, the layers of theirs that repeat it.
    attention: dict[int, list[str]] = {}
    ffn: dict[int, list[str]] = {}
    for number, step in enumerate(plan_of(model)):
        layer, inner = divmod(number, model.inner_groups)
        group = layer * groups // model.layers
        place = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        for block, places in ((step.attention, attention), (step.ffn, ffn)):
            if place not in places.setdefault(block, []):
                places[block].append(place)
    yield from _blocks("attention", _ATTENTION["albert"], attention)
    yield from _blocks("ffn", _FFN["albert"], ffn)


def _bert_blocks(model: ModelSettings) -> Iterator[Slot]:
    places = {layer: [f"bert.encoder.layer.{layer}"] for layer in range(model.layers)}
    yield from _blocks("attention", _ATTENTION["bert"], places)
    yield from _blocks("ffn", _FFN["bert"], places)


def _blocks(room: str, table: Mapping[str, tuple[str, ...]], places: dict[int, list[str]]) -> Iterator[Slot]:
    for block, repeated in sorted(places.items()):
        for ours, theirs in table.items():
            for part in ("weight", "bias"):
                copies = tuple(tuple(f"{place}.{one}.{part}" for one in theirs) for place in repeated)
                yield Slot(f"encoder.{room}.{block}.{ours}.{part}", copies)


def _head(head: HeadSettings, family: Family) -> Iterator[Slot]:
    pooler = "albert.pooler" if family == "albert" else "bert.pooler.dense"
    if head.kind in ("pretrain", "classify", "regress", "choice"):
        yield from _both("head.pooler.dense", pooler)
    if head.kind == "pretrain":
        yield from _both(
            "head.pair", "sop_classifier.classifier" if family == "albert" else "cls.seq_relationship"
        )
        yield from _masked("head.masked", family)
    elif head.kind == "mlm":
        yield from _masked("head", family)
    elif head.kind == "span":
        yield from _both("head.out", "qa_outputs")
    else:
        yield from _both("head.out", "classifier")


def _masked(ours: str, family: Family) -> Iterator[Slot]:
    theirs = "predictions" if family == "albert" else "cls.predictions"
    transform = theirs if family == "albert" else f"{theirs}.transform"
    yield from _both(f"{ours}.dense", f"{transform}.dense")
    yield from _both(f"{ours}.norm", f"{transform}.LayerNorm")
    # Their decoder repeats the bias and the token embedding under names of its own; see `repeated`.
    yield Slot(f"{ours}.bias", ((f"{theirs}.bias",),))


def repeated(family: Family) -> dict[str, str]:
    """Return their tensors that only repeat another one, with the name of that one."""
    theirs = "predictions" if family == "albert" else "cls.predictions"
    return {
        f"{theirs}.decoder.weight": f"{family}.embeddings.word_embeddings.weight",
        f"{theirs}.decoder.bias": f"{theirs}.bias",
    }


_TASKS = {
    "pretrain": "PreTraining",
    "mlm": "MaskedLM",
    "classify": "SequenceClassification",
    "regress": "SequenceClassification",
    "span": "QuestionAnswering",
    "choice": "MultipleChoice",
    "token": "TokenClassification",
}


def architecture(family: Family, head: HeadSettings) -> str:
    """Return the name of their class for a head."""
    return ("Albert" if family == "albert" else "Bert") + "For" + _TASKS[head.kind]


def kinds_of(architecture_name: str) -> list[str]:
    """Return our heads that their class may be; the number of labels tells regression from classification."""
    task = architecture_name.partition("For")[2]
    return [kind for kind, name in _TASKS.items() if name == task]
