"""Reads folders of the library sentence-transformers: which model, and how its states become a vector.

    modules.json                    the modules in their order, with their folders
    sentence_bert_config.json       maximum length, lower case; beside the model
    config_sentence_transformers.json   a text that precedes every text, if there is one
    1_Pooling/config.json           how to pool
    2_Dense/                        a linear layer with an activation: config.json and weights
    3_Normalize/                    divides by the length of the vector; may be empty

Other modules are refused, and so are options that change the vectors and that Albertine does not support.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from albertine.display import display_text, display_value
from albertine.errors import InputError
from albertine.input_files import read_json_object, read_json_value
from albertine.interop.model_from_tensors import check_finite
from albertine.interop.weight_files import read_weights
from albertine.model.sentence_vectors import POOLING_MODES, ActivationName, DenseLayer, PoolingMode
from albertine.text.unicode_check import check_text

MODULES_FILE = "modules.json"
OPTIONS_FILE = "config_sentence_transformers.json"
# Of the model; early versions of the library named it for the kind of model.
LENGTH_FILES = ("sentence_bert_config.json", "sentence_albert_config.json")
_AGAIN = "get the file again"
_MIN_LENGTH = 3  # [CLS], [SEP] and a token of the text
_MAX_MODULES = 100

# Earlier versions write a flag for each mode, newer ones `pooling_mode`. Several vectors are concatenated
# in this order.
_POOLING_FLAGS: Mapping[str, PoolingMode] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS: Mapping[str, ActivationName] = {
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
}
# Options of the model that change its input, its weights or its output.
_MODEL_OPTIONS = (
    "processing_kwargs", "processor_kwargs", "tokenizer_args", "model_kwargs", "model_args", "config_kwargs",
    "config_args",
)  # fmt: skip
# Options of the whole folder; Albertine uses the default prompt alone.
_KEPT_OPTIONS = ("prompts", "default_prompt_name", "similarity_fn_name")


@dataclass(frozen=True, eq=False)
class SentenceModules:
    """What the modules of a folder do.

    Attributes:
        model_folder: folder of the model and of its tokenizer.
        poolings: how to pool; several vectors are concatenated.
        layers: what is applied to the pooled vector, in order; None divides it by its length.
        normalize: whether the last module divides the vector by its length; it is not in `layers`.
        max_length: maximum tokens of a text, with [CLS] and [SEP]; None for that of the model.
        lower_case: whether texts are put in lower case before they are tokenized.
        prompt: text that precedes every text.
        options: what a converted folder keeps of `config_sentence_transformers.json`, the prompt included.
    """

    model_folder: Path
    poolings: tuple[PoolingMode, ...] = ("mean",)
    layers: tuple[DenseLayer | None, ...] = ()
    normalize: bool = True
    max_length: int | None = None
    lower_case: bool = False
    prompt: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


def read_sentence_modules(folder: Path) -> SentenceModules:
    """Return the modules of a folder; raise `InputError` if it has others than Albertine computes."""
    (first, model_folder), *others = _modules(folder)
    if first != "Transformer":
        raise InputError(f"{folder / MODULES_FILE}: the first module is {first}; expected Transformer")
    if not others or others[0][0] != "Pooling":
        raise InputError(f"{folder / MODULES_FILE}: no Pooling follows the Transformer; {_AGAIN}")
    poolings, includes_prompt = _read_pooling(others[0][1] / "config.json")
    layers: list[DenseLayer | None] = []
    for name, path in others[1:]:
        if name == "Dense":
            layers.append(_read_dense(path))
        elif name == "Normalize":
            _check_names(path / "config.json", _optional_object(path / "config.json"))
            layers.append(None)
        elif name != "Dropout":  # changes nothing after training
            raise InputError(
                f"{folder / MODULES_FILE}: module {display_text(name)} is not supported; supported: "
                "Transformer, Pooling, Dense, Normalize, Dropout"
            )
    options = _optional_object(folder / OPTIONS_FILE)
    prompt = _default_prompt(folder / OPTIONS_FILE, options)
    if prompt and not includes_prompt:
        raise InputError(
            f"{others[0][1] / 'config.json'}: include_prompt = false with a default prompt is "
            "not supported; embed with sentence-transformers"
        )
    max_length, lower_case = _read_length(model_folder)
    normalize = bool(layers) and layers[-1] is None
    return SentenceModules(
        model_folder,
        poolings,
        tuple(layers[:-1] if normalize else layers),
        normalize,
        max_length,
        lower_case,
        prompt,
        {key: options[key] for key in _KEPT_OPTIONS if options.get(key) is not None},
    )


def has_sentence_modules(folder: Path) -> bool:
    """Return whether a folder is one of sentence-transformers, even if its list of modules is missing."""
    return (folder / MODULES_FILE).exists() or (folder / OPTIONS_FILE).exists()


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Return the name of the class and the folder of each module, at least one."""
    file = folder / MODULES_FILE
    entries = read_json_value(_existing(file), _AGAIN)
    if not isinstance(entries, list) or not entries or len(entries) > _MAX_MODULES:
        raise InputError(f"{file}: not a list of modules; {_AGAIN}")
    modules = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise InputError(f"{file}: module {number} is not an object; {_AGAIN}")
        path, type_name = entry.get("path"), entry.get("type")
        if not isinstance(type_name, str) or not isinstance(path, str):
            raise InputError(f"{file}: module {number} needs a path and a type, both texts; {_AGAIN}")
        if path not in ("", Path(path).name) or path == ".." or "\0" in path:
            raise InputError(
                f"{file}: module {number} has the path {display_text(path)}; expected a folder beside it"
            )
        package, _, name = type_name.rpartition(".")
        if package.partition(".")[0] != "sentence_transformers":
            raise InputError(
                f"{file}: module {number} is {display_text(type_name)}, which has code of its own; only "
                "modules of sentence_transformers are supported"
            )
        modules.append((name, folder / path))
    return modules


def _read_pooling(file: Path) -> tuple[tuple[PoolingMode, ...], bool]:
    """Return the modes of a pooling module, and whether the tokens of a prompt are pooled too."""
    config = read_json_object(_existing(file), _AGAIN)
    if "pooling_mode" in config:
        value = config["pooling_mode"]
        names = value if isinstance(value, list) else [value]
    else:
        names = [mode for flag, mode in _POOLING_FLAGS.items() if _flag(file, config, flag, default=False)]
        unknown = next((key for key in config if key.startswith("pooling_mode_") and config[key] is True
                        and key not in _POOLING_FLAGS), None)  # fmt: skip
        names = [unknown] if unknown else names or ["mean"]
    for name in names:
        if name not in POOLING_MODES:
            raise InputError(
                f"{file}: pooling {display_value(name)} is not supported; supported: "
                f"{', '.join(POOLING_MODES)}"
            )
    if not 0 < len(names) <= len(POOLING_MODES):
        raise InputError(
            f"{file}: pooling_mode = {display_value(names)}: must name one to six modes; {_AGAIN}"
        )
    return tuple(names), _flag(file, config, "include_prompt", default=True)


def _read_dense(folder: Path) -> DenseLayer:
    """Return the layer of a Dense module, after checking its weights."""
    file = folder / "config.json"
    config = read_json_object(_existing(file), _AGAIN)
    _check_names(file, config)
    if _flag(file, config, "use_residual", default=False):
        raise InputError(f"{file}: use_residual is not supported; embed with sentence-transformers")
    activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise InputError(
            f"{file}: activation_function {display_value(activation)} is not supported; supported: "
            f"{', '.join(ACTIVATIONS)}"
        )
    shape = [config.get("out_features"), config.get("in_features")]
    tensors, source = read_weights(folder)
    weight = _dense_tensor(tensors, "linear.weight", shape, source)
    has_bias = _flag(file, config, "bias", default=True)
    bias = _dense_tensor(tensors, "linear.bias", shape[:1], source) if has_bias else None
    return DenseLayer(weight, bias, ACTIVATIONS[activation])


def _dense_tensor(tensors: Mapping[str, Tensor], name: str, shape: list[Any], source: Path) -> Tensor:
    """Return a tensor of a Dense module in fp32, after checking it."""
    if name not in tensors:
        raise InputError(f"{source}: tensor {name} is missing; {_AGAIN}")
    tensor = tensors[name]
    if list(tensor.shape) != shape:
        raise InputError(
            f"{source}: tensor {name} has shape {list(tensor.shape)}, but the config requires "
            f"{display_value(shape)}"
        )
    if not tensor.is_floating_point():
        raise InputError(f"{source}: tensor {name} is {tensor.dtype}; expected floating-point numbers")
    check_finite(name, tensor, source)
    return tensor.float()


def _check_names(file: Path, config: Mapping[str, Any]) -> None:
    """Raise `InputError` if a module reads or writes anything but the vector of the text."""
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in (None, "sentence_embedding"):
            raise InputError(
                f"{file}: {key} = {display_value(config[key])} is not supported; must be sentence_embedding"
            )


def _read_length(folder: Path) -> tuple[int | None, bool]:
    """Return the maximum length of a model of the library, and whether it puts texts in lower case.

    Newer versions of the library write the length into the options of the tokenizer.
    """
    file = next(
        (folder / name for name in LENGTH_FILES if (folder / name).exists()), folder / LENGTH_FILES[0]
    )
    config = _optional_object(file)
    task = config.get("transformer_task")
    if task not in (None, "feature-extraction"):
        raise InputError(f"{file}: transformer_task = {display_value(task)} is not supported; "
                         "must be feature-extraction")  # fmt: skip
    for key in _MODEL_OPTIONS:
        options = config.get(key)
        if options and options != {"trust_remote_code": True}:
            raise InputError(f"{file}: {key} = {display_value(options)} is not supported; "
                             "embed with sentence-transformers")  # fmt: skip
    length = config.get("max_seq_length")
    if length is None:
        file = folder / "tokenizer_config.json"
        length = _optional_object(file).get("model_max_length")
    if length is not None and (
        isinstance(length, bool) or not isinstance(length, int | float) or not length >= _MIN_LENGTH
    ):
        raise InputError(
            f"{file}: maximum length {display_value(length)}: must be a number of at least {_MIN_LENGTH}"
        )
    # Without a limit, `transformers` writes a number of thirty digits.
    return None if length is None else int(min(length, 1 << 30)), _flag(
        file, config, "do_lower_case", default=False
    )


def _default_prompt(file: Path, config: Mapping[str, Any]) -> str:
    """Return the text that precedes every text: the default prompt in the options of a folder, or none."""
    if config.get("model_type") not in (None, "SentenceTransformer"):
        raise InputError(
            f"{file}: model_type {display_value(config['model_type'])} is not supported; must be "
            "SentenceTransformer"
        )
    name, prompts = config.get("default_prompt_name"), config.get("prompts")
    if name is None:
        return ""
    prompt = prompts.get(name) if isinstance(name, str) and isinstance(prompts, dict) else None
    if not isinstance(prompt, str):
        raise InputError(
            f"{file}: default_prompt_name = {display_value(name)}: prompts has no such text; {_AGAIN}"
        )
    check_text(prompt, f"{file}: prompt")
    return prompt


def _flag(file: Path, config: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = config.get(key, default)
    if not isinstance(value, bool):
        raise InputError(f"{file}: {key} = {display_value(value)}: must be true or false; {_AGAIN}")
    return value


def _optional_object(file: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if it does not exist."""
    return read_json_object(file, _AGAIN) if file.exists() else {}


def _existing(file: Path) -> Path:
    if not file.exists():
        raise InputError(f"{file}: missing; {_AGAIN}")
    return file
