"""Tests for JSON output: it can be read by any program, and shown on any terminal."""

import json

import pytest

from albertine.json_output import json_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"a": [1.5, float("nan")], "b": (float("inf"), -float("inf"))},
            '{"a": [1.5, null], "b": [null, null]}',
        ),
        ({"nan": "NaN"}, '{"nan": "NaN"}'),
        ("\x1b[31m\ud800", '"\\u001b[31m\\ud800"'),
        ("\U000e0001", '"\\udb40\\udc01"'),
        ("Straße 🎵", '"Straße 🎵"'),
    ],
)
def test_text_is_strict_json_without_control_characters(value: object, text: str) -> None:
    assert json_text(value) == text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
