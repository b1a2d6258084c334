"""Tests of exit statuses, error messages and settings of commands."""

import contextlib
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
import torch
from cyclopts import App

from albertine.command import DEFAULT_OPTIONS, SETTINGS_PARAMETER, CommonOptions, run_command
from albertine.errors import ExitStatus, InputError, Interrupted, Terminated, WorkError
from albertine.info.model_info import InfoSettings
from albertine.interruptions import InterruptHandler


def app_raising(error: BaseException) -> App:
    app = App(name="albertine")

    @app.command
    def work(*, options: CommonOptions = DEFAULT_OPTIONS) -> None:
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
            "albertine: x.bin: No space left on device; free disk space and run the same command again\n",
        ),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), 1, "albertine: Permission denied\n"),
        (BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)), 1, "albertine: Broken pipe\n"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory"),
            1,
            "albertine: out of memory ([enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't "
            "allocate memory); use a smaller model or micro-batch, or fewer workers\n",
        ),
        (
            MemoryError("1 GB"),
            1,
            "albertine: out of memory (1 GB); use a smaller model or micro-batch, or fewer workers\n",
        ),
        (
            torch.OutOfMemoryError("Tried to allocate 2 GiB"),
            1,
            "albertine: out of memory (Tried to allocate 2 GiB); use a smaller model or micro-batch, or "
            "fewer workers\n",
        ),
        (InputError("\x1b[2Ja.txt: empty"), 2, "albertine: \\x1b[2Ja.txt: empty\n"),
        (
            RuntimeError("broken\nin two lines"),
            1,
            "albertine: internal error: RuntimeError: broken in two lines; "
            "run again with --debug and report the traceback\n",
        ),
    ],
)
def test_exit_statuses(
    error: BaseException,
    status: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("albertine.command._is_output_closed", lambda: False)  # it is no file in a test
    assert run_command(app_raising(error), ["work"]) == status
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("words", "values", "separator"),
    [
        (["a", "-"], ["a", "/dev/stdin"], None),
        (["--label-separator", "-", "a"], ["a"], "-"),
        (["--label_separator", "-", "-"], ["/dev/stdin"], "-"),
        (["--label-separator=-"], [], "-"),
        (["--label_separator", "a_b", "--", "--c_d", "e_f", "-"], ["--c_d", "e_f", "/dev/stdin"], "a_b"),
    ],
)
def test_dashes_in_words(words: list[str], values: list[str], separator: str | None) -> None:
    """A lone dash is standard input, unless it is a value; only the names of options get dashes."""
    seen: list[tuple[list[str], str | None]] = []
    app = App(name="albertine")

    @app.command
    def work(*names: str, label_separator: str | None = None) -> None:
        seen.append((list(names), label_separator))

    assert run_command(app, ["work", *words]) == 0
    assert seen == [(values, separator)]


@pytest.mark.parametrize(("is_reader_closed", "status"), [(True, 0), (False, 1)])
def test_a_broken_pipe_is_a_failure_unless_the_reader_of_the_output_has_gone(
    is_reader_closed: bool, status: int
) -> None:
    """The command raises the same error for its output, and for another pipe such as that of a worker."""
    reading_end, writing_end = os.pipe()
    original = os.dup(1)
    os.dup2(writing_end, 1)
    try:
        if is_reader_closed:
            os.close(reading_end)
        with os.fdopen(os.dup(1), "w") as output, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", output)
            error = BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            assert run_command(app_raising(error), ["work"]) == status
    finally:
        os.dup2(original, 1)
        for descriptor in (original, writing_end, *([] if is_reader_closed else [reading_end])):
            os.close(descriptor)


@pytest.mark.parametrize("words", [["--out", "-"], ["--out=-"], ["--plot", "-"]])
def test_results_cannot_go_to_a_pipe(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app_raising(AssertionError("must not run")), ["work", *words]) == 2
    assert f"{words[0].removesuffix('=-')} -: must be a file or a folder" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--debug", "--debug=true"])
def test_debug_shows_the_traceback(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app_raising(InputError("a.txt: empty")), ["work", option]) == 2
    stderr = capsys.readouterr().err
    assert "Traceback" in stderr
    assert stderr.endswith("albertine: a.txt: empty\n")


@pytest.mark.parametrize(
    "words",
    [["wrk"], ["work", "--unknown", "3"], ["work", "surplus"], ["work", "--config"]],
)
def test_wrong_arguments_are_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app_raising(AssertionError("must not run")), words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "; see albertine" in captured.err


def test_options_override_the_file_which_overrides_defaults(tmp_path: Path) -> None:
    received: list[InfoSettings] = []
    app = App(name="albertine")

    @app.command
    def work(
        *,
        settings: Annotated[InfoSettings | None, SETTINGS_PARAMETER] = None,
        options: CommonOptions = DEFAULT_OPTIONS,
    ) -> None:
        assert settings is None
        received.append(options.read_settings(InfoSettings))

    file = tmp_path / "recipe.toml"
    file.write_text("length = 64\nbatch_size = 4\n[model]\nlayers = 3\nheads = 4")
    words = ["work", "--config", str(file), "--batch-size", "8", "--model.heads", "2", "--model.share=ffn"]
    assert run_command(app, words) == 0
    (info_settings,) = received
    assert (info_settings.length, info_settings.batch_size, info_settings.processes) == (64, 8, 8)
    model = info_settings.model
    assert (model.layers, model.heads, model.share) == (3, 2, "ffn")


def test_settings_do_not_leak_into_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    from albertine.cli import app

    assert run_command(app, ["info", "--batch-size", "5", "--print-settings"]) == 0
    assert "batch_size = 5" in capsys.readouterr().out
    assert run_command(app, ["info", "--print-settings"]) == 0
    assert "batch_size = 32" in capsys.readouterr().out


def test_ctrl_c_exits_with_status_130(tmp_path: Path) -> None:
    script = tmp_path / "wait.py"
    script.write_text(
        "import sys, time\n"
        "from cyclopts import App\n"
        "from albertine.command import run_command\n"
        "app = App(name='albertine')\n"
        "@app.command\n"
        "def wait():\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "sys.exit(run_command(app, ['wait']))\n"
    )
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stderr == "\nalbertine: interrupted\n"


def test_status_of_an_interruption_inside_of_exec(tmp_path: Path) -> None:
    """A plain `KeyboardInterrupt` would make Python kill itself with SIGINT, though it is handled."""
    (tmp_path / "interrupted.py").write_text(
        "import os, signal, sys\n"
        "from albertine.interruptions import InterruptHandler\n"
        "signal.signal(signal.SIGINT, InterruptHandler())\n"
        "try:\n"
        "    exec('os.kill(os.getpid(), signal.SIGINT)\\nfor _ in range(10**6): pass')\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    completed = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, check=False)
    assert completed.returncode == 130


def test_an_error_in_place_of_an_interruption_is_the_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code in C may replace the exception of a signal handler by an error of its own."""
    handler = InterruptHandler()
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with contextlib.suppress(Terminated):
            handler(signal.SIGTERM, None)
        assert run_command(app_raising(ValueError("strange")), ["work"]) == 143
        assert capsys.readouterr().err == "\nalbertine: interrupted\n"
        later = time.monotonic() + 2
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert run_command(app_raising(ValueError("strange")), ["work"]) == 1
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error() -> None:
    for words in ("info", "info --json", "info --print-settings", "--help", "info albert-large"):
        completed = run_in_shell(f"-m albertine {words} | true; exit ${{PIPESTATUS[0]}}")
        assert (completed.returncode, completed.stdout) == (0, "")
        assert "Error" not in completed.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full does not exist")
@pytest.mark.parametrize("words", ["info --json", "info --print-settings", "info albert-large"])
def test_a_full_disk_is_one_line_and_status_1(words: str) -> None:
    completed = run_in_shell(f"-m albertine {words} > /dev/full")
    assert completed.returncode == 1
    assert completed.stderr == (
        "albertine: No space left on device; free disk space and run the same command again\n"
    )


@pytest.mark.slow
def test_closed_streams_cause_no_internal_error() -> None:
    for words in ("info --json", "info albert-base", "info --print-settings", "--help"):
        completed = run_in_shell(f"-m albertine {words} >&-")
        assert completed.returncode == 1, words
        message = "albertine: standard output is closed; redirect it to a file, or to /dev/null\n"
        assert completed.stderr == message
    assert run_in_shell("-m albertine bench startup --runs 1 2>&-").returncode == 0
    assert run_in_shell("-m albertine info --length 0 2>&-").returncode == 2


def run_in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python command in a shell, with buffered output as usual."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    line = f"{shlex.quote(sys.executable)} {command}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment)


def test_completion_without_a_known_shell_is_an_input_error(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "SHELL"} | {
        "HOME": str(tmp_path)
    }
    command = [sys.executable, "-m", "albertine", "--install-completion"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert completed.returncode == 2
    assert "--shell" in completed.stdout + completed.stderr


@pytest.mark.slow
def test_completion_installs_with_one_command(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    command = [sys.executable, "-m", "albertine", "--install-completion"]
    assert subprocess.run(command, capture_output=True, check=False, env=environment).returncode == 0
    script = tmp_path / ".local/share/bash-completion/completions/albertine"
    assert "info" in script.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("pause", "status"), [(0, 130), (1.2, 143)])
def test_second_signal_at_exit_shows_no_traceback(pause: float, status: int, tmp_path: Path) -> None:
    script = tmp_path / "twice.py"
    script.write_text(
        "import atexit, os, signal, sys, time\n"
        "from albertine import cli\n"
        "from albertine.__main__ import main\n"
        "def send(number): os.kill(os.getpid(), number)\n"
        "@cli.app.command\n"
        "def wait():\n"
        f"    atexit.register(lambda: (time.sleep({pause}), send(signal.SIGTERM)))\n"
        "    try:\n"
        "        send(signal.SIGINT)\n"
        "    finally:\n"
        "        send(signal.SIGINT)\n"
        "        print('cleaned up')\n"
        "sys.argv = ['albertine', 'wait']\n"
        "sys.exit(main())\n"
    )
    completed = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    assert completed.returncode == status
    assert completed.stdout == "cleaned up\n"
    assert completed.stderr == "\nalbertine: interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_python_shuts_down_does_not_change_the_status(
    number: signal.Signals, tmp_path: Path
) -> None:
    script = tmp_path / "late.py"
    script.write_text(
        "import os, sys\n"
        "from albertine import cli\n"
        "from albertine.__main__ import main\n"
        "class Last:\n"
        "    kill, pid = os.kill, os.getpid()\n"
        "    def __del__(self):\n"
        f"        Last.kill(Last.pid, {int(number)})\n"
        "@cli.app.command\n"
        "def wait():\n"
        "    sys.last = Last()  # deleted when Python has restored the default handlers\n"
        "sys.argv = ['albertine', 'wait']\n"
        "sys.exit(main())\n"
    )
    completed = subprocess.run([sys.executable, script], capture_output=True, timeout=60, check=False)
    assert (completed.returncode, completed.stderr) == (0, b"")


def test_an_interruption_with_a_closed_standard_error_has_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `albertine pretrain 2>&1 | head -1`, then Ctrl-C."""

    class Closed:
        def write(self, _: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

        def flush(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    app = App()

    @app.default
    def command() -> None:
        monkeypatch.setattr(sys, "stderr", Closed())
        raise Interrupted

    assert run_command(app, []) == ExitStatus.INTERRUPTED
