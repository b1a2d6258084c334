"""A settings object that exists is valid."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from albertine.errors import InputError
from albertine.settings import ModelSettings, SettingError, Settings, setting


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
        ({"count": True}, "count = true: must be a whole number"),
        ({"count": 1.0}, "count = 1.0: must be a whole number"),
        ({"name": 5}, "name = 5: must be text in quotes"),
        ({"fast": 1}, "fast = 1: must be true or false"),
        ({"out": 3}, "out = 3: must be a path in quotes"),
        ({"inner": 3}, "inner = 3: must be a table"),
    ],
)
def test_wrong_value_error_says_what_is_allowed(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        OuterSettings(**values)
    assert str(caught.value) == message


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), float("inf")])
def test_numbers_stay_within_their_bounds(rate: float) -> None:
    with pytest.raises(SettingError):
        InnerSettings(rate=rate)


def test_a_whole_number_serves_as_a_float() -> None:
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


def test_wrong_heads_error_suggests_divisors() -> None:
    with pytest.raises(SettingError, match="try 4 or 6"):
        ModelSettings(heads=5)
