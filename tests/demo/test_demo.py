"""The demo, whole but small: every step, broken off and gone on with, on the world and on one's own text."""

import json
import re
import shlex
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as Tree
from pathlib import Path

import pytest

from albertine.cli import app
from albertine.command import run
from albertine.demo import abreast, steps
from albertine.demo.commands import as_typed
from albertine.demo.steps import Lab

SMALL = ("--stories", "600", "--examples", "100", "--steps", "10", "--tuning-steps", "5", "--quiet")


def well_formed(page: Path) -> str:
    content = page.read_text(encoding="utf-8")
    Tree.fromstring(content[content.index("<body>") : content.index("</html>")].replace("&nbsp;", " "))
    assert not re.search(r'(src|href)="?http|@import|url\(', content)
    return content


def test_it_goes_on_where_it_was_broken_off_and_ends_with_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    whole = Lab.knowledge

    def interrupted(self: Lab) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Lab, "knowledge", interrupted)
    assert run(app, ["demo", "--out", str(out), *SMALL]) == 130
    assert not (out / "report.html").exists()
    before = {file: file.stat().st_mtime_ns for file in (out / "albert").glob("*.safetensors")}
    monkeypatch.setattr(Lab, "knowledge", whole)
    assert run(app, ["demo", "--out", str(out), "--stories", "700"]) == 2
    assert "a demo with other settings" in capsys.readouterr().err
    assert run(app, ["demo", "--out", str(out), *SMALL]) == 0
    assert {file: file.stat().st_mtime_ns for file in (out / "albert").glob("*.safetensors")} == before
    page = well_formed(out / "report.html")
    for said in ("What was built", "bag of words", "Figure 1", "Which comes first", "albertine world write"):
        assert said in page, said
    printed = capsys.readouterr().out.strip().splitlines()
    typed, commands = zip(*(shlex.split(line)[:2] for line in printed[-3:]), strict=True)
    assert commands == ("serve", "demo", "finetune")
    assert set(typed) == {shlex.split(as_typed())[0]}
    found = json.loads((out / "measured" / "cloze.json").read_text())
    assert 0 < found["scores"]["accuracy"] <= 1
    monkeypatch.setattr(steps, "write_world", interrupted)  # nothing is done twice
    monkeypatch.setattr(abreast, "in_processes", interrupted)
    assert run(app, ["demo", "--out", str(out), *SMALL]) == 0


def test_ones_own_text_needs_no_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own"
    own.mkdir()
    things, ways = ("house", "river", "garden", "letter", "winter"), ("old", "cold", "green", "lost", "far")
    lines = [
        f"The {one} is {two}. It was {two} all day. Nobody saw the {one}." for one in things for two in ways
    ]
    for number in range(150):
        (own / f"{number}.txt").write_text(f"This is letter {number}.\n" + "\n".join(lines))
    out = tmp_path / "mine"
    assert run(app, ["demo", "--text", str(own), "--out", str(out), *SMALL]) == 0
    page = well_formed(out / "report.html")
    assert "Which of four words stood there?" in page
    assert "bag of words" not in page
    assert "too little text" not in page
    assert not (out / "world").exists()
    assert "albertine pretrain --corpus" in capsys.readouterr().out


def test_text_of_one_document_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "book.txt").write_text(
        "\n".join(f"It was day {number} of the rain." for number in range(3000))
    )
    words = ("--text", str(tmp_path / "book.txt"), "--out", str(tmp_path / "mine"))
    assert run(app, ["demo", *words, *SMALL]) == 2
    assert "too few documents; some are held out, so give several files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--text", "nowhere/"), "nowhere"),
        (("--text", "-"), "standard input can be read only once"),
        (("--steps", "3"), "steps"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(app, ["demo", "--out", str(tmp_path / "demo"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"x")
    assert run(app, ["demo", "--out", str(tmp_path / "photos")]) == 2
    assert "is no demo" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "photos").iterdir()] == ["one.jpg"]


def test_commands_are_written_as_they_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = sysconfig.get_path("scripts")
    monkeypatch.setenv("PATH", scripts)
    assert as_typed() == "albertine"
    monkeypatch.setenv("PATH", str(tmp_path))
    for folder in (tmp_path, Path(sys.prefix).parent):  # far from the environment, and where it lies
        monkeypatch.chdir(folder)
        typed = as_typed()
        assert typed.startswith("/") == (folder == tmp_path)
        version = subprocess.run(
            [*shlex.split(typed), "--version"], capture_output=True, text=True, check=True
        )
        assert version.stdout
    monkeypatch.setattr(
        "albertine.demo.commands.sysconfig.get_path", lambda _: str(tmp_path)
    )  # a zip, a freezer
    assert as_typed() == shlex.join([sys.executable, "-m", "albertine"])
