import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.storage.urls import is_safe_name, storage_url


def test_urls_and_paths_are_told_apart() -> None:
    assert storage_url("s3://bucket/a/b") == "s3://bucket/a/b"
    assert storage_url(Path("s3://bucket/a/b/")) == "s3://bucket/a/b"
    assert storage_url("gs://bucket") == "gs://bucket"
    assert storage_url("hf://datasets/owner/name@main/x.txt") == "hf://datasets/owner/name@main/x.txt"
    for path in ("", "a", "/s3/x", "s3", "./s3:/x", "owner/name", "hub:owner/name", "C:/x", "s3:x"):
        assert storage_url(path) is None


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIAKEY:hunter2@bucket/x",
        "s3://AKIAKEY:hun/ter2@bucket/x",
        "s3://hunter2@bucket/x",
        "s3://bucket/x?X-Amz-Signature=hunter2",
        "gs://user:hunter2@bucket/x",
        "hf://user:hunter2@owner/x",
        "https://bucket.s3.amazonaws.com/x?X-Amz-Signature=hunter2",
        "s3a://user:hunter2@bucket",
    ],
)
@pytest.mark.parametrize("as_path", [False, True])
def test_urls_with_secrets_are_refused_without_repeating_them(url: str, as_path: bool) -> None:
    with pytest.raises(InputError) as raised:
        storage_url(Path(url) if as_path else url)
    assert "hunter2" not in str(raised.value)
    assert "AKIAKEY" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        str(Path("gs://")),
        "s3://b/../c",
        "s3://b/./c",
        "s3://b//c",
        "s3://b/\n",
        "gs://b\\c",
        "hf://owner",
        "hf://datasets/owner",
    ],
)
def test_urls_that_name_nothing_are_refused(url: str) -> None:
    with pytest.raises(InputError):
        assert storage_url(url)


@given(st.text(string.ascii_letters + "./\\~\0 ", max_size=12))
def test_safe_names_stay_in_their_folder(name: str) -> None:
    if is_safe_name(name):
        folder = Path("/cache/entry")
        joined = (folder / name).resolve()
        assert joined.is_relative_to(folder)
        assert joined != folder
        assert str(joined.relative_to(folder)) == name


@pytest.mark.parametrize(
    "command",
    [
        "compare a b --out s3://b/x.html",
        "report x --out hf://a/b.html",
        "report-card x --out s3://b/x",
        "ensemble a b --data y --save gs://b/x",
        "demo --out s3://b/x",
    ],
)
def test_an_output_that_must_be_local_is_not_a_folder_named_s3(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(app, command.split()) == 2
    assert "must be a local path" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
