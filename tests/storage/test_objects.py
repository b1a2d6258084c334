"""Tests of single objects on object storage."""

import gzip
import io
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from albertine.errors import InputError
from albertine.storage import objects
from albertine.text import sources
from albertine.text.documents import read_documents, read_texts
from albertine.text.find_sources import find_sources
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import ReadingSettings


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


def write(url: str, content: bytes) -> None:
    with objects.object_writer(url) as stream:
        stream.write(content)


def test_a_part_of_a_replaced_object_is_refused(any_bucket: str) -> None:
    """The library would fill the rest of the range with random memory."""
    url = f"{any_bucket}/note"
    write(url, b"0123456789" * 1000)
    for first, second in ((0, 10), (9_000, 1_000)):
        with (
            pytest.raises(objects.ReplacedError, match="note: replaced while it was read; run the command"),
            objects.open_object(url, 100) as stream,
        ):
            write(url, b"012")
            stream.seek(first)
            stream.read(second)
        write(url, b"0123456789" * 1000)
    with objects.open_object(url, 100) as stream:
        stream.seek(9_995)
        assert stream.read() == b"56789"


def test_a_text_that_is_replaced_between_two_chunks_is_refused(
    any_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK_BYTES", 100)
    url = f"{any_bucket}/text.txt"
    write(url, b"Some words.\n" * 30)
    (source,) = find_sources([url])
    first, second, *_ = sources.source_chunks(source)
    assert b"Some words." in b"".join(content for _, content in sources.read_blocks(first))
    write(url, b"Others.\n" * 10)
    with pytest.raises(InputError, match="replaced while it was read"):
        list(sources.read_blocks(second))


def test_a_compressed_text_that_is_replaced_is_refused(any_bucket: str) -> None:
    url = f"{any_bucket}/text.txt.gz"
    write(url, gzip.compress(b"Some words.\n"))
    (source,) = find_sources([url])
    write(url, gzip.compress(b"Others.\n"))
    with pytest.raises(InputError, match="replaced while it was read"):
        list(sources.read_blocks(*sources.source_chunks(source)))


def parquet_bytes(*texts: str) -> bytes:
    """Return a Parquet file with a row group for each text."""
    stream = io.BytesIO()
    parquet.write_table(pa.table({"text": texts}), stream, row_group_size=1)
    return stream.getvalue()


def test_a_parquet_file_that_is_replaced_between_two_chunks_is_refused(any_bucket: str) -> None:
    url = f"{any_bucket}/text.parquet"
    write(url, parquet_bytes("One.", "Two."))
    (source,) = find_sources([url])
    first, second = sources.source_chunks(source)
    assert list(read_documents(first, ReadingSettings(), ReadErrors(skip=False))) == [["One."]]
    write(url, parquet_bytes("Others.", "And more."))
    for skip in (False, True):  # the rest of a file that does not exist any more is no invalid record
        with pytest.raises(InputError, match="replaced while it was read"):
            list(read_documents(second, ReadingSettings(), ReadErrors(skip=skip)))
        with pytest.raises(InputError, match="replaced while it was read"):
            list(read_texts(second, ReadingSettings(), ReadErrors(skip=skip)))


def test_an_object_that_grows_while_it_is_opened_is_refused(
    any_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, find_object = f"{any_bucket}/note", objects.find_object

    def replacing_find(url: str) -> objects.StoredObject | None:
        write(url, b"much longer")
        return find_object(url)

    write(url, b"short")
    monkeypatch.setattr(objects, "find_object", replacing_find)
    with pytest.raises(objects.ReplacedError):
        objects.open_object(url)
