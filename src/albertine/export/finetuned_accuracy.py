"""Judges a fine-tuned model in int8 by the metrics of its task."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from albertine import progress
from albertine.export.accuracy import CALIBRATION_ROWS, CALIBRATION_TOKENS, Accuracy, Judge, sample_rows
from albertine.export.settings import ExportSettings
from albertine.inference.evaluate import evaluate_split
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned
from albertine.inference.read_split import read_split
from albertine.inference.training_data import training_data_message
from albertine.model.strip import Strip
from albertine.settings.engine import EngineOptions
from albertine.tasks.card import COLUMN_SETTINGS
from albertine.tasks.examples import Example
from albertine.tasks.metrics.display import format_metrics, shown_metrics
from albertine.tasks.sequences import longest_first_groups, strip_from_samples
from albertine.tasks.settings import DataSettings

_CHECKED_ROWS = 256  # read before the export is made; all are read when it is evaluated


class FinetunedJudge(Judge):
    """Computes the metrics of the task, on labeled rows."""

    def __init__(self, model: FinetunedModel, settings: ExportSettings):
        self._model = model
        self.has_labels = settings.data is not None
        self._calibration = settings if settings.calibrate is None else _of_calibration(settings)
        is_official = settings.data is not None and model.task.has_official_layout(settings.data)
        # The columns are then those of the table that calibrates.
        has_own_columns = is_official and settings.calibrate is not None
        self._settings = _without_columns(settings) if has_own_columns else settings
        self._training_data = None if settings.data is None else training_data_message(model, settings.data)

    def check_data(self) -> None:
        """Raise `InputError` if the data cannot be read or has other labels, before the export is made."""
        next(self._calibration_examples())
        if self.has_labels:
            examples = read_split(
                self._model, self._split_name(self._settings), self._settings, require_labels=True
            )
            self._model.task_type.encode(
                list(islice(examples, _CHECKED_ROWS))
            )  # their labels are the model's

    def calibration_strips(self) -> Sequence[Strip]:
        """Return rows of the calibration, whose labels are not needed."""
        rows = sample_rows(self._calibration_examples(), CALIBRATION_ROWS)
        encoded = self._model.create_scorer().encode(rows)
        samples = [sample for example in encoded for sample in example.samples]
        groups = longest_first_groups(samples, CALIBRATION_TOKENS)
        return [strip_from_samples([samples[index] for index in group]) for group in groups]

    def score_source(self) -> Accuracy:
        """Return the metrics of the source."""
        if self._training_data is not None:
            progress.print_message(self._training_data)
        return self._accuracy(self._model)

    def score_export(self, folder: Path) -> Accuracy:
        """Return the metrics of the export."""
        exported = load_finetuned(folder, EngineOptions("cpu"))
        # For messages: the folder still has its temporary name.
        return self._accuracy(replace(exported, source=f"{self._model.source} in int8"))

    def _accuracy(self, model: FinetunedModel) -> Accuracy:
        result = evaluate_split(model, self._split_name(self._settings), self._settings)
        shown = {name: result.metrics[name] for name in shown_metrics(result.metrics)}
        unit = "examples" if self._training_data is None else "examples of the data that it was trained on"
        return Accuracy(result.primary_metric, format_metrics(shown), result.num_examples, unit)

    def _calibration_examples(self) -> Iterator[Example]:
        settings, card = self._calibration, self._model.card
        # No id is written, so a table may lack the column of ids that the training data had.
        columns = {name: column for name, column in card.columns.items() if name != "id"}
        model = replace(self._model, card=replace(card, columns=columns))
        return read_split(model, self._split_name(settings), settings, require_labels=False)

    def _split_name(self, settings: ExportSettings) -> str:
        """Return the name of the first part of the split: a folder and a table can differ in it."""
        assert settings.data is not None
        return self._model.task.split_names(settings.split, settings.data)[0]


def _without_columns(settings: ExportSettings) -> ExportSettings:
    """Return settings that name no columns."""
    names, defaults = (*COLUMN_SETTINGS, "header"), DataSettings()
    plain = replace(settings, **{name: getattr(defaults, name) for name in names})
    return plain.with_explicit_keys(settings.explicit_keys.difference(names))


def _of_calibration(settings: ExportSettings) -> ExportSettings:
    """Return settings whose data are the table that calibrates, which has no splits."""
    changed = replace(settings, data=str(settings.calibrate), split="dev")
    return changed.with_explicit_keys(settings.explicit_keys - {"split"})
