"""The folder of an exported model, and opening it with an engine.

FOLDER/export.json             format, precision, checksums of the files of the model, see `ExportRecord`
FOLDER/model.onnx              for ONNX Runtime, or
FOLDER/model.xml, model.bin    for OpenVINO, or
FOLDER/embed.onnx, ...         a graph for each block and head, see `step_files.py`
FOLDER/config.json             settings of the model, as in a checkpoint
FOLDER/tokenizer.json, ...     and the tokenizer and task card of the checkpoint
FOLDER/modules.json, ...       with --task embed: pooling and layers, as in sentence-transformers
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from albertine.device import choose_precision
from albertine.engines.encoder_engine import ExportedEncoderEngine
from albertine.engines.engine import EncoderEngine, Engine
from albertine.engines.exported_engine import Arrays, ExportedEngine, Session
from albertine.engines.no_telemetry import disable_telemetry
from albertine.engines.single_graph_engine import SingleGraphEngine
from albertine.engines.step_files import step_files, step_graphs
from albertine.engines.stepped_engine import SteppedEngine
from albertine.errors import InputError
from albertine.extras import install_command
from albertine.interop.export_record import EXPORT_AGAIN, EXPORT_FILE, ExportRecord, read_export_record
from albertine.interop.sentence_transformers_folder import MODULES_FILE
from albertine.interop.transformers_config import (
    head_settings_from_config,
    label_names_from_config,
    read_config,
    saved_model_settings,
)
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.engine import DEFAULT_OPTIONS, FORMAT_OF_ENGINE, EngineName, EngineOptions
from albertine.settings.export import ExportFormat, ExportPrecision

_LIBRARIES: dict[ExportFormat, str] = {
    "onnx": "ONNX Runtime",
    "openvino": "OpenVINO",
    "web": "ONNX Runtime",
}


@dataclass(frozen=True)
class _CheckedExport:
    """An export whose files are complete, and how to open it.

    Attributes:
        record: what `export.json` says.
        file: the file to open.
        dtype: precision of the products that are not in int8.
        title: name of the engine, for messages.
    """

    record: ExportRecord
    file: Path
    dtype: torch.dtype
    title: str


def read_settings(folder: Path) -> tuple[ModelSettings, HeadSettings, tuple[str, ...]]:
    """Return the settings of an exported model, those of its head, and the names of its labels."""
    if read_export_record(folder).embeds:
        raise InputError(
            f"{folder}: exported with --task embed, so it gives vectors of texts and predicts nothing; use "
            "albertine embed, or export the model without --task embed"
        )
    file = folder / "config.json"
    config = read_config(file)
    model, head = saved_model_settings(config, str(file)), head_settings_from_config(config, str(file))
    if model is None or head is None:
        raise InputError(f"{file}: not the config of an export; {EXPORT_AGAIN}")
    return model, head, label_names_from_config(config, head, str(file))


def open_export(folder: Path, options: EngineOptions = DEFAULT_OPTIONS) -> ExportedEngine:
    """Return an engine that runs an exported model.

    Args:
        folder: folder of the export.
        options: device, engine, and the precision of the products that are not in int8: "fp32", or "bf16"
            with OpenVINO; "auto" is bf16 with OpenVINO where the CPU computes it fast.
    """
    checked = _check(folder, options)
    record, file = checked.record, checked.file
    model, head, _ = read_settings(folder)
    if record.in_steps:
        missing = sorted(set(step_files(model, head, file.suffix)) - record.checksums.keys())
        if missing:
            raise InputError(f"{folder / EXPORT_FILE}: names no {missing[0]}; {EXPORT_AGAIN}")
    return open_engine(record.to, file, checked.dtype, model, head, checked.title, in_steps=record.in_steps)


def open_exported_encoder(folder: Path, options: EngineOptions = DEFAULT_OPTIONS) -> ExportedEncoderEngine:
    """Return an engine that runs an export with `--task embed`; see `open_export`."""
    checked = _check(folder, options)
    if MODULES_FILE not in checked.record.checksums:
        raise InputError(f"{folder / EXPORT_FILE}: names no {MODULES_FILE}; {EXPORT_AGAIN}")
    file = folder / "config.json"
    model = saved_model_settings(read_config(file), str(file))
    if model is None:
        raise InputError(f"{file}: not the config of an export; {EXPORT_AGAIN}")
    session = _session(checked.record.to, checked.file, checked.dtype)
    return ExportedEncoderEngine(session, model, checked.title)


def _check(folder: Path, options: EngineOptions) -> _CheckedExport:
    """Return what an export is; raise `InputError` if it is damaged or cannot be run with these options."""
    record = read_export_record(folder)
    record.check_files(folder)
    if options.engine not in (None, "auto", "onnxruntime" if record.to != "openvino" else "openvino"):
        raise InputError(
            f"{folder}: exported for {_LIBRARIES[record.to]}; --engine {options.engine} needs the checkpoint "
            "that it was made from"
        )
    require_cpu(options.device, "an exported model")
    if record.to != "openvino" and options.precision == "bf16":
        raise InputError(
            f"{folder}: precision bf16: ONNX Runtime computes in fp32; export it with --to openvino"
        )
    dtype = choose_precision(options.precision if record.to == "openvino" else "fp32", torch.device("cpu"))
    file = folder / next(iter(record.checksums))
    return _CheckedExport(record, file, dtype, engine_title(record.to, record.precision, dtype))


def require_cpu(device: str, what: str) -> None:
    """Raise `InputError` unless a device setting means the CPU, on which other libraries run a model."""
    if device not in ("auto", "cpu"):
        raise InputError(f"device {device}: {what} runs on the CPU; run the checkpoint with torch instead")


def open_engine(
    to: ExportFormat,
    file: Path,
    precision: torch.dtype,
    model: ModelSettings,
    head: HeadSettings,
    title: str,
    *,
    in_steps: bool,
) -> ExportedEngine:
    """Return an engine that runs files of a format; raise `InputError` if that is impossible.

    Args:
        to: the format.
        file: the first file; others may be beside it.
        precision: precision of the products that are not in int8.
        model: settings of the encoder.
        head: settings of the head.
        title: name of the engine, for messages.
        in_steps: whether each block and head has a file of its own.
    """
    if not in_steps:
        return SingleGraphEngine(_session(to, file, precision), model, head, title)
    graphs = {
        name: _session(to, file.with_name(name + file.suffix), precision) for name in step_graphs(model, head)
    }
    return SteppedEngine(graphs, model, head, title)


def _session(to: ExportFormat, file: Path, precision: torch.dtype) -> Session:
    """Return a session of a file whose errors name the file."""
    try:
        session = _open_session(to, file, precision)
    except ImportError:
        package = "openvino" if to == "openvino" else "onnxruntime"
        raise InputError(
            f"{file.parent}: needs {package}, which is not installed: {install_command('deploy')}"
        ) from None
    except Exception as error:
        raise _library_error(to, file, "open", error) from error

    def run(inputs: Arrays) -> Arrays:
        try:
            return session(inputs)
        except Exception as error:
            raise _library_error(to, file, "run", error) from error

    return run


def _library_error(to: ExportFormat, file: Path, action: str, error: Exception) -> InputError:
    """Return the error for one of a library, whose types may have any base."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return InputError(f"{file}: {_LIBRARIES[to]} cannot {action} it ({reason}); {EXPORT_AGAIN}")


def _open_session(to: ExportFormat, file: Path, precision: torch.dtype) -> Session:
    # Each library is imported only when it is used.
    if to != "openvino":
        from albertine.engines.onnxruntime_session import open_onnxruntime

        return open_onnxruntime(file)
    disable_telemetry()
    from albertine.engines.openvino_session import open_openvino

    return open_openvino(file, precision)


def engine_name(engine: Engine | EncoderEngine) -> EngineName:
    """Return the option `--engine` that gives the library of an engine."""
    libraries = {name: _LIBRARIES[to] for name, to in FORMAT_OF_ENGINE.items()}
    return next((name for name, title in libraries.items() if engine.name.startswith(title)), "torch")


def engine_title(to: ExportFormat, weights: ExportPrecision, precision: torch.dtype) -> str:
    """Return the name of a library and the precision in which it computes."""
    rest = "bf16" if precision == torch.bfloat16 else "fp32"
    return f"{_LIBRARIES[to]}, {rest if weights == 'fp32' else f'int8 and {rest}'}"
