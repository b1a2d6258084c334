"""`config.json` of `transformers` to our settings and back.

What their format cannot say is kept under the key `albertine`, which they carry
along unread: the plan of depth, whether there is a projection, the head.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.interop.names import Family, architecture, family_of, kinds_of, whole_groups
from albertine.settings import HeadSettings, Layer, ModelSettings, read

_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}
# Their key, ours, and the value that their format means where the key is missing.
_ALBERT_KEYS = (
    ("vocab_size", "vocab_size", 30_000),
    ("embedding_size", "embedding_size", 128),
    ("hidden_size", "hidden_size", 4096),
    ("num_hidden_layers", "layers", 12),
    ("num_attention_heads", "heads", 64),
    ("intermediate_size", "ffn_size", 16_384),
    ("num_hidden_groups", "groups", 1),
    ("inner_group_num", "inner_groups", 1),
    ("max_position_embeddings", "max_length", 512),
    ("type_vocab_size", "segments", 2),
    ("layer_norm_eps", "norm_epsilon", 1e-12),
    ("hidden_dropout_prob", "dropout", 0),
    ("attention_probs_dropout_prob", "attention_dropout", 0),
)
_BERT_KEYS = (
    ("vocab_size", "vocab_size", 30_522),
    ("hidden_size", "embedding_size", 768),
    ("hidden_size", "hidden_size", 768),
    ("num_hidden_layers", "layers", 12),
    ("num_attention_heads", "heads", 12),
    ("intermediate_size", "ffn_size", 3072),
    ("max_position_embeddings", "max_length", 512),
    ("type_vocab_size", "segments", 2),
    ("layer_norm_eps", "norm_epsilon", 1e-12),
    ("hidden_dropout_prob", "dropout", 0.1),
    ("attention_probs_dropout_prob", "attention_dropout", 0.1),
)


def read_config(file: Path) -> Mapping[str, Any]:
    """Read a config.json."""
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; a checkpoint folder has a config.json") from None
    except ValueError as error:
        raise InputError(f"{file}: not JSON ({error}); get the file again") from None
    if not isinstance(config, dict):
        raise InputError(f"{file}: holds no table of settings")
    return config


def family_in(config: Mapping[str, Any], source: str) -> Family:
    """Return the family that a config names."""
    family = config.get("model_type")
    if family not in ("albert", "bert"):
        raise InputError(f"{source}: model_type {family!r} is not read here; albert and bert are")
    for key, needed in (("position_embedding_type", "absolute"), ("is_decoder", False)):
        if config.get(key, needed) != needed:
            raise InputError(f"{source}: {key} = {config[key]!r} is not read here; {needed!r} is")
    return "albert" if family == "albert" else "bert"


def model_in(config: Mapping[str, Any], source: str) -> ModelSettings:
    """Return the network as their format says it: whole layers, shared by groups or not at all."""
    family = family_in(config, source)
    keys = _ALBERT_KEYS if family == "albert" else _BERT_KEYS
    values = {ours: config.get(theirs, default) for theirs, ours, default in keys}
    act = config.get("hidden_act", "gelu_new" if family == "albert" else "gelu")
    if act not in _ACTIVATIONS:
        raise InputError(f"{source}: hidden_act {act!r} is not read here; {', '.join(_ACTIVATIONS)} are")
    values |= {"activation": _ACTIVATIONS[act], "share": "all" if family == "albert" else "none"}
    if family == "albert" and values["embedding_size"] == values["hidden_size"]:
        values["always_project"] = True
    return read(ModelSettings, Layer(values, source))


def plan_in(config: Mapping[str, Any], source: str) -> ModelSettings | None:
    """Return the network as we wrote it beside their keys, or None if we did not write this config."""
    kept = config.get("albertine")
    if not isinstance(kept, Mapping) or not isinstance(kept.get("model"), Mapping):
        return None
    return read(ModelSettings, Layer(kept["model"], source))


def head_in(config: Mapping[str, Any], source: str) -> HeadSettings | None:
    """Return the head that a config names; None for an encoder alone."""
    kept = config.get("albertine")
    if isinstance(kept, Mapping) and isinstance(kept.get("head"), Mapping):
        return read(HeadSettings, Layer(kept["head"], source))
    name = next(iter(config.get("architectures") or []), "")
    if name in ("AlbertModel", "BertModel", ""):
        return None
    kinds = kinds_of(name)
    if not kinds:
        raise InputError(f"{source}: architecture {name} is not read here; give head=... to take its encoder")
    labels = len(config["id2label"]) if "id2label" in config else int(config.get("num_labels", 2))
    kind = kinds[0]
    if kind == "classify" and (labels == 1 or config.get("problem_type") == "regression"):
        kind = "regress"
    single = kind in ("regress", "choice")
    dropout = config.get(
        "classifier_dropout_prob" if family_in(config, source) == "albert" else "classifier_dropout"
    )
    if dropout is None:
        dropout = 0.1 if family_in(config, source) == "albert" else config.get("hidden_dropout_prob", 0.1)
    values = {"kind": kind, "labels": 1 if single else labels, "dropout": dropout}
    return read(HeadSettings, Layer(values, source))


def config_of(model: ModelSettings, head: HeadSettings) -> dict[str, Any]:
    """Write settings as a config that `transformers` reads."""
    family = family_of(model)
    keys = _ALBERT_KEYS if family == "albert" else _BERT_KEYS
    values = {**dataclasses.asdict(model), "ffn_size": model.ffn, "groups": whole_groups(model)}
    config: dict[str, Any] = {
        "model_type": family,
        "architectures": [architecture(family, head)],
        **{theirs: values[ours] for theirs, ours, _ in keys},
        "hidden_act": "gelu_new" if model.activation == "gelu_tanh" else "gelu",
        "initializer_range": 0.02,
        "pad_token_id": 0,
        "classifier_dropout_prob" if family == "albert" else "classifier_dropout": head.dropout,
    }
    if head.kind in ("classify", "token", "regress"):
        config["id2label"] = {str(index): f"LABEL_{index}" for index in range(head.labels)}
        config["label2id"] = {f"LABEL_{index}": index for index in range(head.labels)}
    if head.kind == "regress":
        config["problem_type"] = "regression"
    kept = {key: value for key, value in dataclasses.asdict(model).items() if value is not None}
    config["albertine"] = {"model": kept, "head": dataclasses.asdict(head)}
    return config


def settings_in(folder: Path) -> ModelSettings:
    """Return the network of a checkpoint folder, from its config alone."""
    file = folder / "config.json"
    config = read_config(file)
    return plan_in(config, str(file)) or model_in(config, str(file))
