"""Chooses what judges an export in int8, from the kind of its model and the data in the settings."""

from dataclasses import fields
from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.export.accuracy import Judge, missing_data_message
from albertine.export.finetuned_accuracy import FinetunedJudge
from albertine.export.pretrained_accuracy import PretrainedJudge
from albertine.export.settings import ExportSettings
from albertine.inference.finetuned_model import finetuned_from_model
from albertine.interop.load import has_masked_head
from albertine.model.model import Model
from albertine.settings.engine import EngineOptions
from albertine.tasks.settings import DataSettings
from albertine.text.tokenizer import load_tokenizer

# Of a file of texts, which calibrates a pre-trained model.
_SETTINGS_OF_TEXTS = ("text", "header", "on_error")
_SETTINGS_OF_LABELED_DATA = (
    *(field.name for field in fields(DataSettings) if field.name not in _SETTINGS_OF_TEXTS),
    "split",
)


def create_judge(
    source: str, folder: Path, model: Model, settings: ExportSettings, *, must_judge: bool
) -> Judge | None:
    """Return the judge of a model, from the data in the settings; None if none is needed.

    Args:
        source: name given by the user.
        folder: folder of the checkpoint.
        model: the model.
        settings: the data.
        must_judge: raise `InputError` without data.
    """
    is_pretrained = has_masked_head(model)
    option = "corpus" if is_pretrained else "data"
    for name in _unused_settings(settings, is_pretrained=is_pretrained):
        if getattr(settings, name) != getattr(ExportSettings(), name):
            kind = "pre-trained" if is_pretrained else "fine-tuned"
            raise InputError(f"--{name.replace('_', '-')}: {source} is {kind}; give --{option}")
    if getattr(settings, option) is None:
        needs_calibration = settings.to == "openvino" and settings.calibrate is None
        if must_judge or needs_calibration:
            shown = "held-out texts" if is_pretrained else "labeled rows"
            raise InputError(
                missing_data_message(
                    option, shown, must_judge=must_judge, needs_calibration=needs_calibration
                )
            )
        if settings.calibrate is None:
            return None
    if is_pretrained:
        return PretrainedJudge(source, model, load_tokenizer(folder), settings)
    with progress.quiet_output():  # the export has said how the task names the labels
        finetuned = finetuned_from_model(
            source, folder, model, EngineOptions("cpu", "fp32"), task=settings.task, fixed_options=True
        )
    judge = FinetunedJudge(finetuned, settings)
    judge.check_data()
    return judge


def _unused_settings(settings: ExportSettings, *, is_pretrained: bool) -> tuple[str, ...]:
    if not is_pretrained:
        return ("corpus",)
    return (*_SETTINGS_OF_LABELED_DATA, *(() if settings.calibrate else _SETTINGS_OF_TEXTS))
