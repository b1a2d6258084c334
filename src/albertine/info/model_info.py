"""The report of `albertine info`: parameters, operations, memory and gradient traffic of a model.

The report is computed from the settings alone, without weights. `info_table` prints it.
"""

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from albertine.display import display_text
from albertine.errors import InputError, did_you_mean
from albertine.info.published import TABLE_1, paper_parameter_count
from albertine.interop.hub import locate_checkpoint
from albertine.interop.transformers_config import checkpoint_head_settings, checkpoint_model_settings
from albertine.model.cost import (
    BYTES_PER_VALUE,
    FlopsPerToken,
    TrainingMemory,
    all_reduce_bytes_per_step,
    count_flops,
    gradient_bytes,
    largest_batch_size,
    training_memory,
)
from albertine.model.parameter_counts import ParameterCounts, bert_of_same_shape, count_parameters
from albertine.settings import MODEL_PRESETS, HeadSettings, ModelSettings, SettingError, Settings, setting
from albertine.settings.presets import training_of_preset
from albertine.settings.schema import first_changed

if TYPE_CHECKING:
    from torch import nn

_BYTES_PER_UNIT = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES_PER_UNIT |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


@dataclass(frozen=True)
class InfoSettings(Settings):
    """Settings of `albertine info`."""

    length: int = setting(
        128, "Tokens per sequence, for operations and memory.", minimum=1, maximum=1_000_000
    )
    batch_size: int = setting(
        32, "Sequences per training step on one device.", minimum=1, maximum=1_000_000_000
    )
    precision: Literal["fp32", "bf16"] = setting("bf16", "Precision of training.")
    processes: int = setting(
        8, "Number of data-parallel processes, for the traffic.", minimum=1, maximum=1_000_000
    )
    memory: str | None = setting(
        None, "Memory of the device, as in 24GB; reports the largest batch that fits."
    )
    model: ModelSettings = setting(ModelSettings(), "The model.")

    def check(self) -> None:
        """Raise `SettingError` for sequences longer than the position table, or an invalid memory size."""
        if self.length > self.model.max_length:
            raise SettingError(
                "length",
                self.length,
                f"must be at most model.max_length = {self.model.max_length}",
                ("model.max_length",),
            )
        self.memory_bytes()

    def memory_bytes(self) -> int | None:
        """Return the memory of the device in bytes; None if not set."""
        if self.memory is None:
            return None
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)", self.memory.strip())
        if not match or match[2].upper() not in _BYTES_PER_UNIT:
            raise SettingError("memory", self.memory, "must be a number and a unit, as in 24GB or 16GiB")
        memory = float(match[1]) * _BYTES_PER_UNIT[match[2].upper()]
        if not 1 <= memory <= 10**18:
            raise SettingError("memory", self.memory, "must be between 1B and 1000000TB")
        return int(memory)


@dataclass(frozen=True)
class ModelInfo:
    """The report on one model.

    Attributes:
        name: name of the preset or checkpoint.
        model: settings of the model.
        settings: length, batch size, precision, processes and memory that the report assumes.
        parameters: exact counts by part; of a checkpoint, with the head that it has.
        paper_count: parameters as the paper counts them.
        published_millions: the paper's number in millions, for its own models.
        bert_encoder_count: encoder parameters of the BERT with this width and depth.
        flops: operations per token.
        training_memory: memory of a training step.
        training_memory_recomputed: the same with recomputation of activations.
        gradient_bytes: size of all gradients in fp32.
        sent_bytes: bytes that each data-parallel process sends per step.
        largest_batch_sizes: largest batch that fits the memory, without and with recomputation; None if no
            memory was given.
    """

    name: str
    model: ModelSettings
    settings: InfoSettings
    parameters: ParameterCounts
    paper_count: int
    published_millions: int | None
    bert_encoder_count: int
    flops: FlopsPerToken
    training_memory: TrainingMemory
    training_memory_recomputed: TrainingMemory
    gradient_bytes: int
    sent_bytes: int
    largest_batch_sizes: dict[str, int] | None

    @property
    def bert_ratio(self) -> float:
        """Encoder parameters of the BERT of the same shape, as a multiple of those of this model."""
        return self.bert_encoder_count / self.parameters.encoder

    @property
    def embedding_unfactorized(self) -> int:
        """Parameters of a token embedding without factorization: V * H."""
        return self.model.vocab_size * self.model.hidden_size

    @property
    def embedding_factorized(self) -> int:
        """Parameters of the factorized embedding: V * E + E * H, or V * E without a projection."""
        v, e, h = self.model.vocab_size, self.model.embedding_size, self.model.hidden_size
        return v * e + (e * h if self.model.has_projection else 0)

    def weight_bytes(self) -> dict[str, int]:
        """Return the size of all weights in bytes, by precision."""
        return {precision: width * self.parameters.total for precision, width in BYTES_PER_VALUE.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the report under keys that stay the same between versions."""
        by_part = asdict(self.parameters)
        return {
            "name": self.name,
            "model": asdict(self.model),
            "parameters": {
                "total": self.parameters.total,
                "encoder": self.parameters.encoder,
                "pretraining_heads": self.parameters.pretraining_heads,
                "task_head": self.parameters.task_head,
                "by_part": by_part,
                "paper_count": self.paper_count,
                "published_millions": self.published_millions,
                "bert_of_same_shape": self.bert_encoder_count,
                "bert_ratio": self.bert_ratio,
            },
            "embedding": {
                "unfactorized": self.embedding_unfactorized,
                "factorized": self.embedding_factorized,
            },
            "flops": {"length": self.settings.length, **asdict(self.flops)},
            "weight_bytes": self.weight_bytes(),
            "training_memory": {
                "batch_size": self.settings.batch_size,
                "length": self.settings.length,
                "precision": self.settings.precision,
                "without_recomputation": {
                    **asdict(self.training_memory),
                    "total": self.training_memory.total,
                },
                "with_recomputation": {
                    **asdict(self.training_memory_recomputed),
                    "total": self.training_memory_recomputed.total,
                },
            },
            "data_parallel": {
                "processes": self.settings.processes,
                "gradient_bytes": self.gradient_bytes,
                "sent_per_process_and_step": self.sent_bytes,
            },
            "largest_batch_size": self.largest_batch_sizes,
        }


def model_info(name: str, settings: InfoSettings, folder: Path | None = None) -> ModelInfo:
    """Return the report on one model.

    Args:
        name: name of the model.
        settings: settings of the report.
        folder: folder of the checkpoint, whose head is counted; if not given, the heads of pre-training are.
    """
    model, length, precision = settings.model, settings.length, settings.precision
    memory = settings.memory_bytes()
    largest_batch_sizes = None
    if memory is not None:
        largest_batch_sizes = {
            key: largest_batch_size(model, memory, length=length, precision=precision, recompute=recompute)
            for key, recompute in (("without_recomputation", False), ("with_recomputation", True))
        }
    parameters, bert = count_parameters(model), count_parameters(bert_of_same_shape(model))
    if folder is not None:
        parameters = count_with_head(model, checkpoint_head_settings(folder))
    return ModelInfo(
        name=name,
        model=model,
        settings=settings,
        parameters=parameters,
        paper_count=paper_parameter_count(model),
        published_millions=TABLE_1.get(name) if MODEL_PRESETS.get(name) == model else None,
        bert_encoder_count=bert.encoder if parameters.pooler else bert.encoder - bert.pooler,
        flops=count_flops(model, length),
        training_memory=_estimate_training_memory(settings, recompute=False),
        training_memory_recomputed=_estimate_training_memory(settings, recompute=True),
        gradient_bytes=gradient_bytes(model),
        sent_bytes=all_reduce_bytes_per_step(model, settings.processes),
        largest_batch_sizes=largest_batch_sizes,
    )


def count_with_head(model: ModelSettings, head: HeadSettings | None) -> ParameterCounts:
    """Return the parameter counts of a model with the head of its checkpoint; None for no head."""
    counts = count_parameters(model)
    if head is None:
        return replace(counts, mlm_head=0, pair_head=0)
    if head.kind == "pretrain":
        return counts
    if head.kind == "mlm":  # published ones have a pooler, which the architecture that they name has not
        return replace(counts, pair_head=0)
    # These need torch, which a report on presets does without.
    import torch
    from torch import nn

    from albertine.model.learned_exit import ExitUnit
    from albertine.model.model import make_head

    with torch.device("meta"):
        one_head = make_head(model, head, nn.Embedding(1, 1))  # only heads of pre-training use the embedding
        exit_unit = ExitUnit(model.hidden_size) if head.learned_exit else nn.Identity()
    pooler = counts.pooler if hasattr(one_head, "pooler") else 0
    heads = model.layers if head.exits == "own" else 1
    task_head = heads * _parameter_count(one_head) + _parameter_count(exit_unit) - pooler
    return replace(counts, pooler=pooler, mlm_head=0, pair_head=0, task_head=task_head)


def _parameter_count(module: "nn.Module") -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _estimate_training_memory(settings: InfoSettings, *, recompute: bool) -> TrainingMemory:
    return training_memory(
        settings.model,
        batch_size=settings.batch_size,
        length=settings.length,
        precision=settings.precision,
        recompute=recompute,
    )


def checkpoint_folder(source: str | None) -> Path | None:
    """Return the folder of a checkpoint; None if `source` is a preset or not given."""
    if source is None or (source in MODEL_PRESETS and not Path(source).is_dir()):
        return None
    is_name = "/" not in source and not Path(source).exists()  # neither a hub name, a URL nor a path
    if is_name and (similar := did_you_mean(source, MODEL_PRESETS)):
        raise InputError(f"{source}: neither a preset nor a folder{similar}")
    return locate_checkpoint(source, weights=False)


def checkpoint_info_settings(folder: Path, settings: InfoSettings, *, is_model_changed: bool) -> InfoSettings:
    """Return the settings with the model of a checkpoint; raise `InputError` if model settings are given."""
    if is_model_changed:
        raise InputError(f"{folder}: the model of a checkpoint cannot be changed; remove the model settings")
    model = checkpoint_model_settings(folder)
    if first_changed(settings, ["length"]) and settings.length > model.max_length:
        raise InputError(f"--length {settings.length}: {folder} takes at most {model.max_length} tokens")
    try:
        return replace(settings, model=model, length=min(settings.length, model.max_length))
    except SettingError as error:
        raise InputError(f"{folder}: {error}") from None


def check_shown_for_presets(settings: InfoSettings) -> None:
    """Raise `InputError` for settings of numbers that are not in the table of presets."""
    names = ["batch_size", "processes", *([] if settings.memory else ["precision"])]
    if unused := first_changed(settings, names):
        option = unused.replace("_", "-")
        advice = "name a model, as in `albertine info albert-base`"
        raise InputError(
            f"--{option} {getattr(settings, unused)}: not used for the table of presets; {advice}"
        )


def preset_infos(settings: InfoSettings) -> list[ModelInfo]:
    """Return the reports on all presets, at the given length or the model's maximum."""
    return [
        model_info(name, replace(settings, model=model, length=min(settings.length, model.max_length)))
        for name, model in MODEL_PRESETS.items()
        if not training_of_preset(name)  # those that train otherwise have the sizes of others
    ]


def compared_infos(
    settings: InfoSettings, name: str | None, compared_preset: str | None, folder: Path | None = None
) -> list[ModelInfo]:
    """Return the report on a model and, if a preset to compare with is given, the report on it.

    Args:
        settings: settings of the report.
        name: name of the model; None if only its settings are given.
        compared_preset: name of the preset.
        folder: folder of the model if it is a checkpoint.
    """
    reports = [model_info(_display_name(settings.model, name), settings, folder)]
    if compared_preset is not None:
        reports.append(model_info(compared_preset, _compared_settings(settings, compared_preset)))
    return reports


def _compared_settings(settings: InfoSettings, preset: str) -> InfoSettings:
    """Return the settings with the model of a preset."""
    if preset not in MODEL_PRESETS:
        known = ", ".join(MODEL_PRESETS)
        raise InputError(
            f"--compare {display_text(preset)}: unknown preset{did_you_mean(preset, MODEL_PRESETS)}; "
            f"known: {known}"
        )
    try:
        return replace(settings, model=MODEL_PRESETS[preset])
    except SettingError as error:
        raise InputError(f"--compare {preset}: does not fit {error}") from None


def _display_name(model: ModelSettings, source: str | None) -> str:
    """Return the name of a model: checkpoint folder, or preset, with a note if its settings changed."""
    if source is not None and source not in MODEL_PRESETS:
        return Path(source).resolve().name
    if source is not None and MODEL_PRESETS[source] == model:
        return source
    return _preset_name(model) or (f"{source}, changed" if source else "this model")


def _preset_name(model: ModelSettings) -> str | None:
    """Return the name of the first preset with these settings."""
    return next((name for name, known in MODEL_PRESETS.items() if known == model), None)
