"""Every command is tried with faults; snapshots and checks notice what breaks a promise."""

import json
from pathlib import Path

import pytest

from tests.campaign.commands import Outcome
from tests.campaign.faults.promises import BrokenPromise, check_end
from tests.campaign.faults.reading_commands import READING_COMMANDS
from tests.campaign.faults.snapshots import first_difference, take_snapshot
from tests.campaign.faults.writing_commands import WRITING_COMMANDS
from tests.campaign.hostile_input.command_lines import command_names

# `world show` and `plan` read and write no files, and `serve` has its own part of the campaign.
_EXEMPT = {"world show", "plan", "serve"}


def test_every_command_is_interrupted_or_reads_damaged_files() -> None:
    commands = [writer.command for writer in WRITING_COMMANDS.values()]
    commands += [reader.command for reader in READING_COMMANDS]
    tried = {" ".join(command.split()[:words]) for command in commands for words in (1, 2)}
    missing = {name for name in command_names() if not name.startswith("bench ")} - tried - _EXEMPT
    assert not missing


def write_run(folder: Path, loss: float, seconds: float) -> Path:
    folder.mkdir()
    (folder / "metrics.jsonl").write_text(json.dumps({"loss": loss, "seconds": seconds}) + "\n")
    return folder


def test_snapshots_ignore_times_and_nothing_else(tmp_path: Path) -> None:
    expected = take_snapshot(write_run(tmp_path / "a", 1.0, 2.0))
    assert not first_difference(expected, take_snapshot(write_run(tmp_path / "b", 1.0, 3.0)))
    changed = write_run(tmp_path / "c", 1.5, 2.0)
    assert "metrics.jsonl differs" in first_difference(expected, take_snapshot(changed))
    (tmp_path / "b" / ".x.partial").touch()
    assert first_difference(expected, take_snapshot(tmp_path / "b")) == ".x.partial is left over"
    (tmp_path / "a" / "metrics.jsonl").unlink()
    assert "is missing" in first_difference(expected, take_snapshot(tmp_path / "a"))


@pytest.mark.parametrize(
    ("status", "stderr", "problem"),
    [
        (0, "", ""),
        (2, "albertine: x.json: empty; remove it\n", ""),
        (2, "", "0 messages"),
        (2, "albertine: a\nalbertine: b\n", "2 messages"),
        (1, "Traceback (most recent call last):\n", "Traceback"),
        (1, "albertine: internal error: KeyError: 'a'\n", "internal error"),
        (2, "albertine: \x1b[31m\n", "unprintable"),
        (99, "", "status 99"),
    ],
)
def test_unclear_ends_break_a_promise(status: int, stderr: str, problem: str) -> None:
    outcome = Outcome(status, b"", stderr.encode(), 0.0, 0.0, 0, "", 0)
    if problem:
        with pytest.raises(BrokenPromise, match=problem):
            check_end(outcome, {0, 1, 2})
    else:
        check_end(outcome, {0, 1, 2})
