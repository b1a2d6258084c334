"""What the hash of a study run is computed from: all that its weights depend on."""

import tomllib
from typing import Any

from albertine.pretrain.settings import PretrainSettings
from albertine.settings import settings_to_toml

# Raise it if the same settings give other results, such as after a change of a measure.
RESULTS_VERSION = 4
# They change where a run computes and what it stores, but not what it learns. Settings that change only
# the speed count, because seconds are a measure.
_SETTINGS_WITHOUT_EFFECT = (
    "corpus",
    "device",
    "workers",
    "train.save_every",
    "train.save_minutes",
    "train.keep_checkpoints",
    "train.tracker",
)
# Newer than the stored runs: their default is what all runs without them have.
_NEW_SETTINGS = {"model.mark_matches": False, "objective.causal_fraction": 0.0}


def run_identity(settings: PretrainSettings, corpus_checksum: str, start: str | None) -> dict[str, Any]:
    """Return the values that the hash of a run is computed from.

    Args:
        settings: settings of the run, with all defaults as values.
        corpus_checksum: checksum of the corpus.
        start: hash of the run whose weights it starts from; None for random weights.
    """
    tables = {
        key: dict(value) if isinstance(value, dict) else {"": value}
        for key, value in tomllib.loads(settings_to_toml(settings)).items()
    }
    for name in _SETTINGS_WITHOUT_EFFECT:
        table, _, key = name.rpartition(".")
        tables.get(table or key, {}).pop(key if table else "", None)
    for name, default in _NEW_SETTINGS.items():
        table, _, key = name.rpartition(".")
        if tables[table][key] == default:
            del tables[table][key]
    if start is not None:
        tables["init_from"] = {"": start}
    return {"version": RESULTS_VERSION, "corpus": corpus_checksum, "settings": tables}
