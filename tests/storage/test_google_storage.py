"""What is particular to Google Cloud Storage: its credentials, its errors, and a server in its place."""

import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.storage import file_systems
from albertine.storage.objects import find_object, list_objects

from .test_folders import one_line_error
from .test_texts_and_corpora import upload_plainly


@pytest.fixture(autouse=True)
def short_attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(file_systems, "_REQUEST_SECONDS", 1)
    file_systems._gs.cache_clear()
    yield
    file_systems._gs.cache_clear()


@pytest.fixture
def no_google_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide a home without credentials, on a machine that is none of Google's."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_GCLOUD_ADC_PATH_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_ROOT", "256.0.0.1")
    file_systems._is_google_machine.cache_clear()
    yield
    file_systems._is_google_machine.cache_clear()


def test_without_credentials_one_line_says_where_they_belong(
    empty_cache: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key.json"
    for problem in ("missing file", "no key"):
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
        message = one_line_error("gs://bucket/x")
        assert "no valid credentials; they belong in GOOGLE_APPLICATION_CREDENTIALS" in message, problem
        assert str(key) not in message
        key.write_text("{}")


def test_no_credentials_at_all_are_noticed_at_once(empty_cache: None, no_google_credentials: None) -> None:
    message = one_line_error("gs://bucket")
    assert "gs://bucket: no credentials; they belong in GOOGLE_APPLICATION_CREDENTIALS" in message


def test_credentials_are_where_the_library_looks(
    no_google_credentials: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not file_systems._has_google_credentials()
    monkeypatch.setenv("GOOGLE_GCLOUD_ADC_PATH_OVERRIDE", str(tmp_path / "key.json"))
    assert not file_systems._has_google_credentials()
    (tmp_path / "key.json").write_text("{}")
    assert file_systems._has_google_credentials()
    (tmp_path / "key.json").unlink()
    with socket.create_server(("127.0.0.1", 0)) as server:  # in place of that of a machine of Google's
        monkeypatch.setenv("GCE_METADATA_ROOT", f"127.0.0.1:{server.getsockname()[1]}")
        file_systems._is_google_machine.cache_clear()
        assert file_systems._has_google_credentials()


def test_a_lost_connection_gives_one_line(google_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"127.0.0.1:{unused.getsockname()[1]}")
    assert "no connection" in one_line_error(f"{google_bucket}/x")


def test_a_wrong_address_of_an_emulator_is_refused(
    google_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "ftp://127.0.0.1")
    with pytest.raises(InputError, match="STORAGE_EMULATOR_HOST: not a URL; expected http"):
        find_object(f"{google_bucket}/x")


@pytest.mark.slow
def test_the_commands_work_in_a_bucket(
    google_bucket: str, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From text to a resumed run, all in the bucket."""
    upload_plainly(text if text.is_dir() else text.parent, f"{google_bucket}/text")
    options = "--model.layers 1 --model.hidden-size 32 --model.heads 2 --objective.max-length 32"
    corpus, run = f"{google_bucket}/corpus", f"{google_bucket}/runs/first"
    for command in (
        f"tokenizer train {google_bucket}/text --vocab-size 300 --out {google_bucket}/tokenizer",
        f"corpus build {google_bucket}/text --tokenizer {google_bucket}/tokenizer --out {corpus}",
        f"pretrain --corpus {corpus} --train.steps 2 {options} --out {run}",
        f"info {run}",
    ):
        assert run_command(app, shlex.split(command)) == 0, capsys.readouterr().err
    assert "albertine-folder.json" in list_objects(run)
