"""Edits of a file apply to whatever shape earlier edits have given it."""

import random

import pytest

from tests.campaign.hostile_input import formats
from tests.campaign.hostile_input.formats import Format
from tests.campaign.hostile_input.hostile_values import draw_hostile_values
from tests.campaign.hostile_input.trees import is_writable

_TREES = {
    "JSON": {"a": [1, {"b": "text"}], "c": None},
    "JSON_LINES": [{"text": "one", "label": 0}, {"text": "two", "label": 1}],
    "TOML": {"seed": 3, "model": {"layers": 2, "names": ["a", "b"]}},
    "CSV": [["text", "label"], ["one", "0"], ["two", "1"]],
    "TSV": [["text", "label"], ["one", "0"], ["two", "1"]],
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", _TREES)
def test_edits_follow_one_another(name: str) -> None:
    file_format: Format = getattr(formats, name)
    values = draw_hostile_values(0)
    for seed in range(20):
        rng = random.Random(seed)
        tree = file_format.parse(file_format.write(_TREES[name], random.Random(0)))
        for _ in range(6):
            tree = file_format.edit(tree, rng, values)
            if not is_writable(tree):
                break
            assert isinstance(file_format.write(tree, rng), bytes)


def test_edits_of_a_table_whose_rows_are_no_lists() -> None:
    values = draw_hostile_values(0)
    for seed in range(100):
        formats.CSV.edit([["text", "label"], {"text": "one"}, "two"], random.Random(seed), values)
