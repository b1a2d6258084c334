"""Runs an exported model with OpenVINO."""

import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import openvino
import torch
from numpy.typing import NDArray

from albertine.engines.exported_engine import Session

# Prepared operations that are kept; each shape of the input needs several, which take 5 to 10 MB with an
# ALBERT-base in int8. The library's default is 5,000.
_CACHED_OPERATIONS = 1_000
_HINTS = {torch.float32: "f32", torch.bfloat16: "bf16"}


@cache
def openvino_core() -> openvino.Core:
    """Return the only instance of this process, which stays until its end.

    Each sets a stack for signal handlers. If an older one is destroyed first, the younger one then restores
    a stack that is gone, and the next signal kills the process (OpenVINO 2026.4).
    """
    return openvino.Core()


def open_openvino(model: Path, precision: torch.dtype) -> Session:
    """Return a session of an OpenVINO model, on as many threads of the CPU as torch uses.

    Any exception of the library means that the files are damaged, or need a newer version.

    Args:
        model: the .xml file, beside its .bin.
        precision: precision of the products that are not in int8.
    """
    core = openvino_core()
    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": _HINTS[precision],
        "PERFORMANCE_HINT": "LATENCY",
        "CPU_RUNTIME_CACHE_CAPACITY": _CACHED_OPERATIONS,
    }
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    names = {output: output.any_name for output in compiled.outputs}
    of_thread = threading.local()  # a request holds the state of one call

    def run(inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        if not hasattr(of_thread, "request"):
            of_thread.request = compiled.create_infer_request()
        results = of_thread.request.infer(dict(inputs))
        return {name: results[output].copy() for output, name in names.items()}

    return run
