"""Whether a run has learned the rows that it is evaluated on."""

from contextlib import suppress
from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.inference.ensemble_model import EnsembleModel, TaskModel
from albertine.inference.finetuned_model import FinetunedModel
from albertine.settings.toml import read_settings_file
from albertine.storage.urls import storage_url
from albertine.tasks.task import has_splits
from albertine.text.hub_datasets import HUB_PREFIX, same_dataset

_SETTINGS_FILE = "settings.toml"  # of a run of fine-tuning, in its folder, or in that of each of its seeds


def warn_of_training_data(model: TaskModel, data: str) -> None:
    """Print a message if a model, or a member of an ensemble, was trained on the data."""
    members = model.members if isinstance(model, EnsembleModel) else [model]
    messages = (training_data_message(member, data) for member in members)
    if message := next(filter(None, messages), None):
        progress.print_message(message)


def training_data_message(model: FinetunedModel, data: str) -> str | None:
    """Return a message if a model is that of a run that was trained on the data; None otherwise.

    None also for data that has splits, such as the folder of a task: the rows of training and of evaluation
    then differ.
    """
    if has_splits(data, model.task):
        return None
    with suppress(InputError, OSError):
        settings = next((path for path in _settings_files(model.folder) if path.is_file()), None)
        trained_on = None if settings is None else read_settings_file(settings).values.get("data")
        if isinstance(trained_on, str) and (name := _name_if_same(trained_on, data)) is not None:
            return (
                f"{data}: {model.source} was trained on rows of {name}, so this score can be too high; "
                "`albertine report` shows its score on the examples for evaluation"
            )
    return None


def _settings_files(folder: Path) -> list[Path]:
    return [folder / _SETTINGS_FILE, *sorted(folder.glob(f"*/{_SETTINGS_FILE}"))]


def _name_if_same(trained_on: str, data: str) -> str | None:
    """Return how a message names the data of a run if it is the given data; None if it is other data."""
    if data.startswith(HUB_PREFIX):
        is_same = trained_on.startswith(HUB_PREFIX) and same_dataset(trained_on, data)
        return "this data set" if is_same else None
    if (url := storage_url(data)) is not None:
        return "this file" if storage_url(trained_on) == url else None
    if Path(trained_on).resolve() != Path(data).resolve():
        return None
    # A run stores the path as it was given, which may be of another folder.
    return "this file" if Path(trained_on).is_absolute() else "a file of this name"
