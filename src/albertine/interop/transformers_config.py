"""Converts `config.json` of `transformers` to settings and back.

The key "albertine" stores all settings, because the format of `transformers` cannot
express some of them: the sharing of single blocks, a missing projection, details of the
head. `transformers` keeps the key but ignores it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from albertine import progress
from albertine.display import display_text, display_value
from albertine.errors import InputError
from albertine.input_files import read_json_object
from albertine.interop.export_record import COPY_AGAIN, EXPORT_FILE, exported_graph
from albertine.interop.tensor_names import (
    ARCHITECTURE_SUFFIXES,
    NEXT_SENTENCE_ARCHITECTURE,
    Family,
    architecture_name,
    checkpoint_family,
    head_kinds,
    layer_group_count,
)
from albertine.settings import HeadSettings, ModelSettings, SettingsSource, build_settings

# Name of the config in checkpoints of Google's code, and the family that it describes.
_GOOGLE_CONFIGS: Mapping[str, Family] = {"albert_config.json": "albert", "bert_config.json": "bert"}
MODELING_FILE = "modeling_albertine.py"  # copied into folders that depart from published ALBERT
# The names of `transformers`; several stand for the same function, computed in another way.
_ACTIVATIONS = {"gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh"}
_ACTIVATIONS |= {"gelu_pytorch_tanh": "gelu_tanh", "gelu_accurate": "gelu_tanh"}
# Without a problem type, `transformers` chooses the loss of these heads by the labels of the first batch.
_LABELED_KINDS = ("classify", "multi-label", "token")
_MULTI_LABEL = "multi_label_classification"
_PROBLEM_TYPES = {
    "classify": "single_label_classification",
    "regress": "regression",
    "multi-label": _MULTI_LABEL,
}
_FIXED_LABEL_COUNTS = {"regress": 1, "choice": 1, "pretrain": 2, "mlm": 2, "span": 2}
# Key in `transformers`, name in `ModelSettings`, and the default of `transformers`.
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
# Settings that a changed key of `transformers` may replace, because the layers stay the same.
_CHANGEABLE_SETTINGS = {"vocab_size", "max_length", "segments", "activation", "norm_epsilon"}
_CHANGEABLE_SETTINGS |= {"dropout", "attention_dropout"}
# Of a model that departs from published ALBERT; `transformers` runs it with the modelling file in its folder.
_ALBERTINE: Literal["albertine"] = "albertine"
_ALBERTINE_KEYS = (
    ("depth_rule", "depth_rule", "fixed"),
    ("step_signal", "step_signal", False),
    ("halting_cost", "halting_cost", 0.01),
    ("rotary", "rotary", False),
    ("norm_first", "norm_first", False),
    ("mark_matches", "mark_matches", False),
    ("step_rank", "step_rank", 0),
    ("step_vectors", "step_vectors", False),
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


# Folders that are easily given in place of a model, by a file that each has.
_OTHER_FOLDERS = {
    "manifest.json": "a corpus, on which `albertine pretrain --corpus` trains a model",
    "tokenizer.json": "a tokenizer",
}


def read_config(file: Path) -> Mapping[str, Any]:
    """Return the content of a `config.json`; raise `InputError` if it cannot be read."""
    try:
        return read_json_object(file, "get the file again")
    except OSError as error:
        _refuse_other_folder(file, error)
        raise InputError(f"{file}: {error.strerror}; a checkpoint folder needs a config.json") from None


def _refuse_other_folder(file: Path, error: OSError) -> None:
    """Raise `InputError` if a config is missing in a folder that is not a checkpoint."""
    folder = file.parent
    if not isinstance(error, FileNotFoundError) or any(folder.glob("*.safetensors")):
        return
    if (folder / EXPORT_FILE).exists() or exported_graph(folder):
        raise InputError(f"{file}: missing in an export; {COPY_AGAIN}") from None
    if any(folder.glob("*.bin")):
        return
    for name, description in _OTHER_FOLDERS.items():
        if (folder / name).exists():
            raise InputError(f"{folder}: {description}; name a model") from None


def _displayed(value: object) -> str:
    return display_text(repr(value))


def model_family(config: Mapping[str, Any], source: str) -> Family:
    """Return the model family of a config; raise `InputError` if it is not supported."""
    family = config.get("model_type")
    if family not in ("albert", "bert", _ALBERTINE):
        raise InputError(
            f"{source}: model_type {_displayed(family)} is not supported; supported: albert, bert, albertine"
        )
    for key, required in (("position_embedding_type", "absolute"), ("is_decoder", False)):
        if config.get(key) not in (None, required):
            raise InputError(
                f"{source}: {key} = {_displayed(config[key])} is not supported; must be {required!r}"
            )
    return "bert" if family == "bert" else "albert"


def model_settings_from_config(config: Mapping[str, Any], source: str) -> ModelSettings:
    """Return the model settings that the keys of `transformers` describe; `share` is "all" or "none"."""
    family = model_family(config, source)
    keys: list[tuple[str, str, Any]] = list(_ALBERT_KEYS if family == "albert" else _BERT_KEYS)
    if config.get("model_type") == _ALBERTINE:
        keys += _ALBERTINE_KEYS
    values = {name: config.get(key, default) for key, name, default in keys}
    activation = config.get("hidden_act", "gelu_new" if family == "albert" else "gelu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise InputError(
            f"{source}: hidden_act {_displayed(activation)} is not supported; "
            f"supported: {', '.join(_ACTIVATIONS)}"
        )
    values |= {"activation": _ACTIVATIONS[activation], "share": "all" if family == "albert" else "none"}
    if family == "albert" and values["embedding_size"] == values["hidden_size"]:
        values["always_project"] = True
    key_names = {name: key for key, name, _ in keys}
    return build_settings(ModelSettings, SettingsSource(values, source, key_names))


def saved_model_settings(config: Mapping[str, Any], source: str) -> ModelSettings | None:
    """Return the model settings stored under "albertine"; None if they are missing or out of date.

    They are out of date if other keys describe another network: `transformers` does not update
    "albertine" when it saves a changed model. Keys that leave the layers as they are replace the
    stored settings, such as a rate of dropout or the size of the vocabulary.
    """
    saved = config.get("albertine")
    if not isinstance(saved, Mapping) or not isinstance(saved.get("model"), Mapping):
        return None
    model = build_settings(ModelSettings, SettingsSource(saved["model"], source))
    expected = model_settings_from_config(transformers_config(model, HeadSettings()), source)
    found = model_settings_from_config(config, source)
    names = [field.name for field in dataclasses.fields(ModelSettings)]
    changed = {
        name: getattr(found, name) for name in names if getattr(found, name) != getattr(expected, name)
    }
    return dataclasses.replace(model, **changed) if changed.keys() <= _CHANGEABLE_SETTINGS else None


def head_settings_from_config(config: Mapping[str, Any], source: str) -> HeadSettings | None:
    """Return the settings of the head that a config names; None for an encoder without a head."""
    family = model_family(config, source)
    name = config_architecture(config, source)
    if name in ("AlbertModel", "BertModel", "AlbertineModel", ""):
        return None
    kinds = head_kinds(name)
    if not kinds:
        raise InputError(
            f"{source}: architecture {display_text(name)} is not supported; pass a head to load its encoder"
        )
    if name == NEXT_SENTENCE_ARCHITECTURE:
        return HeadSettings(kind="classify", labels=2)
    labels = _label_count(config, source)
    kind, label_count = kinds[0], labels or 2
    problem = config.get("problem_type")
    if kind == "classify" and problem == "regression" and label_count > 1:
        raise InputError(
            f"{source}: problem_type {problem} with {label_count} labels is not supported; pass another head"
        )
    saved = _saved_head_settings(config, source)
    is_multi_label = kind == "classify" and problem == _MULTI_LABEL
    if (
        saved is not None
        and saved.kind in kinds
        and (saved.labels == labels or labels is None)
        and (saved.kind == "multi-label") == is_multi_label
    ):
        configured = config.get(_dropout_key(family))
        if configured is None or configured == saved.dropout:
            return saved
        changed = {**dataclasses.asdict(saved), "dropout": configured}
        return build_settings(
            HeadSettings, SettingsSource(changed, source, {"dropout": _dropout_key(family)})
        )
    if is_multi_label:
        kind = "multi-label"
    elif kind == "classify" and label_count == 1:
        kind = "regress"
    values = {
        "kind": kind,
        "labels": label_count if kind in _LABELED_KINDS else _FIXED_LABEL_COUNTS[kind],
    }
    return _with_dropout(values, config, source)


def encoder_head_settings(config: Mapping[str, Any], source: str) -> HeadSettings:
    """Return the settings of a new head for a config that names none: that of pre-training."""
    return _with_dropout({"kind": "pretrain"}, config, source)


def _with_dropout(values: Mapping[str, Any], config: Mapping[str, Any], source: str) -> HeadSettings:
    """Return settings of a head with the dropout of a config, by default that of `transformers`."""
    family = model_family(config, source)
    key = _dropout_key(family)
    if family == "bert" and config.get(key) is None:
        key = "hidden_dropout_prob"
    dropout = 0.1 if config.get(key) is None else config[key]
    if family == "bert" and values["kind"] == "pretrain":
        dropout = 0.0
    return build_settings(
        HeadSettings, SettingsSource({**values, "dropout": dropout}, source, {"dropout": key})
    )


def config_architecture(config: Mapping[str, Any], source: str) -> str:
    """Return the name of the class of `transformers` that saved a config; empty if it has none."""
    names = config.get("architectures") or [""]
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise InputError(f"{source}: architectures = {display_value(names)}: must be a list of names")
    return names[0]


def _dropout_key(family: Family) -> str:
    return "classifier_dropout_prob" if family == "albert" else "classifier_dropout"


def _label_count(config: Mapping[str, Any], source: str) -> int | None:
    """Return the number of labels in a config; None if it has none."""
    labels = config.get("id2label")
    if isinstance(labels, Mapping) and labels:
        return len(labels)
    count = config.get("num_labels")
    if count is not None and not (isinstance(count, int) and count > 0):
        raise InputError(f"{source}: num_labels = {display_value(count)}: must be an integer of at least 1")
    return count


def _saved_head_settings(config: Mapping[str, Any], source: str) -> HeadSettings | None:
    saved = config.get("albertine")
    if isinstance(saved, Mapping) and isinstance(saved.get("head"), Mapping):
        return build_settings(HeadSettings, SettingsSource(saved["head"], source))
    return None


def states_head(config: Mapping[str, Any], source: str) -> bool:
    """Return whether a config holds the settings of its head, which only Albertine writes."""
    return _saved_head_settings(config, source) is not None


def label_names_from_config(config: Mapping[str, Any], head: HeadSettings, source: str) -> tuple[str, ...]:
    """Return the label names in order of their index; empty if the config has none or only default names."""
    id2label = config.get("id2label")
    if head.kind not in _LABELED_KINDS or not isinstance(id2label, Mapping) or not id2label:
        return ()
    names = [id2label.get(str(number), id2label.get(number)) for number in range(head.labels)]
    if not all(isinstance(name, (str, int)) and not isinstance(name, bool) for name in names):
        progress.print_message(
            f"{source}: id2label is ignored; expected a text for each label from 0 to {head.labels - 1}"
        )
        return ()
    label_names = tuple(map(str, names))  # `transformers` saves numbers that were given as names as numbers
    return () if label_names == _default_label_names(head.labels) else label_names


def _default_label_names(labels: int) -> tuple[str, ...]:
    return tuple(f"LABEL_{number}" for number in range(labels))


def transformers_config(
    model: ModelSettings, head: HeadSettings, label_names: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the content of `config.json` from settings and label names."""
    family = checkpoint_family(model)
    keys = _ALBERT_KEYS if family == "albert" else _BERT_KEYS
    values = {
        **dataclasses.asdict(model),
        "ffn_size": model.effective_ffn_size,
        "groups": layer_group_count(model),
    }
    config: dict[str, Any] = {
        "model_type": family,
        "architectures": [architecture_name(family, head)],
        **({} if model.is_published_architecture else _albertine_keys(model, head)),
        **{key: values[name] for key, name, _ in keys},
        "hidden_act": "gelu_new" if model.activation == "gelu_tanh" else "gelu",
        "initializer_range": 0.02,
        "pad_token_id": 0,
        _dropout_key(family): head.dropout,
    }
    if family == "bert" and head.kind in ("pretrain", "mlm"):  # heads without dropout in BERT
        del config[_dropout_key(family)]
    if head.kind in (*_LABELED_KINDS, "regress"):
        names = label_names or _default_label_names(head.labels)
        config["id2label"] = {str(index): name for index, name in enumerate(names)}
        config["label2id"] = {name: index for index, name in enumerate(names)}
    if head.kind in _PROBLEM_TYPES:
        config["problem_type"] = _PROBLEM_TYPES[head.kind]
    config["albertine"] = {"model": _without_unset(model), "head": dataclasses.asdict(head)}
    return config


def _albertine_keys(model: ModelSettings, head: HeadSettings) -> dict[str, Any]:
    """Return the keys by which `transformers` finds the modelling file of the folder and the depth rule."""
    module, name = MODELING_FILE.removesuffix(".py"), architecture_name(_ALBERTINE, head)
    classes = {"AutoConfig": "AlbertineConfig", "AutoModel": "AlbertineModel"}
    for suffix in ARCHITECTURE_SUFFIXES.values():
        classes[f"AutoModelFor{suffix}"] = f"AlbertineFor{suffix}"
    return {
        "model_type": _ALBERTINE,
        "architectures": [name],
        "auto_map": {auto: f"{module}.{own}" for auto, own in classes.items()},
        **{key: getattr(model, name) for key, name, _ in _ALBERTINE_KEYS},
    }


def google_config_file(folder: Path) -> Path | None:
    """Return the config file of a checkpoint of Google's code; None if the folder holds none."""
    if (folder / "config.json").exists():
        return None
    return next((folder / name for name in _GOOGLE_CONFIGS if (folder / name).exists()), None)


def read_google_config(file: Path) -> dict[str, Any]:
    """Return the config of Google's code, with the keys of `transformers`.

    Google's ALBERT has no projection if E = H, and its "gelu" is the tanh approximation.
    """
    config: dict[str, Any] = dict(read_config(file)) | {"model_type": _GOOGLE_CONFIGS[file.name]}
    if config["model_type"] == "albert":
        config["hidden_act"] = (
            "gelu_new" if config.get("hidden_act", "gelu") == "gelu" else config["hidden_act"]
        )
        model = dataclasses.replace(model_settings_from_config(config, str(file)), always_project=False)
        config["albertine"] = {"model": _without_unset(model)}
    return config


def checkpoint_model_settings(folder: Path) -> ModelSettings:
    """Return the model settings of a checkpoint folder, from its config alone."""
    config, file = _checkpoint_config(folder)
    return saved_model_settings(config, file) or model_settings_from_config(config, file)


def checkpoint_head_settings(folder: Path) -> HeadSettings | None:
    """Return the settings of the head of a checkpoint folder, from its config alone.

    None for an encoder without a head, or with a head that is not supported. Google's code saves the heads
    of pre-training, which its config does not name.
    """
    config, file = _checkpoint_config(folder)
    if google_config_file(folder):
        return HeadSettings(kind="pretrain")
    try:
        return head_settings_from_config(config, file)
    except InputError:
        return None


def checkpoint_predicts_next_tokens(folder: Path) -> bool:
    """Return whether the config of a checkpoint folder says that it was trained to predict next tokens."""
    head = _saved_head_settings(*_checkpoint_config(folder))
    return head is not None and head.next_tokens


def _checkpoint_config(folder: Path) -> tuple[Mapping[str, Any], str]:
    """Return the config of a checkpoint folder, and the name of its file."""
    google_file = google_config_file(folder)
    file = google_file or folder / "config.json"
    return read_google_config(file) if google_file else read_config(file), str(file)


def _without_unset(model: ModelSettings) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(model).items() if value is not None}
