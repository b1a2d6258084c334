"""Runs a model that was exported for browsers: graphs for the embedding, each block, and the head.

As in a browser, the block is called in a loop, for one sequence at a time.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

from albertine.engines.exported_engine import AT_FIRST_TOKEN, Session
from albertine.engines.web_files import EMBED_FILE, block_files, head_files
from albertine.errors import InputError
from albertine.settings import HeadSettings, ModelSettings

Arrays = Mapping[str, NDArray[Any]]


def open_web(folder: Path, settings: ModelSettings, head: HeadSettings) -> Session:
    """Return a session of the graphs in a folder, on as many threads of the CPU as torch uses.

    Any exception of the library means that a file is damaged, or needs a newer version.
    """
    steps, last_head = block_files(settings), head_files(settings, head)[-1]
    graphs = {
        name: _Graph(folder / name)
        for name in {EMBED_FILE, last_head, *(name for files in steps for name in files)}
    }

    def run_sequence(ids: NDArray[Any], segments: NDArray[Any]) -> Arrays:
        (states,) = (
            graphs[EMBED_FILE].run({"input_ids": ids[None], "token_type_ids": segments[None]}).values()
        )
        for step, files in enumerate(steps):
            for name in files:
                inputs: dict[str, NDArray[Any]] = {"states": states}
                if settings.step_signal:
                    inputs["step"] = np.array(step, np.int64)
                (states,) = graphs[name].run(inputs).values()
        return graphs[last_head].run({"states": states})

    def run(inputs: Arrays) -> Arrays:
        ids, mask, segments = (inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids"))
        result: dict[str, NDArray[Any]] = {}
        for row, number, at in _sequences(mask):
            for name, values in run_sequence(ids[row, at], segments[row, at]).items():
                if name in graphs[last_head].token_outputs:
                    _rows(result, name, (*mask.shape, *values.shape[2:]))[row, at] = values[0]
                    continue
                _rows(result, AT_FIRST_TOKEN + name, (*mask.shape, *values.shape[1:]))[row, at[0]] = values[0]
                if number == 0:
                    _rows(result, name, (len(mask), *values.shape[1:]))[row] = values[0]
        return result

    return run


class _Graph:
    """A graph in ONNX Runtime.

    Attributes:
        token_outputs: names of the outputs with a row for each token.
    """

    def __init__(self, file: Path):
        self._file = file
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors only
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        outputs = self._session.get_outputs()
        self._names = [output.name for output in outputs]
        # Dimensions without a fixed size are texts.
        self.token_outputs = {
            output.name for output in outputs if len(output.shape) > 1 and isinstance(output.shape[1], str)
        }

    def run(self, inputs: Arrays) -> Arrays:
        """Return the outputs by name."""
        try:
            values = self._session.run(self._names, dict(inputs))
        except Exception as error:  # the library raises types of its own, derived from RuntimeError or not
            reason = str(error).strip().partition("\n")[0]
            raise InputError(
                f"{self._file}: ONNX Runtime cannot run it ({reason}); export the model again"
            ) from error
        return dict(zip(self._names, values, strict=True))


def _sequences(mask: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Yield the row of each sequence, its index there, and the indices of its tokens there.

    The mask is that of an export of one graph; see `model/padded.py`.
    """
    for row, numbers in enumerate(mask):
        for index, number in enumerate(dict.fromkeys(numbers[numbers != 0].tolist())):
            yield row, index, np.flatnonzero(numbers == number)


def _rows(result: dict[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array of an output; zeros if it is new."""
    return result.setdefault(name, np.zeros(shape, np.float32))
