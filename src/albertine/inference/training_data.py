"""Whether a run has learned the rows that it is evaluated on."""

from contextlib import suppress
from pathlib import Path

from albertine.errors import InputError
from albertine.settings.toml import read_settings_file

_SETTINGS_FILE = "settings.toml"  # of a run of fine-tuning, in its folder, or in that of each of its seeds


def training_data_message(model: str | Path, data: str) -> str | None:
    """Return a message if a run in a local folder was trained on a file; None otherwise, and for folders.

    Folders of tasks have splits, so that the rows of training and of evaluation differ.
    """
    folder, file = Path(model), Path(data)
    with suppress(InputError, OSError):
        settings = next((path for path in _settings_files(folder) if path.is_file()), None)
        if settings is None or not file.is_file():
            return None
        trained_on = read_settings_file(settings).values.get("data")
        if isinstance(trained_on, str) and Path(trained_on).resolve() == file.resolve():
            # A run stores the path as it was given, which may be of another folder.
            this = "this file" if Path(trained_on).is_absolute() else "a file of this name"
            return (
                f"{data}: {model} was trained on rows of {this}, so this score can be too high; "
                "`albertine report` shows its score on the examples for evaluation"
            )
    return None


def _settings_files(folder: Path) -> list[Path]:
    return [folder / _SETTINGS_FILE, *sorted(folder.glob(f"*/{_SETTINGS_FILE}"))]
