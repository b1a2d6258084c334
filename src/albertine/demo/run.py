"""The demo: one step after another, told as it goes; broken off, the same command goes on."""

import time
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_file
from albertine.demo.commands import next_commands
from albertine.demo.page import demo_page
from albertine.demo.settings import DemoSettings
from albertine.demo.workspace import DemoWorkspace
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.report.write import REPORT_FILE
from albertine.settings import build_settings, read_settings_file, settings_to_toml
from albertine.text.sources import find_sources

_SETTINGS, _LOCK, _ELAPSED_FILE = "demo.toml", "demo.lock", "clock"
_EXPECTED_MINUTES = 6


def run_demo(out: Path, settings: DemoSettings) -> None:
    """Do all that is not done yet, and write the report."""
    if settings.text in ("-", "/dev/stdin"):
        raise InputError("--text: standard input can be read only once; name a file or a folder")
    if settings.text:
        find_sources([settings.text])
    _prepare_folder(out, settings)
    with file_lock(out / _LOCK, f"{out}: another demo is at work there; wait for it, or name another --out"):
        workspace = DemoWorkspace(out, settings)
        steps = workspace.steps()
        about = (
            f"about {_EXPECTED_MINUTES} minutes on two cores"
            if settings == DemoSettings()
            else "some minutes"
        )
        progress.print_message(
            f"{len(steps)} steps into {out}, {about}. Broken off, the same command goes on."
        )
        for number, step in enumerate(steps, start=1):
            elapsed_before, started = _elapsed_seconds(out), time.monotonic()
            progress.print_message(
                f"\n[{number}/{len(steps)}] {step.title} ({progress.format_duration(elapsed_before)} so far)"
            )
            try:
                step.run()
            finally:
                _write_elapsed_seconds(out, elapsed_before + time.monotonic() - started)
        demo_page(workspace, _elapsed_seconds(out)).write(out / REPORT_FILE)
    _print_next_commands(workspace)


def _prepare_folder(out: Path, settings: DemoSettings) -> None:
    """Take a folder: a new one, or one where the same demo was begun."""
    file = out / _SETTINGS
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not file.exists())):
        raise InputError(f"{out}: exists already and is no demo; name another --out or remove it")
    is_started = file.exists() and any(
        one.name not in (_SETTINGS, _LOCK, "measured") for one in out.iterdir()
    )
    if is_started and build_settings(DemoSettings, read_settings_file(file)) != settings:
        raise InputError(f"{out}: a demo with other settings ({file}); give those, or another --out")
    out.mkdir(parents=True, exist_ok=True)
    with atomic_file(file) as partial:
        partial.write_text(settings_to_toml(settings), encoding="utf-8")


def _elapsed_seconds(out: Path) -> float:
    """Return the seconds of work so far, over all attempts."""
    file = out / "measured" / _ELAPSED_FILE
    return float(file.read_text(encoding="utf-8")) if file.exists() else 0.0


def _write_elapsed_seconds(out: Path, seconds: float) -> None:
    file = out / "measured" / _ELAPSED_FILE
    file.parent.mkdir(exist_ok=True)
    with atomic_file(file) as partial:
        partial.write_text(f"{seconds:.1f}", encoding="utf-8")


def _print_next_commands(workspace: DemoWorkspace) -> None:
    console = progress.result_console()
    report = f"\nThe report: {workspace.out / REPORT_FILE} (open it in a browser). Next:\n"
    for line in (report, *(f"  {line}" for line in next_commands(workspace).values())):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
