"""What commands write to URLs of object storage has the bytes of what they write to local paths."""

import errno
import json
import signal
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from albertine import progress
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError, WorkError
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.storage import file_systems, objects, output_file, upload
from albertine.storage.cache import cache_folder, download_folder, work_folder
from albertine.storage.objects import find_object, open_object
from albertine.tasks.registry import find_task
from tests.task_fixtures import checkpoint, finetune_settings, reviews, write_csv

from .conftest import SECRET_KEY
from .test_folders import content, write_object

__all__ = ["checkpoint", "finetune_settings"]


def read(url: str) -> bytes:
    with open_object(url) as stream:
        return stream.read()


def kept_files() -> list[Path]:
    """The files of results that are kept on this machine."""
    paths = (cache_folder() / "outputs").rglob("*")
    return [path for path in paths if path.is_file() and path.suffix != ".lock"]


@pytest.fixture
def run(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> Path:
    finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    return tmp_path / "run"


@pytest.mark.slow
def test_tables_and_vectors_have_the_bytes_of_local_files(
    bucket: str, run: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_csv(tmp_path / "new.csv", reviews(9, 12))
    texts = tmp_path / "texts.txt"
    texts.write_text("ka le\nmo\n")
    second_run = copytree(run, tmp_path / "second-run")
    for command, name in (
        (f"predict {run} --data {data}", "answers.csv"),
        (f"predict {run} --data {data}", "answers.jsonl"),
        (f"embed {checkpoint} --data {texts}", "vectors.npy"),
        (f"embed {checkpoint} --data {texts}", "vectors.jsonl"),
        (f"score {checkpoint} --data {texts}", "scores.tsv"),
        (f"ensemble {run} {second_run} --data {data}", "ensemble.csv"),
    ):
        local, url = tmp_path / "local" / name, f"{bucket}/new/{name}"
        for out in (str(local), url):
            assert run_command(app, [*command.split(), "--out", out]) == 0, capsys.readouterr().err
        assert f"{url}: " in capsys.readouterr().err
        assert read(url) == local.read_bytes()
    assert kept_files() == []


def test_an_existing_object_is_refused_before_the_model_is_loaded(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("ka le\n")
    for name in ("old.jsonl", "old.npy", "world/albertine-folder.json"):
        write_object(f"{bucket}/{name}", b"old")
    for command, url in (
        (f"score none --data {texts} --out {bucket}/old.jsonl", f"{bucket}/old.jsonl"),
        (f"embed none --data {texts} --out {bucket}/old.npy", f"{bucket}/old.npy"),
        (f"world write {bucket}/world", f"{bucket}/world"),
        (f"export none --out {bucket}/world", f"{bucket}/world"),
        (f"convert none {bucket}/world", f"{bucket}/world"),
    ):
        assert run_command(app, command.split()) == 2
        error = capsys.readouterr().err
        assert f"{url}: exists already; name another" in error
        assert len(error.splitlines()) == 1
    assert read(f"{bucket}/old.npy") == b"old"


@pytest.mark.parametrize(
    "command",
    [
        "score none --data texts.txt --out hf://a/b/x.jsonl",
        "embed none --data texts.txt --out hf://a/b/x.npy",
        "export none --out hf://a/b",
        "convert none hf://a/b",
        "world write hf://a/b",
        "tokenizer train texts.txt --out hf://a/b",
        "corpus build texts.txt --out hf://a/b --tokenizer none",
    ],
)
def test_the_hub_is_refused_before_any_work(
    command: str, s3_environment: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, command.split()) == 2
    error = capsys.readouterr().err
    assert "cannot write to the hub; write to a local path, and upload it with `hf upload`" in error
    assert len(error.splitlines()) == 1


def test_a_failed_upload_keeps_the_finished_file(
    bucket: str,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("ka le\nmo\n")
    command = ["score", str(checkpoint), "--data", str(texts), "--out"]
    assert run_command(app, [*command, str(tmp_path / "scores.csv")]) == 0
    capsys.readouterr()

    def lost(url: str) -> None:
        raise InputError(f"{url}: no connection")

    with monkeypatch.context() as patch:
        patch.setattr(output_file, "object_writer", lost)
        assert run_command(app, [*command, f"{bucket}/scores.csv"]) == 2
    error = capsys.readouterr().err
    (kept,) = kept_files()
    assert error.splitlines()[-1].endswith(
        f"{bucket}/scores.csv: no connection; the finished result is {kept}"
    )
    assert kept.read_bytes() == (tmp_path / "scores.csv").read_bytes()
    assert find_object(f"{bucket}/scores.csv") is None
    assert run_command(app, [*command, f"{bucket}/scores.csv"]) == 0
    assert read(f"{bucket}/scores.csv") == (tmp_path / "scores.csv").read_bytes()
    assert kept_files() == []
    assert SECRET_KEY not in error


def test_an_interrupted_upload_leaves_no_object(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    class Counter:
        def __enter__(self) -> object:
            return interrupt

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(progress, "progress_counter", lambda *_, **__: Counter())
    url = f"{bucket}/x.csv"
    with pytest.raises(KeyboardInterrupt), output_file.output_file(Path(url)) as file:
        file.write_bytes(b"x" * (9 << 20))
    assert find_object(url) is None
    (kept,) = kept_files()
    assert kept.stat().st_size == 9 << 20
    assert capsys.readouterr().err == f"{url}: not uploaded; the finished result is {kept}\n"


_KILLED_UPLOAD = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from albertine.storage import output_file
@contextmanager
def die_after_a_block(*_, **__):
    yield lambda _: os.kill(os.getpid(), signal.SIGKILL)
output_file.progress.progress_counter = die_after_a_block
with output_file.output_file(Path(sys.argv[1])) as file:
    file.write_bytes(b"x" * (20 << 20))
"""


@pytest.mark.slow
def test_a_killed_upload_leaves_no_object_and_can_be_repeated(any_bucket: str) -> None:
    url = f"{any_bucket}/x.csv"
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_UPLOAD, url],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert find_object(url) is None
    (kept,) = kept_files()
    assert kept.stat().st_size == 20 << 20
    with output_file.output_file(Path(url)) as file:
        file.write_bytes(b"again")
    assert read(url) == b"again"
    assert kept_files() == []


def test_a_file_that_cannot_be_read_leaves_no_object(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = f"{bucket}/x.csv", tmp_path / "x.csv"
    file.write_bytes(b"x" * (9 << 20))

    class Damaged(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise OSError(errno.EIO, "Input/output error")
            return super().read(size)

    def open_damaged(path: Path, *arguments: Any) -> Any:
        return Damaged(b"x" * (9 << 20)) if path == file else path_open(path, *arguments)

    path_open = Path.open
    with monkeypatch.context() as patch, pytest.raises(InputError) as error:
        patch.setattr(Path, "open", open_damaged)
        output_file._upload_file(file, url)
    assert str(error.value) == f"{file}: cannot be read (Input/output error)"
    assert find_object(url) is None


def write(url: str, data: bytes) -> None:
    with output_file.output_file(Path(url)) as file:
        file.write_bytes(data)


def test_an_object_that_appears_meanwhile_is_kept(bucket: str) -> None:
    url = f"{bucket}/x.csv"
    with pytest.raises(InputError, match=r"exists already.*the finished result is "):  # noqa: SIM117
        with output_file.output_file(Path(url)) as file:
            file.write_bytes(b"mine")
            write_object(url, b"theirs")
    assert read(url) == b"theirs"
    assert [path.read_bytes() for path in kept_files()] == [b"mine"]


def test_a_local_run_for_the_same_url_is_kept(bucket: str, checkpoint: Path) -> None:
    run = work_folder(f"{bucket}/first")
    run.mkdir(parents=True)
    (run / "model.safetensors").write_bytes(b"of a run")
    assert run_command(app, ["convert", str(checkpoint), f"{bucket}/first"]) == 0
    assert (run / "model.safetensors").read_bytes() == b"of a run"


def test_credentials_may_allow_objects_and_not_the_bucket(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Denying:
        def get_file_info(self, _: str) -> None:
            raise PermissionError("HTTP response code 403")

    monkeypatch.setattr(objects, "find_file_system", lambda url: (Denying(), url.removeprefix("s3://")))
    objects.check_can_write(f"{bucket}/x")


def test_an_interrupted_upload_of_a_folder_names_it(
    bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(error: BaseException) -> None:
        def raise_error(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(upload, "upload_files", raise_error)

    def write_folder() -> None:
        with upload.output_folder(Path(f"{bucket}/new")) as folder:
            folder.mkdir()
            (folder / "x").write_bytes(b"x")

    fail(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        write_folder()
    assert f"{bucket}/new: not uploaded; the finished result is " in capsys.readouterr().err
    fail(OSError(errno.EIO, "Input/output error"))
    with pytest.raises(
        WorkError, match=r"/new: not uploaded \(Input/output error\); the finished result is "
    ):
        write_folder()
    assert [path.read_bytes() for path in kept_files()] == [b"x"]


def test_two_processes_do_not_write_the_same_output(bucket: str) -> None:
    with output_file.output_file(Path(f"{bucket}/x.csv")) as file:
        with pytest.raises(InputError, match="another process works on it"):
            write(f"{bucket}/x.csv", b"second")
        file.write_bytes(b"first")
    assert read(f"{bucket}/x.csv") == b"first"


def test_outputs_without_a_place_are_refused(bucket: str, tmp_path: Path) -> None:
    write_object(f"{bucket}/folder/x", b"x")
    (tmp_path / "file").write_bytes(b"")
    for out, message in (
        (f"{bucket}/folder", "folder: a folder; name a file"),
        (tmp_path, ": a folder; name a file"),
        ("s3://no-such-bucket-here/x.csv", "no-such-bucket-here/x.csv: no such bucket"),
        (tmp_path / "file" / "x.json", "/file: not a folder; name another path"),
    ):
        with pytest.raises(InputError, match=message):
            output_file.check_output_path(Path(out))
    with pytest.raises(InputError, match="x: exists already"):
        upload.check_output_folder(Path(f"{bucket}/folder/x"))
    with pytest.raises(InputError, match="no such bucket"):
        upload.check_output_folder(Path("s3://no-such-bucket-here/x"))


def test_a_folder_whose_upload_failed_is_kept(
    bucket: str, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(url: str) -> None:
        raise InputError(f"{url}: no connection")

    with monkeypatch.context() as patch:
        patch.setattr(upload, "object_writer", lost)
        assert run_command(app, ["convert", str(checkpoint), f"{bucket}/copy"]) == 2
    error = capsys.readouterr().err
    kept = Path(error.rstrip().rpartition("; the finished result is ")[2])
    assert content(kept)
    assert run_command(app, ["convert", str(checkpoint), f"{bucket}/copy"]) == 0
    assert content(download_folder(f"{bucket}/copy"))
    assert not kept.exists()


def test_a_folder_of_submissions_is_completed(bucket: str, tmp_path: Path) -> None:
    submission = find_task("mnli").submission
    assert submission is not None
    out = f"{bucket}/submission"
    for name in ("test_matched", "test_mismatched"):
        file, local = (submission.file(name, Path(folder)) for folder in (out, tmp_path))
        for target in (file, file, local):  # the second call finds the same content
            output_file.write_one_of_several_files(target, f"index\tprediction\n0\t{name}\n")
        assert read(f"{out}/{local.name}") == local.read_bytes()
        with pytest.raises(InputError, match=f"{bucket}/submission/{local.name}: exists already"):
            output_file.write_one_of_several_files(file, "other")


@pytest.mark.slow
def test_a_world_has_the_bytes_of_a_local_one(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (str(tmp_path / "world"), f"{bucket}/world"):
        sizes = "--stories 20 --extra 20 --other 20 --train 10 --dev 10 --test 10"
        assert run_command(app, f"world write {out} {sizes} --workers 1 --json".split()) == 0
        assert json.loads(capsys.readouterr().out)["folder"] == out
    assert content(download_folder(f"{bucket}/world")) == content(tmp_path / "world")
    assert kept_files() == []


@pytest.mark.slow
def test_a_converted_and_an_exported_model_have_the_bytes_of_local_ones(
    bucket: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (f"convert {checkpoint} {{}}/copy", f"export {checkpoint} --to onnx --out {{}}/copy-onnx"):
        for folder in (str(tmp_path), bucket):
            assert run_command(app, command.format(folder).split()) == 0, capsys.readouterr().err
        assert f"{bucket}/copy" in capsys.readouterr().err
    for name in ("copy", "copy-onnx"):
        assert content(download_folder(f"{bucket}/{name}")) == content(tmp_path / name)
    texts = tmp_path / "texts.txt"
    texts.write_text("ka le\n")
    file_systems._s3.cache_clear()
    assert run_command(app, ["score", f"{bucket}/copy", "--data", str(texts)]) == 0
