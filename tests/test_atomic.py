"""Tests of atomic writes."""

import errno
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from albertine.atomic import (
    atomic_file,
    atomic_folder,
    folder_in_use,
    is_unused,
    remove_path,
)
from albertine.errors import InputError


def test_folder_appears_when_finished(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "deep" / "made") as folder:
        (folder / "a").write_text("x")
        assert not (tmp_path / "deep" / "made").exists()
    assert (tmp_path / "deep" / "made" / "a").read_text() == "x"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["made"]


def fail_while_writing(path: Path, *, is_folder: bool) -> None:
    with (atomic_folder if is_folder else atomic_file)(path) as partial:
        (partial / "a" if is_folder else partial).write_text("half")
        raise OSError("full")


@pytest.mark.parametrize("is_folder", [True, False])
def test_failure_leaves_no_files(tmp_path: Path, is_folder: bool) -> None:
    with pytest.raises(OSError, match="full"):
        fail_while_writing(tmp_path / "made", is_folder=is_folder)
    assert not list(tmp_path.iterdir())


def test_interruption_just_after_the_partial_folder_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder = Path.mkdir

    def make_folder_and_interrupt(path: Path, **options: Any) -> None:
        make_folder(path, **options)
        if path.suffix == ".partial":
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", make_folder_and_interrupt)
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "out"):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_folder", [False, True])
def test_interruption_of_the_removal_leaves_nothing(
    is_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []

    def interrupted_once(path: Path) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove_path(path)

    monkeypatch.setattr("albertine.atomic.remove_path", interrupted_once)
    with (
        pytest.raises(KeyboardInterrupt),
        (atomic_folder if is_folder else atomic_file)(tmp_path / "result") as partial,
    ):
        (partial / "file" if is_folder else partial).write_text("text")
        raise ValueError
    assert len(calls) == 2
    assert not list(tmp_path.iterdir())


def test_old_file_is_replaced_only_when_the_new_one_is_finished(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="full"):
        fail_while_writing(tmp_path / "a", is_folder=False)
    assert (tmp_path / "a").read_text() == "old"
    with atomic_file(tmp_path / "a") as file:
        file.write_text("new")
        assert (tmp_path / "a").read_text() == "old"
    assert (tmp_path / "a").read_text() == "new"


def test_existing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for existing in (tmp_path, tmp_path / "a"):
        with pytest.raises(InputError, match="exists already"), atomic_folder(existing):
            pass
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty") as folder:
        (folder / "a").write_text("x")
    assert (tmp_path / "empty" / "a").exists()


def test_mount_or_working_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(InputError, match="is the working directory; name a folder inside it"),
        atomic_folder(Path()),
    ):
        pass
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "disk")
    with pytest.raises(InputError, match="is a mount point"), atomic_folder(tmp_path / "disk"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["disk"]


def test_errors_name_the_requested_path(tmp_path: Path) -> None:
    with pytest.raises(OSError) as full, atomic_folder(tmp_path / "made") as folder:  # noqa: PT011
        raise OSError(28, "No space left on device", str(folder / "a"))
    assert full.value.filename == str(tmp_path / "made" / "a")
    with pytest.raises(FileNotFoundError) as missing, atomic_file(tmp_path / "nowhere" / "a") as file:
        file.write_text("x")
    assert missing.value.filename == str(tmp_path / "nowhere" / "a")


def test_errors_name_the_final_path_of_what_could_not_be_written(tmp_path: Path) -> None:
    def error_of(raised: OSError) -> str | None:
        with pytest.raises(OSError) as caught, atomic_folder(tmp_path / "new"):  # noqa: PT011
            raise raised
        return None if caught.value.filename is None else str(caught.value.filename)

    assert error_of(OSError(errno.ENOSPC, "No space left on device")) == str(tmp_path / "new")
    assert error_of(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")) is None
    assert error_of(OSError(errno.EACCES, "Permission denied", "/elsewhere")) == "/elsewhere"
    with pytest.raises(FileNotFoundError) as caught, atomic_folder(tmp_path / "new") as folder:
        (folder / "missing" / "file").write_text("x")
    assert caught.value.filename == str(tmp_path / "new" / "missing" / "file")


def test_the_slower_of_two_writers_of_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path.replace

    def replace_after_another_process(self: Path, target: Path) -> Path:
        target.mkdir()
        (target / "a").write_text("other")
        return original(self, target)

    monkeypatch.setattr(Path, "replace", replace_after_another_process)
    with pytest.raises(InputError, match="made: exists already"), atomic_folder(tmp_path / "made") as folder:
        (folder / "a").write_text("x")
    assert (tmp_path / "made" / "a").read_text() == "other"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("is_folder", [True, False])
def test_partial_of_a_killed_process_is_removed(tmp_path: Path, is_folder: bool) -> None:
    killed, other = tmp_path / ".made.0123abcd.partial", tmp_path / ".made.too.0123abcd.partial"
    for partial in (killed, other):
        partial.mkdir()
        (partial / "a").write_text("half")
    with (atomic_folder if is_folder else atomic_file)(tmp_path / "made") as partial:
        (partial / "a" if is_folder else partial).write_text("whole")
    assert {path.name for path in tmp_path.iterdir()} == {"made", other.name}


@pytest.mark.parametrize("is_folder", [True, False])
def test_partial_that_another_process_writes_stays(tmp_path: Path, is_folder: bool) -> None:
    atomic = atomic_folder if is_folder else atomic_file
    with atomic(tmp_path / "made") as partial:
        (partial / "a" if is_folder else partial).write_text("first")
        with atomic_file(tmp_path / "other") as other:
            other.write_text("x")
        # Locks of two open files exclude each other within one process, too.
        with suppress(InputError), atomic(tmp_path / "made") as second:
            (second / "a" if is_folder else second).write_text("second")
            if is_folder:
                raise InputError("gave up")
        assert partial.exists()
    made = tmp_path / "made"
    assert (made / "a" if is_folder else made).read_text() == "first"


def test_a_symbolic_link_is_removed_and_its_target_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / ".made.0123abcd.partial").symlink_to(target)
    with atomic_file(tmp_path / "made") as partial:
        partial.write_text("x")
    assert {path.name for path in tmp_path.iterdir()} == {"made", "target"}


def test_writes_in_a_folder_in_use_do_not_read_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[Path] = []

    def recorded(folder: Path, _name: str) -> list[Path]:
        searched.append(folder)
        return []

    monkeypatch.setattr("albertine.atomic.partial_paths", recorded)
    with folder_in_use(tmp_path):
        for number in range(3):
            with atomic_file(tmp_path / f"{number}.txt") as partial:
                partial.write_text("x")
    assert not searched
    with atomic_file(tmp_path / "3.txt") as partial:
        partial.write_text("x")
    assert searched == [tmp_path]
    assert len(list(tmp_path.iterdir())) == 4


def test_folder_with_only_partials_is_unused(tmp_path: Path) -> None:
    assert is_unused(tmp_path / "missing")
    assert is_unused(tmp_path)
    (tmp_path / ".demo.toml.0123abcd.partial").write_text("half")
    assert is_unused(tmp_path)
    (tmp_path / ".demo.toml").write_text("whole")
    assert not is_unused(tmp_path)
    assert is_unused(tmp_path, ".demo.toml")
