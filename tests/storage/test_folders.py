"""Folders on object storage: upload, download, replacement, damage, hostile manifests, errors."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from albertine.checksums import json_checksum
from albertine.errors import InputError
from albertine.storage import cache, file_systems, objects, upload
from albertine.storage.cache import download_folder
from albertine.storage.folder_manifest import FOLDER_MANIFEST, read_folder_manifest
from albertine.storage.objects import check_can_write, find_object, list_objects, object_writer, open_object
from albertine.storage.upload import upload_files, upload_new_folder

from .conftest import SECRET_KEY, LocalServer


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def files_of(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def write_object(url: str, data: bytes) -> None:
    with object_writer(url) as stream:
        stream.write(data)


def test_a_folder_comes_back_as_it_was(any_bucket: str, folder: Path) -> None:
    upload_new_folder(folder, f"{any_bucket}/a/model")
    downloaded = download_folder(f"{any_bucket}/a/model")
    assert content(downloaded) == content(folder)
    assert downloaded.name == "model"
    # An independent reader finds the files under their own names.
    names = set(list_objects(f"{any_bucket}/a/model"))
    assert names == {*content(folder), FOLDER_MANIFEST}


def test_a_folder_that_another_program_uploaded_comes_back(any_bucket: str) -> None:
    write_object(f"{any_bucket}/plain/x.txt", b"one")
    write_object(f"{any_bucket}/plain/inner/y.txt", b"two")
    first = download_folder(f"{any_bucket}/plain")
    assert content(first) == {"x.txt": b"one", "inner/y.txt": b"two"}
    write_object(f"{any_bucket}/plain/x.txt", b"three")
    assert content(download_folder(f"{any_bucket}/plain"))["x.txt"] == b"three"


def test_only_wanted_files_are_downloaded(any_bucket: str, folder: Path) -> None:
    upload_new_folder(folder, f"{any_bucket}/m")
    downloaded = download_folder(f"{any_bucket}/m", lambda name: not name.startswith("large"))
    assert sorted(content(downloaded)) == ["empty.txt", "inner/small.bin", "named.gz"]
    assert content(download_folder(f"{any_bucket}/m")) == content(folder)


def test_reading_takes_only_the_range(any_bucket: str, folder: Path) -> None:
    upload_new_folder(folder, f"{any_bucket}/m")
    expected = (folder / "large.bin").read_bytes()
    with open_object(f"{any_bucket}/m/large.bin") as stream:
        stream.seek(5_000_000)
        assert stream.read(1000) == expected[5_000_000:5_001_000]


def test_a_second_use_downloads_nothing(
    any_bucket: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_new_folder(folder, f"{any_bucket}/m")
    first = download_folder(f"{any_bucket}/m")

    def fail(*_: object) -> None:
        raise AssertionError("downloaded again")

    monkeypatch.setattr(cache, "_download_file", fail)
    assert download_folder(f"{any_bucket}/m") == first


@pytest.mark.parametrize("damage", ["changed", "truncated", "removed", "same size and time"])
def test_a_damaged_file_of_the_cache_is_fetched_again(bucket: str, folder: Path, damage: str) -> None:
    upload_new_folder(folder, f"{bucket}/m")
    file = download_folder(f"{bucket}/m") / "inner" / "small.bin"
    state = file.stat()
    if damage == "removed":
        file.unlink()
    else:
        file.write_bytes(b"\1" * (100 if damage == "truncated" else 256))
    if damage == "same size and time":
        os.utime(file, ns=(state.st_mtime_ns, state.st_mtime_ns))
    assert content(download_folder(f"{bucket}/m")) == content(folder)


def test_an_object_that_differs_from_the_manifest_is_refused(bucket: str, folder: Path) -> None:
    upload_new_folder(folder, f"{bucket}/m")
    write_object(f"{bucket}/m/inner/small.bin", b"\0" * 256)
    with pytest.raises(InputError, match=r"small\.bin: damaged"):
        download_folder(f"{bucket}/m")
    assert not list(cache.cache_folder().rglob("*.partial"))


def test_a_new_version_replaces_only_what_changed(any_bucket: str, folder: Path) -> None:
    url = f"{any_bucket}/run"
    first = upload_files(files_of(folder), url, None)
    (folder / "inner" / "small.bin").write_bytes(b"new")
    (folder / "copy.bin").write_bytes((folder / "large.bin").read_bytes())
    second = upload_files(files_of(folder), url, first)
    assert second.files["large.bin"] == first.files["large.bin"] == second.files["copy.bin"]
    assert content(download_folder(url)) == content(folder)
    assert set(list_objects(url)) == second.objects | {FOLDER_MANIFEST}


@pytest.mark.parametrize("is_first", [True, False])
def test_what_a_failed_upload_has_written_is_removed_by_the_next(
    bucket: str, folder: Path, is_first: bool
) -> None:
    url, leftover = f"{bucket}/run", set[str]()
    manifest = None if is_first else upload_files(files_of(folder), url, None)
    removed = {**files_of(folder), "removed.bin": folder / "removed.bin"}
    for file in files_of(folder).values():
        file.write_bytes(os.urandom(50))
    with pytest.raises(FileNotFoundError):
        upload_files(removed, url, manifest, leftover=leftover)
    assert leftover
    (folder / "large.bin").unlink()
    manifest = upload_files(files_of(folder), url, manifest, leftover=leftover)
    assert not leftover
    assert content(download_folder(url)) == content(folder)
    assert set(list_objects(url)) == manifest.objects | {FOLDER_MANIFEST}


def test_a_reader_between_two_versions_gets_one_of_them(
    bucket: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is replaced after a reader has read its manifest, once before each file."""
    url = f"{bucket}/run"
    manifest = upload_files(files_of(folder), url, None)
    original, versions = cache._download_file, [content(folder)]

    def replace_first(path: Path, *arguments: object) -> None:
        nonlocal manifest
        if len(versions) < 3:
            for file in files_of(folder).values():
                file.write_bytes(os.urandom(50))
            versions.append(content(folder))
            manifest = upload_files(files_of(folder), url, manifest)
        original(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cache, "_download_file", replace_first)
    assert content(download_folder(url)) in versions


_KILLED_UPLOAD = """
import os, signal, sys
from pathlib import Path
from albertine.storage import upload
from albertine.storage.folder_manifest import read_folder_manifest
folder, url, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
original, done = upload._upload, 0
def upload_or_die(stream, size, target):
    global done
    if done == count:
        with upload.object_writer(target) as writer:  # in the middle of an object
            writer.write(stream.read(size // 2))
            os.kill(os.getpid(), signal.SIGKILL)
    done += 1
    original(stream, size, target)
upload._upload = upload_or_die
if count == 4:
    upload.write_folder_manifest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
files = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
upload.upload_files(files, url, read_folder_manifest(url))
"""


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_a_killed_upload_leaves_the_former_version(bucket: str, folder: Path, count: int) -> None:
    url = f"{bucket}/run"
    upload_files(files_of(folder), url, None)
    before = content(folder)
    for file in files_of(folder).values():
        file.write_bytes(os.urandom(6 << 20))
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_UPLOAD, str(folder), url, str(count)],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert content(download_folder(url)) == before
    upload_files(files_of(folder), url, read_folder_manifest(url))
    assert content(download_folder(url)) == content(folder)


def test_a_killed_first_upload_is_no_folder_and_can_be_repeated(
    bucket: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{bucket}/model"

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(upload, "write_folder_manifest", fail)
        with pytest.raises(KeyboardInterrupt):
            upload_new_folder(folder, url)
    assert read_folder_manifest(url) is None
    with pytest.raises(InputError, match=f"{url}: an upload that is not complete; wait, or run"):
        download_folder(url)
    upload_new_folder(folder, url)
    assert content(download_folder(url)) == content(folder)


def test_an_existing_folder_is_not_replaced(any_bucket: str, folder: Path) -> None:
    write_object(f"{any_bucket}/theirs/x.txt", b"precious")
    with pytest.raises(InputError, match="exists already"):
        upload_new_folder(folder, f"{any_bucket}/theirs")
    upload_new_folder(folder, f"{any_bucket}/ours")
    with pytest.raises(InputError, match="exists already"):
        upload_new_folder(folder, f"{any_bucket}/ours")


@pytest.mark.parametrize(
    ("name", "object_path"),
    [
        ("../evil", "x"),
        ("/etc/evil", "x"),
        ("a/../../evil", "x"),
        ("a\\..\\evil", "x"),
        ("", "x"),
        (".", "x"),
        ("ok", "../../other-bucket/x"),
        ("ok", "/x"),
        ("ok\n", "x"),
        (FOLDER_MANIFEST, "x"),
        ("x/y", "x"),
    ],
)
def test_a_manifest_that_leaves_its_folder_is_refused(bucket: str, name: str, object_path: str) -> None:
    entry = {"object": object_path, "size": 1, "sha256": "0" * 64}
    files = {name: entry, "x": {**entry, "object": "x"}}
    values = {"files": files, "writer": ""}
    manifest = {"format": 1, **values, "sha256": json_checksum(values)}
    write_object(f"{bucket}/m/{FOLDER_MANIFEST}", json.dumps(manifest).encode())
    with pytest.raises(InputError, match=r"albertine-folder\.json: damaged"):
        download_folder(f"{bucket}/m")
    assert not list(cache.cache_folder().parent.rglob("evil*"))


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format": 1}',
        b'{"format": 2, "files": {}}',
        b'{"format": 1, "files": {"a": 1}, "sha256": "0"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_damaged_manifest_gives_one_line(bucket: str, manifest: bytes) -> None:
    write_object(f"{bucket}/m/{FOLDER_MANIFEST}", manifest)
    with pytest.raises(InputError) as raised:
        download_folder(f"{bucket}/m")
    assert "\n" not in str(raised.value)


def test_the_cache_is_bounded(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two of three folders, the one that was not used for the longest time is removed."""
    for number in range(3):
        source = tmp_path / str(number)
        source.mkdir()
        (source / "data").write_bytes(bytes([number]) * 1000)
        upload_new_folder(source, f"{bucket}/{number}")
    monkeypatch.setenv("ALBERTINE_CACHE_GB", "2.5e-6")
    folders = {}
    for number in (0, 1):
        folders[number] = download_folder(f"{bucket}/{number}")
        lock = folders[number].parent.with_name(f"{folders[number].parent.name}.use")
        os.close(cache._locks_in_use.pop(lock))  # as if the process that used it had ended
        os.utime(lock, (number, number))
    download_folder(f"{bucket}/2")
    assert not folders[0].exists()
    assert folders[1].exists()
    monkeypatch.setenv("ALBERTINE_CACHE_GB", "0.9e-6")
    with pytest.raises(InputError, match="more than the cache may hold; set ALBERTINE_CACHE_GB"):
        download_folder(f"{bucket}/0")


def test_a_folder_in_use_stays_in_the_cache(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        source = tmp_path / str(number)
        source.mkdir()
        (source / "data").write_bytes(bytes([number]) * 1000)
        upload_new_folder(source, f"{bucket}/{number}")
    monkeypatch.setenv("ALBERTINE_CACHE_GB", "1.5e-6")
    first = download_folder(f"{bucket}/0")
    second = download_folder(f"{bucket}/1")
    assert first.exists()
    assert second.exists()


@pytest.mark.parametrize("limit", ["many", "-1", "nan", "inf"])
def test_a_wrong_limit_of_the_cache_is_refused(
    bucket: str, folder: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_new_folder(folder, f"{bucket}/m")
    monkeypatch.setenv("ALBERTINE_CACHE_GB", limit)
    with pytest.raises(InputError, match="ALBERTINE_CACHE_GB"):
        download_folder(f"{bucket}/m")


def one_line_error(url: str) -> str:
    with pytest.raises(InputError) as raised:
        download_folder(url)
    message = str(raised.value)
    assert "\n" not in message
    assert SECRET_KEY not in message
    assert message.startswith(url)
    return message


def test_a_missing_folder_and_a_wrong_bucket_give_one_line(any_bucket: str) -> None:
    assert "no such folder" in one_line_error(f"{any_bucket}/nothing")
    wrong = f"{any_bucket[:2]}://bucket-that-is-not-there/x"
    # Google's answer does not say whether the bucket or the folder is missing.
    assert ("no such bucket" if wrong.startswith("s3") else "no such folder") in one_line_error(wrong)
    with pytest.raises(InputError, match="no such bucket"):
        check_can_write(wrong)
    with pytest.raises(InputError, match="no such"):
        write_object(wrong, b"x")


def test_denied_access_gives_one_line(server: LocalServer, bucket: str) -> None:
    server.request("POST", "moto-api/reset-auth", b"0")
    try:
        assert "access denied" in one_line_error(f"{bucket}/x")
        with pytest.raises(InputError, match="access denied"):
            write_object(f"{bucket}/x", b"x")
    finally:
        server.request("POST", "moto-api/reset-auth", b"inf")


def test_a_lost_connection_gives_one_line(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
    monkeypatch.setattr(file_systems, "_ATTEMPTS", 1)
    assert "no connection" in one_line_error(f"{bucket}/x")


def test_a_folder_inside_another_has_its_files(bucket: str, folder: Path) -> None:
    """Equal files share an object, which may be elsewhere in the outer folder."""
    (folder / "inner" / "copy.bin").write_bytes((folder / "large.bin").read_bytes())
    upload_new_folder(folder, f"{bucket}/outer")
    assert content(download_folder(f"{bucket}/outer/inner")) == content(folder / "inner")
    write_object(f"{bucket}/outer/other/x.txt", b"not of the outer folder")
    write_object(f"{bucket}/{FOLDER_MANIFEST}", b"damaged")  # of a folder that is not asked for
    assert content(download_folder(f"{bucket}/outer/other")) == {"x.txt": b"not of the outer folder"}
    write_object(f"{bucket}/outer/{FOLDER_MANIFEST}", b"{}")
    with pytest.raises(InputError, match=f"outer/{FOLDER_MANIFEST}: .*; upload the folder again"):
        download_folder(f"{bucket}/outer/other")


def test_no_range_begins_at_the_end_of_an_object(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's store refuses such a range."""
    requested = list[tuple[int, int]]()

    class Recorder:
        def __init__(self, file: Any):
            self._file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def read_at(self, size: int, offset: int) -> bytes:
            requested.append((offset, offset + size))
            content: bytes = self._file.read_at(size, offset)
            return content

    class Store:
        def open_input_file(self, path: str) -> Recorder:
            return Recorder(filesystem.open_input_file(path))

        def get_file_info(self, path: str) -> Any:
            return filesystem.get_file_info(path)

    write_object(f"{bucket}/x", b"0123456789")
    write_object(f"{bucket}/empty", b"")
    filesystem, _ = file_systems.find_file_system(f"{bucket}/x")
    monkeypatch.setattr(objects, "find_file_system", lambda url: (Store(), url.partition("://")[2]))
    for name, expected in (("x", b"0123456789"), ("empty", b"")):
        with open_object(f"{bucket}/{name}", 8) as stream:
            assert stream.read() == expected
            assert stream.read(1) == b""
            assert stream.seek(0, os.SEEK_END) == len(expected)
            assert stream.seek(len(expected) // 2) == len(expected) // 2
            assert stream.read() == expected[len(expected) // 2 :]
    assert all(start < stop <= 10 for start, stop in requested)
    assert requested


def test_no_object_is_a_file_of_its_folder_name(any_bucket: str) -> None:
    write_object(f"{any_bucket}/a/b.txt", b"x")
    assert find_object(f"{any_bucket}/a") is None
    assert find_object(f"{any_bucket}/a/b.txt") is not None
    assert find_object(f"{any_bucket}/a/c.txt") is None


def test_the_hub_is_read_and_never_written(monkeypatch: pytest.MonkeyPatch, s3_environment: None) -> None:
    """The hub's file system is replaced by fsspec's in memory, which has the same interface."""
    from fsspec.implementations.memory import MemoryFileSystem

    hub = MemoryFileSystem()
    hub.pipe_file("/owner/name/config.json", b"{}")
    monkeypatch.setattr("huggingface_hub.HfFileSystem", lambda: hub)
    file_systems._hf.cache_clear()
    try:
        assert content(download_folder("hf://owner/name")) == {"config.json": b"{}"}
        with pytest.raises(InputError, match="cannot write to the hub"):
            write_object("hf://owner/name/x", b"x")
    finally:
        file_systems._hf.cache_clear()
