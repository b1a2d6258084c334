"""Tests of the message about an unfinished run."""

import json
from pathlib import Path

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.train.run_folder import unfinished_run_message


def write_run(folder: Path, *lines: dict[str, object]) -> Path:
    """Write settings and metrics of a run of 600 steps."""
    folder.mkdir()
    (folder / "settings.toml").write_text('task = "rte"\n[train]\nsteps = 600\n')
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.mark.parametrize("command", ["predict", "evaluate", "ensemble", "serve", "finetune"])
def test_an_unfinished_run_is_reported(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", {"step": 199}, {"step": 200})
    data = [] if command == "serve" else ["--data", "new.csv"]
    if command == "finetune":
        data += ["--task", "classify", "--out", str(tmp_path / "out")]
    others = [str(tmp_path / "other")] if command == "ensemble" else []
    assert run_command(app, [command, str(run), *others, *data]) == 2  # the folder has no model
    line = f"{run}: an unfinished run, about step 200 of 600; using its model of step 0, which is untrained: "
    assert capsys.readouterr().err.startswith(line)


def test_the_model_of_an_evaluated_run_is_trained(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"step": step, "held_out_loss": 1.0} for step in (0, 60)]
    message = unfinished_run_message(write_run(tmp_path / "run", *lines, {"step": 70}), "run")
    assert message == "run: an unfinished run, about step 70 of 600; using its model so far"


def test_a_finished_run_is_not_reported(tmp_path: Path) -> None:
    assert unfinished_run_message(tmp_path, "run") is None
    assert unfinished_run_message(tmp_path / "nothing", "run") is None
    assert unfinished_run_message(write_run(tmp_path / "all", {"step": 599}, {"step": 600}), "run") is None
    stopped = write_run(tmp_path / "early", {"step": 60}, {"step": 60, "event_type": "stopped early"})
    assert unfinished_run_message(stopped, "run") is None
    assert unfinished_run_message(write_run(tmp_path / "started", {"step": 0}), "run") is not None
