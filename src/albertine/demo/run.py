"""The demo command: all steps in order, with progress messages; an interrupted demo resumes."""

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_file, is_unused
from albertine.corpus.manifest import MANIFEST_FILE
from albertine.demo.commands import next_commands
from albertine.demo.page import demo_page
from albertine.demo.plan import PLAN_NUMBER
from albertine.demo.run_lengths import with_run_lengths
from albertine.demo.settings import DemoSettings
from albertine.demo.study_pages import copy_study_pages
from albertine.demo.workspace import RESULTS_FOLDER, DemoWorkspace
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.report.write import REPORT_FILE
from albertine.settings import build_settings, read_settings_file, settings_to_toml
from albertine.text.find_sources import find_sources
from albertine.text.sources import Source

_SETTINGS_FILE, _LOCK_FILE, _ELAPSED_FILE, _PLAN_FILE = "demo.toml", "demo.lock", "elapsed", "plan"
_TEXT_FILE = "text.json"  # in the folder of results: the files that the demo reads
_DURATION = "about five minutes on two cores with fast bf16, six without"  # of the default settings


def run_demo(out: Path, settings: DemoSettings) -> None:
    """Run all steps that are not done yet, and write the report."""
    sources = _find_text(settings.text, out) if settings.text else []
    if not is_unused(out, _LOCK_FILE) and not (out / _SETTINGS_FILE).exists():
        raise InputError(f"{out}: exists and is not a demo; give another --out or remove it")
    out.mkdir(parents=True, exist_ok=True)
    with file_lock(out / _LOCK_FILE, f"{out}: in use by another demo; wait for it, or give another --out"):
        duration = f", {_DURATION}" if settings == DemoSettings() else ""
        _refuse_other_version(out)
        settings = with_run_lengths(settings, _stored_settings(out) if _is_started(out) else None)
        _prepare_folder(out, settings, sources)
        workspace = DemoWorkspace(out, settings)
        steps = workspace.steps()
        progress.print_message(
            f"{len(steps)} steps into {out}{duration}. If interrupted, run the same command to resume."
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
        if settings.compare:
            copy_study_pages(out)
        demo_page(workspace, _elapsed_seconds(out)).write(out / REPORT_FILE)
    _print_next_commands(workspace)


def _find_text(text: str, out: Path) -> list[Source]:
    """Return the sources of the text, which is read several times, in this call and when the demo resumes."""
    if text in ("-", "/dev/stdin") or Path(text).is_fifo():
        raise InputError("--text: standard input or a pipe can be read only once; save it as a file")
    if Path(text).is_dir() and out.resolve().is_relative_to(Path(text).resolve()):
        raise InputError(f"{out}: is in the folder of --text, which may hold only text; give another --out")
    return find_sources([text])


def _is_started(out: Path) -> bool:
    """Return whether the folder has a demo with more than what is written before the first step."""
    initial = {_SETTINGS_FILE, _LOCK_FILE, RESULTS_FOLDER}
    return (out / _SETTINGS_FILE).exists() and (
        any(entry.name not in initial for entry in out.iterdir())
        or any(file.name != _TEXT_FILE for file in (out / RESULTS_FOLDER).glob("*.json"))
    )


def _refuse_other_version(out: Path) -> None:
    """Raise `InputError` for a demo of another version, whose steps and settings may differ."""
    plan_file = out / RESULTS_FOLDER / _PLAN_FILE
    if _is_started(out) and (not plan_file.exists() or plan_file.read_text(encoding="utf-8") != PLAN_NUMBER):
        raise InputError(f"{out}: a demo of another version of Albertine; give another --out, or remove it")


def _stored_settings(out: Path) -> DemoSettings:
    """Return the settings of the demo in the folder."""
    return build_settings(DemoSettings, read_settings_file(out / _SETTINGS_FILE))


def _prepare_folder(out: Path, settings: DemoSettings, sources: Sequence[Source]) -> None:
    """Record what the demo is made from, or check that it is the same as before."""
    file, plan_file = out / _SETTINGS_FILE, out / RESULTS_FOLDER / _PLAN_FILE
    is_started = _is_started(out)
    if is_started and _stored_settings(out) != settings:
        raise InputError(
            f"{out}: a demo with other settings ({file}); use the same settings, or another --out"
        )
    text = json.dumps([(source.name, source.size, source.version) for source in sources])
    text_file = out / RESULTS_FOLDER / _TEXT_FILE
    if is_started and text_file.exists() and text_file.read_text(encoding="utf-8") != text:
        if (out / "corpus" / MANIFEST_FILE).exists():
            raise InputError(
                f"{settings.text}: has changed since the demo in {out} began; give another --out"
            )
        for name in ("tokenizer", "corpus"):  # made from the former text, such as one that a step refused
            shutil.rmtree(out / name, ignore_errors=True)
    with atomic_file(file) as partial:
        partial.write_text(settings_to_toml(settings), encoding="utf-8")
    plan_file.parent.mkdir(exist_ok=True)
    with atomic_file(text_file) as partial:
        partial.write_text(text, encoding="utf-8")
    with atomic_file(plan_file) as partial:
        partial.write_text(PLAN_NUMBER, encoding="utf-8")


def _elapsed_seconds(out: Path) -> float:
    """Return the seconds of work so far, over all attempts."""
    file = out / RESULTS_FOLDER / _ELAPSED_FILE
    seconds = file.read_text(encoding="utf-8").strip() if file.exists() else ""
    return float(seconds or 0)  # a power cut may leave an empty file


def _write_elapsed_seconds(out: Path, seconds: float) -> None:
    file = out / RESULTS_FOLDER / _ELAPSED_FILE
    file.parent.mkdir(exist_ok=True)
    with atomic_file(file) as partial:
        partial.write_text(f"{seconds:.1f}", encoding="utf-8")


def _print_next_commands(workspace: DemoWorkspace) -> None:
    console = progress.result_console()
    report = f"\nReport: {workspace.out / REPORT_FILE} (open it in a browser). Next:\n"
    for line in (report, *(f"  {line}" for line in next_commands(workspace).values())):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
