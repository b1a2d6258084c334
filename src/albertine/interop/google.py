"""Reads checkpoints of Google's code for ALBERT and BERT: a config, and TensorFlow's index and data files.

Tensors get their names in `transformers`, so that they load like a checkpoint of
`transformers`. A `kernel` is a transposed weight, and optimizer state is skipped. Heads that
`transformers` has are read, also those of fine-tuned models; tensors of other heads are
ignored with a message. See docs/decisions/tensorflow-checkpoints.md.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from albertine import progress
from albertine.display import display_long
from albertine.errors import InputError
from albertine.interop.tensor_bundle import read_tensor_bundle
from albertine.interop.tensor_names import Family
from albertine.interop.transformers_config import read_google_config

_OPTIMIZER = re.compile(
    r"(/(adam|lamb)_[mv](_\d+)?|/Adam(_\d+)?|^beta[12]_power|^loss_scale|^good_steps"
    r"|^global_step|^_CHECKPOINTABLE_OBJECT_GRAPH|^save_counter.*)$"
)
_Renames = tuple[tuple[str, str], ...]
# Patterns of names in Google's code and their names in `transformers`; the first match is applied.
_TASK_RENAMES: _Renames = (
    (r"^output_(weights|bias)$", r"classifier.\1"),
    (r"^cls/squad/output_(weights|bias)$", r"qa_outputs.\1"),
)
_ALBERT_RENAMES: _Renames = (
    *_TASK_RENAMES,
    (r"^bert/embeddings/(word|token_type|position)_embeddings$", r"albert.embeddings.\1_embeddings.weight"),
    (r"^bert/embeddings/LayerNorm/", "albert.embeddings.LayerNorm."),
    (r"^bert/encoder/embedding_hidden_mapping_in/", "albert.encoder.embedding_hidden_mapping_in."),
    (r"^bert/pooler/dense/", "albert.pooler."),
    (r"^cls/predictions/output_bias$", "predictions.bias"),
    (r"^cls/predictions/transform/(dense|LayerNorm)/", r"predictions.\1."),
    (r"^cls/seq_relationship/output_(weights|bias)$", r"sop_classifier.classifier.\1"),
)
_ALBERT_LAYER_RENAMES: _Renames = (
    (r"attention_1/self/(query|key|value)/", r"attention.\1."),
    (r"attention_1/output/dense/", "attention.dense."),
    (r"ffn_1/intermediate/output/dense/", "ffn_output."),
    (r"ffn_1/intermediate/dense/", "ffn."),
    (r"LayerNorm_1/", "full_layer_layer_norm."),
    (r"LayerNorm/", "attention.LayerNorm."),
)
_ALBERT_LAYER_NAME = re.compile(
    r"^bert/encoder/transformer/group_(\d+)(?:_\d+)?/(?:layer_\d+/)?inner_group_(\d+)/(.*)$"
)
_BERT_RENAMES: _Renames = (
    *_TASK_RENAMES,
    (r"^bert/embeddings/(word|token_type|position)_embeddings$", r"bert.embeddings.\1_embeddings.weight"),
    (r"^bert/embeddings/LayerNorm/", "bert.embeddings.LayerNorm."),
    (
        r"^bert/encoder/layer_(\d+)/attention/self/(query|key|value)/",
        r"bert.encoder.layer.\1.attention.self.\2.",
    ),
    (
        r"^bert/encoder/layer_(\d+)/attention/output/(dense|LayerNorm)/",
        r"bert.encoder.layer.\1.attention.output.\2.",
    ),
    (r"^bert/encoder/layer_(\d+)/intermediate/dense/", r"bert.encoder.layer.\1.intermediate.dense."),
    (r"^bert/encoder/layer_(\d+)/output/(dense|LayerNorm)/", r"bert.encoder.layer.\1.output.\2."),
    (r"^bert/pooler/dense/", "bert.pooler.dense."),
    (r"^cls/predictions/output_bias$", "cls.predictions.bias"),
    (r"^cls/predictions/transform/(dense|LayerNorm)/", r"cls.predictions.transform.\1."),
    (r"^cls/seq_relationship/output_(weights|bias)$", r"cls.seq_relationship.\1"),
)
_WEIGHT_NAMES = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}
_WEIGHT_NAMES |= {"weight": "weight", "weights": "weight"}


def read_google_checkpoint(config_file: Path) -> tuple[Mapping[str, Any], dict[str, Tensor], Path]:
    """Return config and tensors with the names of `transformers`, and the file that error messages name.

    Args:
        config_file: the config; the index and data files are beside it.
    """
    folder = config_file.parent
    config = read_google_config(config_file)
    index = _find_index(folder)
    tensors, ignored = {}, []
    for stored_name, tensor in read_tensor_bundle(index.with_suffix("")).items():
        name = stored_name.removeprefix("module/")  # of TensorFlow Hub
        if _OPTIMIZER.search(name):
            continue
        new_name = transformers_name(name, config["model_type"])
        if new_name is not None:
            tensors[new_name] = tensor.T.contiguous() if name.endswith("/kernel") else tensor
        elif name.startswith("bert/"):
            raise InputError(
                f"{index}: unexpected tensor {display_long(stored_name)}; "
                f"the model of {config_file.name} has no such layer"
            )
        else:
            ignored.append(name)
    if not tensors:
        found = display_long(ignored[0]) if ignored else "none"
        raise InputError(
            f"{index}: not a checkpoint of Google's code for TensorFlow 1, whose tensors have names such as "
            f"bert/embeddings/word_embeddings; found: {found}"
        )
    if ignored:
        names = ", ".join(display_long(name) for name in ignored[:3]) + (", ..." if len(ignored) > 3 else "")
        progress.print_message(
            f"{folder}: {len(ignored)} tensors of an unsupported head are ignored: {names}"
        )
    return _with_head(config, tensors, config_file), tensors, index


def _find_index(folder: Path) -> Path:
    indices = sorted(folder.glob("*.index"))
    if len(indices) != 1:
        found = ", ".join(index.name for index in indices) or "none"
        raise InputError(
            f"{folder}: must hold exactly one *.index file of a TensorFlow checkpoint; found: {found}"
        )
    return indices[0]


def _with_head(config: dict[str, Any], tensors: Mapping[str, Tensor], config_file: Path) -> dict[str, Any]:
    """Return the config with the class of `transformers` that has the head, and its number of labels.

    Google's configs do not name the head, so its tensors decide. They are ambiguous: the output layer of
    a tagger has the shape of a classifier's, and that of a multiple-choice model the shape of a
    regression's. Users can name the class under "architectures" in the config.
    """
    family = "Albert" if config["model_type"] == "albert" else "Bert"
    predictions_bias, pair_bias = (
        ("predictions.bias", "sop_classifier.classifier.bias")
        if family == "Albert"
        else ("cls.predictions.bias", "cls.seq_relationship.bias")
    )
    heads: tuple[tuple[set[str], str], ...] = (
        ({"qa_outputs.weight", "qa_outputs.bias"}, "ForQuestionAnswering"),
        ({"classifier.weight", "classifier.bias"}, "ForSequenceClassification"),
        ({predictions_bias, pair_bias}, "ForPreTraining"),
        ({predictions_bias}, "ForMaskedLM"),
        (set(), "Model"),
    )
    suffix = next(suffix for names, suffix in heads if names <= tensors.keys())
    labels = {"num_labels": tensors["classifier.bias"].numel()} if "classifier.bias" in tensors else {}
    if labels == {"num_labels": 1} and "architectures" not in config:
        progress.print_message(
            f"{config_file.parent}: the output layer has one row, so the head is a regression; for a "
            f'multiple-choice model add "architectures": ["{family}ForMultipleChoice"] to {config_file.name}'
        )
    return {"architectures": [family + suffix]} | labels | config


def transformers_name(name: str, family: Family) -> str | None:
    """Return the name in `transformers` of a tensor in Google's checkpoint; None if it is unknown."""
    layer = _ALBERT_LAYER_NAME.match(name)
    if layer and family == "albert":
        group, inner, rest = layer.groups()
        prefix = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}."
        return _first_match(rest, _ALBERT_LAYER_RENAMES, prefix)
    return _first_match(name, _ALBERT_RENAMES if family == "albert" else _BERT_RENAMES, "")


def _first_match(name: str, renames: _Renames, prefix: str) -> str | None:
    """Return the prefix and the new name by the first pattern that matches; None if none does."""
    for pattern, replacement in renames:
        new_name, count = re.subn("^" + pattern.removeprefix("^"), replacement, name)
        if count:
            module, dot, part = new_name.rpartition(".")
            return prefix + module + dot + _WEIGHT_NAMES[part] if part in _WEIGHT_NAMES else None
    return None
