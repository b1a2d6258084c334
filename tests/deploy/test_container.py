"""Tests of the Dockerfile and of the systemd unit: their commands run as they are written."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest

from albertine.cli import app
from albertine.command import run_command
from tests.deploy.conftest import running_server

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVING = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def instructions(name: str) -> list[str]:
    """Return the arguments of all instructions of the Dockerfile of one name."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def unit_text() -> str:
    (text,) = re.findall(r"```ini\n(\[Unit\]\n.*?)```", SERVING, re.DOTALL)
    return str(text)


def check_serve_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Let the command line read a command, and return its settings."""
    assert Path(words[0]).name == "albertine"
    assert run_command(app, [*words[1:], "--print-settings"]) == 0
    return capsys.readouterr().out


def test_the_container_serves_its_model_to_other_machines(capsys: pytest.CaptureFixture[str]) -> None:
    (entry_point,), (command,) = map(instructions, ("ENTRYPOINT", "CMD"))
    settings = check_serve_command([*json.loads(entry_point), *json.loads(command)], capsys)
    for line in ('host = "0.0.0.0"', "port = 8000", 'log_format = "json"'):
        assert line in settings
    assert json.loads(entry_point)[2] == "/model"
    assert ":/model:ro" in DOCKERFILE
    assert instructions("EXPOSE") == ["8000"]
    (user,) = instructions("USER")
    assert all(int(one) > 0 for one in user.split(":"))


def test_the_container_copies_what_it_builds_from() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [word for line in instructions("COPY")[:2] for word in line.split()[:-1]]
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored


def test_the_health_check_of_the_container_follows_the_server(models: dict[str, Path]) -> None:
    (options,) = instructions("HEALTHCHECK")
    words = json.loads(options.partition(" CMD ")[2])
    with running_server(models["classify"], token="0123456789abcdef") as client:
        code = words[2].replace("8000", str(client.port))
        assert subprocess.run([sys.executable, *words[1:2], code], check=False).returncode == 0
    done = subprocess.run([sys.executable, *words[1:2], code], capture_output=True, check=False)
    assert done.returncode == 1


def test_the_unit_runs_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parser: Any = RawConfigParser()
    parser.optionxform = str
    parser.read_string(unit_text())
    command = parser["Service"]["ExecStart"].replace("${CREDENTIALS_DIRECTORY}", str(tmp_path))
    settings = check_serve_command(shlex.split(command), capsys)
    assert "workers = 2" in settings
    assert f'token_file = "{tmp_path}/token"' in settings
    assert float(parser["Service"]["TimeoutStopSec"]) > 8


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = unit_text().replace("/opt/albertine/bin/albertine", sys.executable)
    unit = tmp_path / "albertine.service"
    unit.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert "albertine.service" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
