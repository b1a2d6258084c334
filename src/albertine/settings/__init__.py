"""Typed settings: what can be set, its bounds, its presets, and how TOML and the command line reach it.

`schema` says what a setting is, `model` holds the network's, `presets` the
family as data, `toml` reads and writes. The settings of a command's own work
live beside that work, in its package.
"""

from albertine.settings.model import ModelSettings
from albertine.settings.presets import MODELS
from albertine.settings.schema import SettingError, Settings, setting
from albertine.settings.toml import Layer, layer_from_file, read, write

__all__ = [
    "MODELS",
    "Layer",
    "ModelSettings",
    "SettingError",
    "Settings",
    "layer_from_file",
    "read",
    "setting",
    "write",
]
