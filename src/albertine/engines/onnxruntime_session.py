"""Runs an exported model with ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from numpy.typing import NDArray

from albertine.engines.exported_engine import Session


def open_onnxruntime(file: Path) -> Session:
    """Return a session of an ONNX file, on as many threads of the CPU as torch uses.

    Any exception of the library means that the file is damaged, or needs a newer version.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))

    return run
