"""The systematic trials reach every value of a file and leave the valid tree as it was."""

import pytest

from tests.campaign.hostile_input import trees
from tests.campaign.hostile_input.every_value import value_keys, with_value
from tests.campaign.hostile_input.trees import is_writable


def test_every_value_is_changed_alone() -> None:
    tree = {"a": [1, {"b": 2}], "c": {}}
    assert list(value_keys(tree)) == [("a",), ("a", 0), ("a", 1), ("a", 1, "b"), ("c",)]
    assert with_value(tree, ("a", 1, "b"), None) == {"a": [1, {"b": None}], "c": {}}
    assert with_value(tree, ("c",), 5) == {"a": [1, {"b": 2}], "c": 5}
    assert tree == {"a": [1, {"b": 2}], "c": {}}


def test_long_lists_are_changed_at_their_beginning() -> None:
    assert list(value_keys(list(range(1000)))) == [(index,) for index in range(6)]


def test_a_tree_that_repeats_its_parts_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_MAX_WRITTEN_SIZE", 200_000)
    tree: list[object] = ["x"]
    for _ in range(12):
        tree = [tree] * 5
    assert not is_writable(tree)
    assert is_writable([{"a": "b"}] * 1000)
