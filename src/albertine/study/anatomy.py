"""What a model is made of and what it costs: the report behind `albertine info`.

From the settings alone; nothing is built. Everything the report says is here as
data; `anatomy_view` prints it.
"""

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from albertine.errors import InputError, nearest
from albertine.interop.config import settings_in
from albertine.interop.hub import locate
from albertine.model.cost import (
    BYTES,
    Flops,
    TrainingMemory,
    count_flops,
    gradient_bytes,
    largest_batch,
    traffic_per_step,
    training_memory,
)
from albertine.model.parameters import Parameters, bert_of_same_shape, count_parameters
from albertine.settings import MODELS, ModelSettings, SettingError, Settings, setting
from albertine.settings.schema import shortened
from albertine.study.published import TABLE_1, counted_as_published

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


@dataclass(frozen=True)
class InfoSettings(Settings):
    """What to report on."""

    length: int = setting(128, "Pieces per sequence, for operations and memory.", least=1, most=1_000_000)
    batch: int = setting(32, "Sequences per training step on one device.", least=1, most=1_000_000_000)
    precision: Literal["fp32", "bf16"] = setting("bf16", "Precision of the computation in training.")
    processes: int = setting(8, "Data-parallel processes, for the traffic.", least=1, most=1_000_000)
    memory: str | None = setting(None, "Memory of the device, as in 24GB: which batch fits?")
    model: ModelSettings = setting(ModelSettings(), "The network.")

    def check(self) -> None:
        """Refuse sequences that the position table cannot hold, and memory that is no size."""
        if self.length > self.model.max_length:
            raise SettingError(
                "length",
                self.length,
                f"must be at most model.max_length = {self.model.max_length}",
                ("model.max_length",),
            )
        self.memory_bytes()

    def memory_bytes(self) -> int | None:
        """Return the device's memory in bytes, if it was given."""
        if self.memory is None:
            return None
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)", self.memory.strip())
        if not found or found[2].upper() not in _UNITS:
            raise SettingError("memory", self.memory, "must be a number and a unit, as in 24GB or 16GiB")
        memory = float(found[1]) * _UNITS[found[2].upper()]
        if not 1 <= memory <= 10**18:
            raise SettingError("memory", self.memory, "must lie between 1B and 1000000TB")
        return int(memory)


@dataclass(frozen=True)
class Anatomy:
    """The report on one model."""

    name: str
    model: ModelSettings
    settings: InfoSettings
    parameters: Parameters
    as_published: int
    published_millions: int | None
    bert_encoder: int
    flops: Flops
    training: TrainingMemory
    training_recomputed: TrainingMemory
    gradient_bytes: int
    traffic_bytes: int
    fits: dict[str, int] | None

    @property
    def factor(self) -> float:
        """How many times as many parameters the encoder of the BERT of the same shape has."""
        return self.bert_encoder / self.parameters.encoder

    @property
    def embedding_unfactorized(self) -> int:
        """V * H: the token embedding without factorization."""
        return self.model.vocab_size * self.model.hidden_size

    @property
    def embedding_factorized(self) -> int:
        """V * E + E * H: the two matrices that replace it; its own size where E = H."""
        v, e, h = self.model.vocab_size, self.model.embedding_size, self.model.hidden_size
        return v * e + (e * h if self.model.projects else 0)

    def weight_bytes(self) -> dict[str, int]:
        """Return the bytes of all weights by precision."""
        return {precision: width * self.parameters.total for precision, width in BYTES.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the report under keys that stay as they are from version to version."""
        by_part = asdict(self.parameters)
        return {
            "name": self.name,
            "model": asdict(self.model),
            "parameters": {
                "total": self.parameters.total,
                "encoder": self.parameters.encoder,
                "heads": self.parameters.heads,
                "by_part": by_part,
                "by_the_papers_rule": self.as_published,
                "published_millions": self.published_millions,
                "bert_of_same_shape": self.bert_encoder,
                "factor": self.factor,
            },
            "embedding": {
                "unfactorized": self.embedding_unfactorized,
                "factorized": self.embedding_factorized,
            },
            "flops": {"length": self.settings.length, **asdict(self.flops)},
            "weight_bytes": self.weight_bytes(),
            "training_memory": {
                "batch": self.settings.batch,
                "length": self.settings.length,
                "precision": self.settings.precision,
                "without_recomputation": {**asdict(self.training), "total": self.training.total},
                "with_recomputation": {
                    **asdict(self.training_recomputed),
                    "total": self.training_recomputed.total,
                },
            },
            "data_parallel": {
                "processes": self.settings.processes,
                "gradient_bytes": self.gradient_bytes,
                "sent_per_process_and_step": self.traffic_bytes,
            },
            "largest_batch": self.fits,
        }


def report(name: str, settings: InfoSettings) -> Anatomy:
    """Work out everything about one model."""
    model, length, precision = settings.model, settings.length, settings.precision
    memory = settings.memory_bytes()
    fits = None
    if memory is not None:
        fits = {
            key: largest_batch(model, memory, length=length, precision=precision, recompute=recompute)
            for key, recompute in (("without_recomputation", False), ("with_recomputation", True))
        }
    return Anatomy(
        name=name,
        model=model,
        settings=settings,
        parameters=count_parameters(model),
        as_published=counted_as_published(model),
        published_millions=TABLE_1.get(name) if MODELS.get(name) == model else None,
        bert_encoder=count_parameters(bert_of_same_shape(model)).encoder,
        flops=count_flops(model, length),
        training=_memory(settings, recompute=False),
        training_recomputed=_memory(settings, recompute=True),
        gradient_bytes=gradient_bytes(model),
        traffic_bytes=traffic_per_step(model, settings.processes),
        fits=fits,
    )


def _memory(settings: InfoSettings, *, recompute: bool) -> TrainingMemory:
    return training_memory(
        settings.model,
        batch=settings.batch,
        length=settings.length,
        precision=settings.precision,
        recompute=recompute,
    )


def folder_of(subject: str | None) -> Path | None:
    """Return where a checkpoint lies; None for what is no checkpoint."""
    if subject is None or (subject in MODELS and not Path(subject).is_dir()):
        return None
    return locate(subject, weights=False)


def asked_of(folder: Path, settings: InfoSettings, *, changed: bool) -> InfoSettings:
    """Ask about the network of a checkpoint, which is what it is: nothing of it can be set."""
    if changed:
        raise InputError(
            f"{folder}: a checkpoint's network cannot be changed; leave out the settings of the model"
        )
    model = settings_in(folder)
    try:
        return replace(settings, model=model, length=min(settings.length, model.max_length))
    except SettingError as error:
        raise InputError(f"{folder}: {error}") from None


def family(settings: InfoSettings) -> list[Anatomy]:
    """Report on every preset, at the same length where a model can hold it."""
    return [
        report(name, replace(settings, model=model, length=min(settings.length, model.max_length)))
        for name, model in MODELS.items()
    ]


def side_by_side(settings: InfoSettings, name: str | None, other: str | None) -> list[Anatomy]:
    """Report on the model that was asked for, and on a preset to hold beside it."""
    reports = [report(_label(settings.model, name), settings)]
    if other is not None:
        reports.append(report(other, _compared(settings, other)))
    return reports


def _compared(settings: InfoSettings, other: str) -> InfoSettings:
    """Return the same questions about a preset of the family."""
    if other not in MODELS:
        known = ", ".join(MODELS)
        raise InputError(
            f"--compare {shortened(other)}: unknown preset{nearest(other, MODELS)}; known: {known}"
        )
    try:
        return replace(settings, model=MODELS[other])
    except SettingError as error:
        raise InputError(f"--compare {other}: does not fit {error}") from None


def _label(model: ModelSettings, asked: str | None) -> str:
    """Name a model: a checkpoint by its folder, a preset by its name, or as a preset that was changed."""
    if asked is not None and asked not in MODELS:
        return Path(asked).resolve().name
    for name, known in MODELS.items():
        if known == model:
            return name
    return f"{asked}, changed" if asked else "this model"
