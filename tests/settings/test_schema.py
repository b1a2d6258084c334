"""Tests of the validation of settings."""

import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from albertine.errors import InputError
from albertine.settings import (
    MODEL_PRESETS,
    ModelSettings,
    SettingError,
    Settings,
    SettingsSource,
    build_settings,
    setting,
)


@dataclass(frozen=True)
class InnerSettings(Settings):
    rate: float = setting(1e-3, "A rate.", minimum=0.0, maximum=1.0)


@dataclass(frozen=True)
class OuterSettings(Settings):
    out: Path | None = setting(None, "A path.")
    count: int = setting(3, "A count.", minimum=1)
    name: str = setting("x", "A name.")
    fast: bool = setting(True, "A flag.")
    inner: InnerSettings = setting(InnerSettings(), "A table.")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count = 0: must be at least 1"),
        ({"count": True}, "count = true: must be an integer"),
        ({"count": 1.0}, "count = 1.0: must be an integer"),
        ({"name": 5}, "name = 5: must be text in quotes"),
        ({"fast": 1}, "fast = 1: must be true or false"),
        ({"out": 3}, "out = 3: must be a path in quotes"),
        ({"inner": 3}, "inner = 3: must be a table"),
    ],
)
def test_wrong_value_error_names_allowed_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        OuterSettings(**values)
    assert str(caught.value) == message


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), float("inf")])
def test_number_out_of_bounds_is_refused(rate: float) -> None:
    with pytest.raises(SettingError):
        InnerSettings(rate=rate)


def test_int_is_accepted_as_float() -> None:
    assert InnerSettings(rate=1).rate == 1


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"heads": 5}, "heads"),
        ({"groups": 5}, "groups"),
        ({"share": "none", "groups": 2}, "groups"),
        ({"share": "ffn", "inner_groups": 2}, "inner_groups"),
        ({"share": "nothing"}, "share"),
        ({"layers": 0}, "layers"),
    ],
)
def test_invalid_model_settings_are_refused(values: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        ModelSettings(**values)
    assert isinstance(caught.value, SettingError)
    assert caught.value.key == key


def test_error_for_heads_suggests_divisors() -> None:
    with pytest.raises(SettingError, match="try 4 or 6"):
        ModelSettings(heads=5)


def test_path_may_be_given_as_text() -> None:
    assert OuterSettings(out="runs/first").out == Path("runs/first")  # type: ignore[arg-type]


def test_explicit_keys_of_an_object_made_in_python_are_those_changed_from_the_defaults() -> None:
    settings = OuterSettings(count=3, name="y", inner=InnerSettings(rate=0.5))
    assert settings.explicit_keys == {"name", "inner.rate"}
    assert OuterSettings().explicit_keys == frozenset()


def test_explicit_keys_of_built_settings_are_those_of_the_sources() -> None:
    file = SettingsSource({"count": 3, "inner": {"rate": 1e-3}}, "recipe.toml")
    settings = build_settings(OuterSettings, file, SettingsSource({"name": "x"}))
    assert settings == OuterSettings()
    assert settings.explicit_keys == {"count", "name", "inner.rate"}
    assert pickle.loads(pickle.dumps(settings)).explicit_keys == settings.explicit_keys
    # `replace` drops the record of the table that it changes, but not those of nested tables.
    assert replace(settings, count=4).explicit_keys == {"count", "inner.rate"}


def test_preset_is_one_explicit_key() -> None:
    settings = build_settings(ModelSettings, SettingsSource({"preset": "albert-tiny", "layers": "7"}))
    assert settings.explicit_keys == {"preset", "layers"}
    assert MODEL_PRESETS["albert-tiny"].explicit_keys == {"preset"}
