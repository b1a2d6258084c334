"""Tests of the documentation: its commands run, its options exist, its links resolve."""

import contextlib
import io
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*\w")
_FOREIGN_OPTIONS = {"--requeue"}  # Slurm
_BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)


def environment() -> dict[str, str]:
    """Return this environment, with the commands of this Python first on the PATH."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path: Path) -> None:
    with socket.socket() as free:  # port 8000 may be in use
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8").replace("8000", port)
    outputs = []
    for language, block in _BLOCK.findall(text):
        if "curl" in block and shutil.which("curl") is None:
            continue  # tests/deploy sends requests without curl
        # If a command fails, its server is stopped.
        block = f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{block}" if language == "sh" else block
        command = ["bash", "-euc", block] if language == "sh" else [sys.executable, "-c", block]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, block + done.stderr
        outputs.append(done.stdout)
    if shutil.which("curl"):
        assert '{"label":' in outputs[-1], outputs
    assert (tmp_path / "my-albert" / "report.html").exists()
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "ALBERT, whole" in front
    assert "batch_tokens" in (tmp_path / "site" / "reference" / "settings" / "index.html").read_text()
    assert "--held-out" in (tmp_path / "site" / "reference" / "commands" / "index.html").read_text()
    for page in (tmp_path / "site").rglob("*.html"):
        for target in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^"]+)"', page.read_text()):
            assert not target.startswith("http"), f"{page}: {target}"  # the site is self-contained


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def options_of_all_commands() -> set[str]:
    """Return all options in the help of all commands."""
    from albertine.cli import app
    from albertine.command import run_command

    found: set[str] = set()
    for command in (one for one in app if not one.startswith("-")):
        inner = [one for one in app[command] if not one.startswith("-")]
        for words in [[command, one] for one in inner] or [[command], []]:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                run_command(app, [*words, "--help"])
            found |= set(_OPTION.findall(out.getvalue()))
    return found | {name.rpartition(".")[0] for name in found if "." in name}  # tables


def test_documented_options_exist() -> None:
    known = options_of_all_commands()
    assert "--train.lr" in known
    wrong: list[tuple[str, str]] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        typed = [
            line for _, block in _BLOCK.findall(text) for line in block.splitlines() if "albertine " in line
        ]
        inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        typed += [one for one in inline if one.startswith(("--", "albertine "))]
        named = {
            option for line in typed for option in _OPTION.findall(line.partition("-m albertine")[2] or line)
        }
        wrong += [(page.name, option) for option in sorted(named - known - _FOREIGN_OPTIONS)]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_commands_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from albertine.cli import app
    from albertine.command import run_command

    named = set(
        re.findall(
            r"\balbertine ([a-z][a-z-]*)\b", "\n".join(block for _, block in _BLOCK.findall(page.read_text()))
        )
    )
    for command in sorted(named):
        assert run_command(app, [command, "--help"]) == 0, command
    capsys.readouterr()
