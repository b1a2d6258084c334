"""Typed settings with bounds and help texts, from presets, TOML files and the command line.

- `schema`: declaration and validation of settings.
- `model`: settings of the model and its head.
- `presets`: the published models and three small ones.
- `sources`: merges a file and the command line over the defaults.
- `toml`: reads and writes TOML files.

The settings of a command are in the package of the command. The types of the settings for device and
precision, which many commands have, are here.
"""

from typing import Literal

from albertine.settings.model import HeadSettings, ModelSettings
from albertine.settings.presets import MODEL_PRESETS
from albertine.settings.schema import SettingError, Settings, setting
from albertine.settings.sources import SettingsSource, build_settings
from albertine.settings.toml import read_settings_file, settings_from_toml, settings_to_toml

DeviceName = Literal["auto", "cpu", "cuda"]
PrecisionName = Literal["auto", "fp32", "bf16"]

__all__ = [
    "MODEL_PRESETS",
    "DeviceName",
    "HeadSettings",
    "ModelSettings",
    "PrecisionName",
    "SettingError",
    "Settings",
    "SettingsSource",
    "build_settings",
    "read_settings_file",
    "setting",
    "settings_from_toml",
    "settings_to_toml",
]
