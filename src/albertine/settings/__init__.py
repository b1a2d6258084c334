"""Typed settings: what can be set, its bounds, its presets, and how TOML and the command line reach it.

`schema` says what a setting is, `model` holds the network's, `presets` the
family as data, `layers` lays a file and
the command line over the defaults, `toml` reads and writes files. The settings of a command's own work
live beside that work, in its package.
"""

from albertine.settings.model import HeadSettings, ModelSettings
from albertine.settings.presets import MODEL_PRESETS
from albertine.settings.schema import SettingError, Settings, setting
from albertine.settings.sources import SettingsSource, build_settings
from albertine.settings.toml import read_settings_file, settings_to_toml

__all__ = [
    "MODEL_PRESETS",
    "HeadSettings",
    "ModelSettings",
    "SettingError",
    "Settings",
    "SettingsSource",
    "build_settings",
    "read_settings_file",
    "setting",
    "settings_to_toml",
]
