"""The demo: one step after another, told as it goes; broken off, the same command goes on."""

import time
from pathlib import Path

from albertine import progress
from albertine.demo.commands import what_next
from albertine.demo.page import page_of
from albertine.demo.settings import DemoSettings
from albertine.demo.steps import Lab
from albertine.errors import InputError
from albertine.lock import held
from albertine.report.run import REPORT
from albertine.settings import layer_from_file, read, write
from albertine.text.sources import find_sources
from albertine.whole import new_file

_SETTINGS, _LOCK, _CLOCK = "demo.toml", "demo.lock", "clock"
_MINUTES = 6


def demo(out: Path, settings: DemoSettings) -> None:
    """Do all that is not done yet, and write the report."""
    if settings.text in ("-", "/dev/stdin"):
        raise InputError("--text: standard input can be read only once; name a file or a folder")
    if settings.text:
        find_sources([settings.text])
    _take(out, settings)
    with held(out / _LOCK, f"{out}: another demo is at work there; wait for it, or name another --out"):
        lab = Lab(out, settings)
        steps = lab.steps()
        about = f"about {_MINUTES} minutes on two cores" if settings == DemoSettings() else "some minutes"
        progress.say(f"{len(steps)} steps into {out}, {about}. Broken off, the same command goes on.")
        for number, step in enumerate(steps, start=1):
            before, started = _clock(out), time.monotonic()
            progress.say(f"\n[{number}/{len(steps)}] {step.title} ({progress.duration(before)} so far)")
            try:
                step.do()
            finally:
                _set_clock(out, before + time.monotonic() - started)
        page_of(lab, _clock(out)).write(out / REPORT)
    _tell(lab)


def _take(out: Path, settings: DemoSettings) -> None:
    """Take a folder: a new one, or one where the same demo was begun."""
    file = out / _SETTINGS
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not file.exists())):
        raise InputError(f"{out}: exists already and is no demo; name another --out or remove it")
    begun = file.exists() and any(one.name not in (_SETTINGS, _LOCK, "measured") for one in out.iterdir())
    if begun and read(DemoSettings, layer_from_file(file)) != settings:
        raise InputError(f"{out}: a demo with other settings ({file}); give those, or another --out")
    out.mkdir(parents=True, exist_ok=True)
    with new_file(file) as partial:
        partial.write_text(write(settings), encoding="utf-8")


def _clock(out: Path) -> float:
    """Return the seconds of work so far, over all attempts."""
    file = out / "measured" / _CLOCK
    return float(file.read_text(encoding="utf-8")) if file.exists() else 0.0


def _set_clock(out: Path, seconds: float) -> None:
    file = out / "measured" / _CLOCK
    file.parent.mkdir(exist_ok=True)
    with new_file(file) as partial:
        partial.write_text(f"{seconds:.1f}", encoding="utf-8")


def _tell(lab: Lab) -> None:
    shown = progress.results()
    report = f"\nThe report: {lab.out / REPORT} (open it in a browser). Next:\n"
    for line in (report, *(f"  {line}" for line in what_next(lab).values())):
        shown.print(line, highlight=False, markup=False, soft_wrap=True)
