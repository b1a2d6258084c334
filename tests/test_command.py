"""Every ending of a command has its status and its one line."""

import errno
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import pytest
from cyclopts import App

from albertine.command import DEFAULT_OPTIONS, SETTINGS_PARAMETER, CommonOptions, run_command
from albertine.errors import InputError, Terminated, WorkError
from albertine.info.model_info import InfoSettings


def app_raising(error: BaseException) -> App:
    app = App(name="albertine")

    @app.command
    def work(*, shared: CommonOptions = DEFAULT_OPTIONS) -> None:
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (InputError("a.txt: empty; give text"), 2, "albertine: a.txt: empty; give text\n"),
        (WorkError("run diverged"), 1, "albertine: run diverged\n"),
        (KeyboardInterrupt(), 130, "\nalbertine: interrupted\n"),
        (Terminated(), 143, "\nalbertine: interrupted\n"),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.bin"),
            1,
            "albertine: x.bin: No space left on device; free some space and run the same command again\n",
        ),
        (
            RuntimeError("broken\nin two lines"),
            1,
            "albertine: a defect in Albertine: RuntimeError: broken in two lines; "
            "run again with --debug and report what it prints\n",
        ),
    ],
)
def test_exit_statuses(
    error: BaseException, status: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app_raising(error), ["work"]) == status
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("option", ["--debug", "--debug=true"])
def test_debug_shows_the_traceback(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app_raising(InputError("a.txt: empty")), ["work", option]) == 2
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert told.endswith("albertine: a.txt: empty\n")


@pytest.mark.parametrize(
    "words",
    [["wrk"], ["work", "--unknown", "3"], ["work", "surplus"], ["work", "--config"]],
)
def test_wrong_arguments_are_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app_raising(AssertionError("must not run")), words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "; see albertine" in told.err


def test_settings_come_from_defaults_file_and_options_in_this_order(tmp_path: Path) -> None:
    seen: list[InfoSettings] = []
    app = App(name="albertine")

    @app.command
    def work(
        *,
        settings: Annotated[InfoSettings | None, SETTINGS_PARAMETER] = None,
        shared: CommonOptions = DEFAULT_OPTIONS,
    ) -> None:
        assert settings is None
        seen.append(shared.read_settings(InfoSettings))

    file = tmp_path / "recipe.toml"
    file.write_text("length = 64\nbatch = 4\n[model]\nlayers = 3\nheads = 4")
    words = ["work", "--config", str(file), "--batch", "8", "--model.heads", "2", "--model.share=ffn"]
    assert run_command(app, words) == 0
    assert (seen[0].length, seen[0].batch_size, seen[0].processes) == (64, 8, 8)
    assert (seen[0].model.layers, seen[0].model.heads, seen[0].model.share) == (3, 2, "ffn")


def test_one_command_does_not_leak_its_settings_into_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    from albertine.cli import app

    assert run_command(app, ["info", "--batch", "5", "--print-settings"]) == 0
    assert "batch = 5" in capsys.readouterr().out
    assert run_command(app, ["info", "--print-settings"]) == 0
    assert "batch = 32" in capsys.readouterr().out


def test_ctrl_c_ends_a_real_process_with_130(tmp_path: Path) -> None:
    script = tmp_path / "wait.py"
    script.write_text(
        "import sys, time\n"
        "from cyclopts import App\n"
        "from albertine.command import run\n"
        "app = App(name='albertine')\n"
        "@app.command\n"
        "def wait():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "sys.exit(run(app, ['wait']))\n"
    )
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as work:
        assert work.stdout is not None
        assert work.stdout.readline() == "ready\n"
        time.sleep(0.1)
        work.send_signal(signal.SIGINT)
        _, told = work.communicate(timeout=20)
    assert work.returncode == 130
    assert told == "\nalbertine: interrupted\n"


def test_closed_pipe_is_no_error() -> None:
    for words in ("info", "info --json", "info --print-settings", "--help", "info albert-large"):
        done = run_in_shell(f"-m albertine {words} | true; exit ${{PIPESTATUS[0]}}")
        assert (done.returncode, done.stdout) == (0, "")
        assert "Error" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("words", ["info --json", "info --print-settings", "info albert-large"])
def test_a_full_disk_is_one_line_and_status_1(words: str) -> None:
    done = run_in_shell(f"-m albertine {words} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        "albertine: No space left on device; free some space and run the same command again\n"
    )


def test_closed_streams_are_no_internal_error() -> None:
    assert run_in_shell("-m albertine info --json >&-").returncode == 0
    assert run_in_shell("-m albertine bench startup --runs 1 2>&-").returncode == 0
    assert run_in_shell("-m albertine info --length 0 2>&-").returncode == 2


def run_in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run Python's command in a shell; buffered as it is for people."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    line = f"{shlex.quote(sys.executable)} {command}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment)


def test_completion_for_an_unknown_shell_is_wrong_input(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "SHELL"} | {
        "HOME": str(tmp_path)
    }
    command = [sys.executable, "-m", "albertine", "--install-completion"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert "--shell" in done.stdout + done.stderr


def test_completion_installs_with_one_command(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    command = [sys.executable, "-m", "albertine", "--install-completion"]
    assert subprocess.run(command, capture_output=True, check=False, env=environment).returncode == 0
    script = tmp_path / ".local/share/bash-completion/completions/albertine"
    assert "info" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize(("pause", "status"), [(0, 130), (1.2, 143)])
def test_second_signal_at_exit_shows_no_traceback(pause: float, status: int, tmp_path: Path) -> None:
    script = tmp_path / "twice.py"
    script.write_text(
        "import atexit, os, signal, sys, time\n"
        "from albertine import cli\n"
        "from albertine.__main__ import main\n"
        "def ask(number): os.kill(os.getpid(), number)\n"
        "@cli.app.command\n"
        "def wait():\n"
        "    try:\n"
        "        ask(signal.SIGINT)\n"
        "    finally:\n"
        "        ask(signal.SIGINT)\n"
        "        print('tidied')\n"
        f"atexit.register(lambda: (time.sleep({pause}), ask(signal.SIGTERM)))\n"
        "sys.argv = ['albertine', 'wait']\n"
        "sys.exit(main())\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == status
    assert ended.stdout == "tidied\n"
    assert ended.stderr == "\nalbertine: interrupted\n"
