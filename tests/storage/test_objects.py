"""Tests of single objects on object storage."""

from typing import Any

import pytest

from albertine.storage import objects


def test_an_object_that_is_replaced_while_it_is_read_is_read_again(
    any_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, original, opened = f"{any_bucket}/note", objects.open_object, list[str]()
    contents = {"before": b"short", "after": b"much longer"}

    def write(content: bytes) -> None:
        with objects.object_writer(url) as stream:
            stream.write(content)

    def replacing_open(url: str) -> Any:
        if not opened:
            write(contents["after"])
        opened.append(url)
        return original(url)

    write(contents["before"])
    monkeypatch.setattr(objects, "open_object", replacing_open)
    assert objects.read_object(url, 100) == contents["after"]
    assert len(opened) == 2
