"""`export.json`: the files of an exported model, with their checksums."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from albertine.checksums import file_checksum
from albertine.errors import InputError, check_format
from albertine.input_files import read_json_object
from albertine.json_input import JsonError, dataclass_from_json
from albertine.settings.export import ExportFormat, ExportPrecision

EXPORT_FILE = "export.json"
EXPORT_AGAIN = "export the model again, with albertine export"
COPY_AGAIN = f"copy it again, or {EXPORT_AGAIN}"
_FORMAT_NUMBER = 3  # of format 1, positions are wrong in OpenVINO; of 2, web exports have other inputs
_FILE_NAME = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*", re.ASCII)


@dataclass(frozen=True)
class ExportRecord:
    """What `export.json` says.

    Attributes:
        to: format of the model.
        precision: precision of its weights.
        in_steps: whether each block and head has a graph of its own.
        checksums: checksum of each of its files, by name; the first is the one to open.
        embeds: whether it gives vectors of texts, in place of the predictions of a head.
    """

    to: ExportFormat
    precision: ExportPrecision
    in_steps: bool
    checksums: dict[str, str]
    embeds: bool = False

    def write(self, folder: Path) -> None:
        """Write `export.json` into a folder."""
        content = {"format": _FORMAT_NUMBER, **asdict(self)}
        (folder / EXPORT_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def check_files(self, folder: Path, advice: str = COPY_AGAIN) -> None:
        """Raise `InputError` if a file of the model is missing or has another checksum.

        Args:
            folder: folder of the export.
            advice: what to do about the file.
        """
        for name, checksum in self.checksums.items():
            if not (folder / name).is_file():
                raise InputError(f"{folder / name}: missing; {advice}")
            if file_checksum(folder / name) != checksum:
                raise InputError(f"{folder / name}: damaged or changed; {advice}")


def exported_graph(folder: Path) -> Path | None:
    """Return the first graph of ONNX or OpenVINO in a folder; None if there is none."""
    openvino = (file for file in folder.glob("*.xml") if file.with_suffix(".bin").exists())
    return min((*folder.glob("*.onnx"), *openvino), default=None)


def read_export_record(folder: Path) -> ExportRecord:
    """Return what `export.json` in a folder says."""
    file = folder / EXPORT_FILE
    content = read_json_object(file, EXPORT_AGAIN)
    check_format(file, content.get("format"), _FORMAT_NUMBER, EXPORT_AGAIN)
    try:
        record = dataclass_from_json(ExportRecord, {key: content[key] for key in content if key != "format"})
    except JsonError as error:
        raise InputError(f"{file}: {error}; {EXPORT_AGAIN}") from None
    if not record.checksums or not all(map(_FILE_NAME.fullmatch, record.checksums)):
        raise InputError(f"{file}: names no files of a model; {EXPORT_AGAIN}")
    return record
