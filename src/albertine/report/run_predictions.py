"""The predictions of a run's model on dev: those beside the model, or new ones if the data is at hand."""

from dataclasses import replace
from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.finetune.dev_outcomes import predict_dev_of_run
from albertine.finetune.dev_predictions import DevPredictions, read_dev_predictions
from albertine.finetune.results import read_finetune_results
from albertine.finetune.settings import FinetuneSettings, SweepSettings
from albertine.settings import build_settings
from albertine.train.run_folder import SETTINGS_FILE, read_run_settings


def run_settings(run: Path) -> FinetuneSettings | None:
    """Return the settings of a fine-tuning run; None if its folder has none."""
    if not (run / SETTINGS_FILE).exists():
        return None
    return build_settings(SweepSettings, read_run_settings(run))


def dev_predictions(folder: Path, run: Path, settings: FinetuneSettings | None) -> DevPredictions | None:
    """Return the predictions of a model on dev, and keep new ones; None with a message if there is no data.

    Args:
        folder: folder of the model.
        run: folder of the run that trained it: the same one, or the best of several.
        settings: settings of its run, which name the data; None if they are lost.
    """
    known = read_dev_predictions(folder)
    if known is not None:
        return known
    try:
        if settings is None:
            raise InputError(f"{folder}: has no {SETTINGS_FILE}, which names the data")
        # The first seed of several runs selects the held-out examples of all.
        results = read_finetune_results(folder) or read_finetune_results(run.resolve().parent)
        if results is not None:
            first_seed = min(result.seed for result in results.runs)
            settings = replace(settings, train=replace(settings.train, seed=first_seed))
        predictions = predict_dev_of_run(folder, run, settings)
    except InputError as error:
        progress.print_message(
            f"the report lacks what the model gets wrong, because its data is not at hand ({error}); "
            f"restore the data and run albertine report {folder} again"
        )
        return None
    predictions.write(folder)
    return predictions
