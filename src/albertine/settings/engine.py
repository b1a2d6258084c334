"""Which engine runs a model: names, help text, and the options that loading a model takes."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from albertine.errors import InputError, did_you_mean
from albertine.settings.export import ExportFormat

EngineName = Literal["torch", "onnxruntime", "openvino", "auto"]

_PRECISIONS = ("auto", "fp32", "bf16")

# The format that each library other than torch runs.
FORMAT_OF_ENGINE: dict[EngineName, ExportFormat] = {"onnxruntime": "onnx", "openvino": "openvino"}

ENGINE_HELP = (
    "Library that runs the model: torch, onnxruntime or openvino; auto measures those that are installed and "
    "takes the fastest. By default torch, or for an exported model the library of its format."
)


@dataclass(frozen=True)
class EngineOptions:
    """Where and how a model runs.

    Attributes:
        device: "auto", "cpu" or "cuda".
        precision: precision of the matrix products: "auto", "fp32" or "bf16".
        engine: the library; None for torch, or for an exported model that of its format.
    """

    device: str = "auto"
    precision: str = "auto"
    engine: EngineName | None = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("precision", self.precision, _PRECISIONS),
            ("engine", self.engine, (None, *get_args(EngineName))),
        ):
            if value not in known:
                names = [one for one in known if one is not None]
                raise InputError(
                    f"{name} {value}: unknown{did_you_mean(str(value), names)}; known: {', '.join(names)}"
                )

    def with_fp32_default(self) -> "EngineOptions":
        """Return the options with fp32 in place of "auto", for numbers that machines must agree on."""
        return replace(self, precision="fp32") if self.precision == "auto" else self


DEFAULT_OPTIONS = EngineOptions()
