"""Reads Google's ALBERT checkpoints: `albert_config.json` and TensorFlow's index and data files.

Tensors get their names in `transformers`, so they load like a checkpoint of
`transformers`. A `kernel` is a transposed weight, `gelu` is the tanh approximation, and
optimizer state is skipped.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from albertine.errors import InputError
from albertine.interop.tensor_bundle import read_tensor_bundle
from albertine.interop.transformers_config import read_google_config

_OPTIMIZER = re.compile(
    r"(/(adam|lamb)_[mv](_\d+)?|^global_step|^_CHECKPOINTABLE_OBJECT_GRAPH|^save_counter.*)$"
)
# Patterns of names in Google's code and their names in `transformers`; the first match is applied.
_RENAMES = (
    (r"^bert/embeddings/(word|token_type|position)_embeddings$", r"albert.embeddings.\1_embeddings.weight"),
    (r"^bert/embeddings/LayerNorm/", "albert.embeddings.LayerNorm."),
    (r"^bert/encoder/embedding_hidden_mapping_in/", "albert.encoder.embedding_hidden_mapping_in."),
    (r"^bert/pooler/dense/", "albert.pooler."),
    (r"^cls/predictions/output_bias$", "predictions.bias"),
    (r"^cls/predictions/transform/(dense|LayerNorm)/", r"predictions.\1."),
    (r"^cls/seq_relationship/output_weights$", "sop_classifier.classifier.weight"),
    (r"^cls/seq_relationship/output_bias$", "sop_classifier.classifier.bias"),
)
_LAYER_RENAMES = (
    (r"attention_1/self/(query|key|value)/", r"attention.\1."),
    (r"attention_1/output/dense/", "attention.dense."),
    (r"ffn_1/intermediate/output/dense/", "ffn_output."),
    (r"ffn_1/intermediate/dense/", "ffn."),
    (r"LayerNorm_1/", "full_layer_layer_norm."),
    (r"LayerNorm/", "attention.LayerNorm."),
)
_LAYER_NAME = re.compile(
    r"^bert/encoder/transformer/group_(\d+)(?:_\d+)?/(?:layer_\d+/)?inner_group_(\d+)/(.*)$"
)
_WEIGHT_NAMES = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias", "weight": "weight"}


def read_google_checkpoint(folder: Path) -> tuple[Mapping[str, Any], dict[str, Tensor], Path]:
    """Return config and tensors with the names of `transformers`, and the file that error messages name."""
    indices = sorted(folder.glob("*.index"))
    if len(indices) != 1:
        found = ", ".join(index.name for index in indices) or "none"
        raise InputError(
            f"{folder}: must hold exactly one *.index file of a TensorFlow checkpoint; found: {found}"
        )
    tensors = {}
    for name, tensor in read_tensor_bundle(indices[0].with_suffix("")).items():
        if not _OPTIMIZER.search(name):
            new_name = transformers_name(name.removeprefix("module/"))
            if new_name is None:
                raise InputError(
                    f"{indices[0]}: unexpected tensor {name}; only ALBERT checkpoints are supported"
                )
            tensors[new_name] = tensor.T.contiguous() if name.endswith("/kernel") else tensor
    has_pretraining_heads = "predictions.bias" in tensors and "sop_classifier.classifier.bias" in tensors
    architecture = "AlbertForPreTraining" if has_pretraining_heads else "AlbertModel"
    return read_google_config(folder) | {"architectures": [architecture]}, tensors, indices[0]


def transformers_name(name: str) -> str | None:
    """Return the name in `transformers` of a tensor in Google's checkpoint; None if it is unknown."""
    layer = _LAYER_NAME.match(name)
    if layer:
        group, inner, rest = layer.groups()
        prefix = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}."
        return _first_match(rest, _LAYER_RENAMES, prefix)
    return _first_match(name, _RENAMES, "")


def _first_match(name: str, renames: tuple[tuple[str, str], ...], prefix: str) -> str | None:
    """Return the new name by the first pattern that matches, with a prefix; None if there is none."""
    for pattern, replacement in renames:
        new_name, count = re.subn("^" + pattern.removeprefix("^"), replacement, name)
        if count:
            module, dot, part = new_name.rpartition(".")
            return prefix + module + dot + _WEIGHT_NAMES[part] if part in _WEIGHT_NAMES else None
    return None
