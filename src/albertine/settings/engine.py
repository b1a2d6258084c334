"""Which engine runs a model: names, help text, and the options that loading a model takes."""

from dataclasses import dataclass, replace
from typing import Literal

from albertine.settings.export import ExportFormat

EngineName = Literal["torch", "onnxruntime", "openvino", "auto"]

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

    def with_fp32_default(self) -> "EngineOptions":
        """Return the options with fp32 in place of "auto", for numbers that machines must agree on."""
        return replace(self, precision="fp32") if self.precision == "auto" else self


DEFAULT_OPTIONS = EngineOptions()
