"""The libraries that conversions to other formats need, which are not installed by default."""

from collections.abc import Sequence
from importlib.util import find_spec

from albertine.errors import InputError
from albertine.extras import install_command
from albertine.settings.export import ExportFormat, ExportPrecision

_PACKAGES = {
    "onnx": ("onnxscript", "onnxruntime"),
    "openvino": ("onnxscript", "openvino"),
    "web": ("onnxscript", "onnxruntime"),
}


def check_libraries(to: ExportFormat, precision: ExportPrecision) -> None:
    """Raise `InputError` if a library is missing that writes or runs a format."""
    packages: Sequence[str] = _PACKAGES[to]
    if to == "openvino" and precision == "int8":
        packages = (*packages, "nncf")
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise InputError(
            f"format {to} needs {', '.join(missing)}, not installed: {install_command('deploy')}"
        )
