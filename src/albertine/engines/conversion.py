"""Runs a loaded model with another library: converts it, compares it with its source, and opens it.

The files are temporary. `albertine export` writes them once and for all, also in int8.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from albertine.device import choose_precision
from albertine.engines.exported_engine import ExportedEngine
from albertine.engines.exported_folder import engine_title, open_engine, require_cpu
from albertine.engines.libraries import check_libraries
from albertine.errors import InputError, WorkError
from albertine.model.model import Model
from albertine.settings.engine import FORMAT_OF_ENGINE, EngineName
from albertine.settings.export import ExportFormat

# Settings with which steps of depth are calls of the same block.
_PLAIN_STEPS: Mapping[str, object] = {"depth_rule": "fixed", "step_rank": 0, "step_vectors": False}


def check_convertible(model: Model, source: str = "this model") -> None:
    """Raise `InputError` if other libraries cannot run a model."""
    if obstacle := _obstacle(model):
        raise InputError(f"{source}: {obstacle}")


def is_convertible(model: Model) -> bool:
    """Return whether other libraries can run a model."""
    return _obstacle(model) is None


def _obstacle(model: Model) -> str | None:
    """Return why other libraries cannot run a model; None if they can."""
    if model.settings.depth_rule == "equilibrium":
        return "depth_rule = equilibrium: its solver cannot be exported"
    return None


def check_steps(model: Model, source: str | Path, option: str) -> None:
    """Raise `InputError` if steps of depth are not calls of the same block.

    Args:
        model: the model.
        source: its name, for messages.
        option: what needs such steps.
    """
    if model.head_settings.co_matching:
        raise InputError(
            f"{source}: co_matching = true: only a graph of all layers can have this head, and {option} "
            "needs a graph for each step"
        )
    for name, plain in _PLAIN_STEPS.items():
        value = getattr(model.settings, name)
        if value != plain:
            raise InputError(
                f"{source}: {name} = {str(value).lower()}: its steps are not calls of the same block, as "
                f"{option} needs"
            )


def has_equal_steps(model: Model) -> bool:
    """Return whether steps of depth are calls of the same block, before a head that can be apart."""
    return not model.head_settings.co_matching and all(
        getattr(model.settings, name) == plain for name, plain in _PLAIN_STEPS.items()
    )


def convert_model(
    model: Model, engine: EngineName, device: str, precision: str, *, in_steps: bool = False
) -> ExportedEngine:
    """Return an engine of another library for a loaded model in evaluation mode.

    Args:
        model: the model.
        engine: "onnxruntime" or "openvino".
        device: "auto" or "cpu".
        precision: "fp32", or "bf16" with OpenVINO; "auto" is bf16 with OpenVINO where the CPU computes it
            fast.
        in_steps: whether the engine may stop after any step of depth.
    """
    to = FORMAT_OF_ENGINE[engine]
    check_convertible(model)
    if in_steps:
        check_steps(model, "this model", f"--exit or --depth with engine {engine}")
    require_cpu(device, f"engine {engine}")
    dtype = _choose_precision(to, precision)
    check_libraries(to, "fp32")
    from albertine.engines.model_files import write_model  # needs optional libraries
    from albertine.engines.verify import verify_export

    with TemporaryDirectory(prefix="albertine-") as folder:
        try:
            file = Path(folder) / write_model(model, Path(folder), to, in_steps=in_steps)[0]
        except Exception as error:  # the exporter raises types of its own
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise WorkError(
                f"engine {engine}: the model cannot be converted ({reason}); use torch"
            ) from error

        def open_in(precision: torch.dtype) -> ExportedEngine:
            settings, head = model.settings, model.head_settings
            title = engine_title(to, "fp32", precision)
            return open_engine(to, file, precision, settings, head, title, in_steps=in_steps)

        converted = open_in(torch.float32)
        verify_export(model, converted, f"engine {engine}")
        return converted if dtype == torch.float32 else open_in(dtype)


def _choose_precision(to: ExportFormat, precision: str) -> torch.dtype:
    if to == "onnx" and precision == "bf16":
        raise InputError("precision bf16: ONNX Runtime computes in fp32; use --engine openvino or torch")
    return choose_precision("fp32" if to == "onnx" else precision, torch.device("cpu"))
