"""Settings of an export, in a module of their own so that `--help` imports nothing heavy."""

from dataclasses import dataclass, fields
from pathlib import Path

from albertine.settings import SettingError, setting
from albertine.settings.export import ExportFormat, ExportPrecision
from albertine.settings.schema import first_changed
from albertine.tasks.settings import DataSettings, Split

# Vectors are of texts alone.
_NOT_FOR_VECTORS = (
    *("exits", "corpus", "split", "text_pair", "label", "label_separator"),
    *("question", "context", "answers", "options", "id"),
)
_NOT_ABOUT_INT8 = ("to", "precision", "task", "exits", "packages")


@dataclass(frozen=True)
class ExportSettings(DataSettings):
    """Format and precision of an export, and the data by which one in int8 is judged."""

    to: ExportFormat = setting(
        "onnx",
        "For ONNX Runtime, for OpenVINO, which is faster on Intel's processors, or as a web page, which runs "
        "the model in the browser.",
    )
    precision: ExportPrecision = setting(
        "fp32", "Precision of the weights; int8 takes a quarter of the space."
    )
    task: str | None = setting(
        None,
        "embed exports the encoder alone, which gives vectors of texts. Else the task of a fine-tuned model "
        "from other programs, whose folder does not name it, such as squad-2.0 if a question may have no "
        "answer; by default that of the fine-tuning.",
    )
    exits: bool = setting(
        False,
        "Write a graph for each block and head, so that --exit and --depth work; a web page always has them.",
    )
    split: Split = setting("dev", "For --precision int8 of a fine-tuned model: split of the data.")
    calibrate: Path | None = setting(
        None,
        "For --to openvino --precision int8: rows that show the model's usual input, or texts for a "
        "pre-trained model; by default those of --data or --corpus. ONNX Runtime needs none.",
    )
    corpus: Path | None = setting(
        None,
        "For --precision int8 of a pre-trained model: corpus with held-out text, for the accuracy before and "
        "after.",
    )

    packages: Path | None = setting(
        None,
        "With --to web: folder with the npm packages of the page, as npm pack writes them; by default npm "
        "fetches them.",
    )

    @property
    def embeds(self) -> bool:
        """Whether the export gives vectors of texts."""
        return self.task == "embed"

    @property
    def in_steps(self) -> bool:
        """Whether each block and head has a graph of its own."""
        return self.exits or self.to == "web"

    def check(self) -> None:
        """Raise `SettingError` if settings of int8 are set for fp32, or a setting has no use."""
        super().check()
        if self.embeds:
            self._check_embeds()
        if self.precision == "fp32":
            for field in fields(self):
                value = getattr(self, field.name)
                if field.name not in _NOT_ABOUT_INT8 and value != field.default:
                    raise SettingError(field.name, value, "needs precision = int8", ("precision",))
        if self.to != "openvino" and self.calibrate is not None:
            raise SettingError(
                "calibrate",
                self.calibrate,
                "needs to = openvino: ONNX Runtime measures its input itself",
                ("to",),
            )
        if self.to != "web" and self.packages is not None:
            raise SettingError("packages", self.packages, "needs to = web", ("to",))

    def _check_embeds(self) -> None:
        """Raise `SettingError` if a setting has no use for vectors of texts."""
        name = first_changed(self, _NOT_FOR_VECTORS)
        if name is not None:
            value = getattr(self, name)
            raise SettingError(name, value, "must not be set with task = embed", ("task",))
        if self.to == "web":
            raise SettingError("to", self.to, "must be onnx or openvino with task = embed", ("task",))
