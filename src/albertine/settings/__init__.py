"""Typed settings: what can be set, its bounds, its presets, and how TOML and the command line reach it.

`schema` says what a setting is, `model` holds the network's, `presets` the
family as data, `layers` lays a file and
the command line over the defaults, `toml` reads and writes files. The settings of a command's own work
live beside that work, in its package.
"""

from albertine.settings.layers import Layer, read
from albertine.settings.model import HeadSettings, ModelSettings
from albertine.settings.presets import MODELS
from albertine.settings.schema import SettingError, Settings, setting
from albertine.settings.toml import layer_from_file, write

__all__ = [
    "MODELS",
    "HeadSettings",
    "Layer",
    "ModelSettings",
    "SettingError",
    "Settings",
    "layer_from_file",
    "read",
    "setting",
    "write",
]
