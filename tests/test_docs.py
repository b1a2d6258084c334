"""Tests of the documentation: its commands run, its options exist, its links resolve."""

import contextlib
import functools
import io
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from albertine.model.parameter_counts import count_parameters
from albertine.settings import MODEL_PRESETS
from albertine.version import __version__
from tests.doc_pages import CODE_BLOCK, ROOT, free_port, process_environment, run_page

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES.append(ROOT / "docs" / "studies" / "README.md")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*\w")
_FOREIGN_OPTIONS = {
    "--requeue",  # Slurm
    "--rdzv-endpoint",  # torchrun
    *("--build-arg", "--cpus", "--env", "--memory", "--publish", "--tag"),  # Docker
    *("--output", "--unit"),  # systemd
}


@pytest.mark.long
@pytest.mark.slow
def test_the_tutorial_runs(tmp_path: Path) -> None:
    outputs = run_page("tutorial.md", tmp_path, {"8000": free_port()})  # port 8000 may be in use
    if shutil.which("curl"):
        assert '{"label":' in outputs[-1], outputs
    assert (tmp_path / "my-albert" / "report.html").exists()
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    completed = subprocess.run(
        command, cwd=ROOT, env=process_environment(), capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    front_page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "ALBERT, whole" in front_page
    assert '<svg class="blocks"' in front_page
    assert 'media="(prefers-color-scheme: dark)" srcset' not in front_page  # the theme has a switch
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r'"docs/(([\w-]+)-(light|dark)\.png)"', readme)
    assert len(pictures) == 4
    for name, kind, scheme in pictures:
        shown = f'srcset="{name}"' if kind.endswith("-phone") else f'src="{name}#only-{scheme}"'
        assert shown in front_page
        assert (tmp_path / "site" / name).is_file()
    assert "batch_tokens" in (tmp_path / "site" / "reference" / "settings" / "index.html").read_text()
    assert "--held-out" in (tmp_path / "site" / "reference" / "commands" / "index.html").read_text()
    assert 'data-title="guessing"' in (tmp_path / "site" / "results" / "index.html").read_text()
    for page in (tmp_path / "site").rglob("*.html"):
        for target in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^"]+)"', page.read_text()):
            assert not target.startswith("http"), f"{page}: {target}"  # the site is self-contained


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("folder", ["", "docs", "docs/decisions", "docs/records", "docs/studies"])
def test_no_line_breaks_a_table(folder: str) -> None:
    """Rows after a blank line would be shown as text: every block of rows needs a line below its head."""
    for page in sorted((ROOT / folder).glob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert re.match(r"\|.*\n\|(?:\s*:?-+:?\s*\|)+\n", table), f"{page}: {table.splitlines()[0]}"


def test_links_to_lines_are_of_definitions() -> None:
    links = re.findall(
        r"\[`(\w+)`\]\((\.\./src/[^)#]+)#L(\d+)\)",
        (ROOT / "docs" / "explained.md").read_text(encoding="utf-8"),
    )
    assert len(links) > 15
    for name, file, number in links:
        lines = (ROOT / "docs" / file).read_text(encoding="utf-8").splitlines()
        definitions = [n for n, line in enumerate(lines, 1) if re.match(rf"(class|def) {name}\b", line)]
        assert definitions == [int(number)], f"{name} is in line {definitions} of {file}, not {number}"


def test_the_code_of_the_explanation_runs() -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "explained.md").read_text(encoding="utf-8"), re.DOTALL
    )
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {})
    count, plan, *layers = output.getvalue().splitlines()
    assert int(count) > 10_000_000
    assert plan.count("attention=0, ffn=0") == 3
    assert len(layers) == 13


def test_the_drawing_of_the_front_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from front_drawing import DESCRIPTION, file_names, site_drawing

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, content in file_names().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == content, (
            "run python tools/front_drawing.py"
        )
        assert f'"docs/{name}"' in readme
    assert f'alt="{DESCRIPTION}"' in readme
    for model in ("albert-base", "bert-base"):
        parameters = count_parameters(MODEL_PRESETS[model]).encoder
        assert f">{parameters:,} parameters<" in site_drawing()


def test_the_citation_has_the_version_and_license() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    citation = dict(re.findall(r'^([a-z-]+): *"?([^"\n]*)', text, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["version"] == __version__
    assert project["dynamic"] == ["version"]  # the build reads it from version.py
    assert citation["license"] == project["license"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## ([0-9.]+)(, unreleased)?", changelog, re.MULTILINE)
    assert newest
    version = f"{newest[1]}.0"
    is_released = newest[2] is None
    assert __version__ == (version if is_released else f"{version}.dev0")
    assert ("date-released" in citation) == is_released


def options_of_all_commands() -> set[str]:
    """Return all options in the help of all commands."""
    from albertine.cli import app
    from albertine.command import run_command

    options: set[str] = set()
    for command in (name for name in app if not name.startswith("-")):
        subcommands = [name for name in app[command] if not name.startswith("-")]
        for words in [[command, name] for name in subcommands] or [[command], []]:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                run_command(app, [*words, "--help"])
            options |= set(_OPTION.findall(out.getvalue()))
    return options | {name.rpartition(".")[0] for name in options if "." in name}  # tables


def test_documented_options_exist() -> None:
    known = options_of_all_commands()
    assert "--train.lr" in known
    unknown: list[tuple[str, str]] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [
            line
            for _, block in CODE_BLOCK.findall(text)
            for line in block.splitlines()
            if "albertine " in line
        ]
        inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        lines += [code for code in inline if code.startswith(("--", "albertine "))]
        used = {
            option for line in lines for option in _OPTION.findall(line.partition("-m albertine")[2] or line)
        }
        unknown += [(page.name, option) for option in sorted(used - known - _FOREIGN_OPTIONS)]
    assert not unknown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_commands_exist(page: Path) -> None:
    code = "\n".join(block for _, block in CODE_BLOCK.findall(page.read_text(encoding="utf-8")))
    for command in sorted(set(re.findall(r"\balbertine ([a-z][a-z-]*)\b", code))):
        assert _has_help(command), command


@functools.cache
def _has_help(command: str) -> bool:
    from albertine.cli import app
    from albertine.command import run_command

    with contextlib.redirect_stdout(io.StringIO()):
        return run_command(app, [command, "--help"]) == 0


def test_cells_of_wide_tables_have_the_titles_of_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    from phone_tables import with_titles_in_cells

    def table(columns: int) -> str:
        titles = "".join(f'<th style="text-align: left;">"<em>{i}</em>"</th>\n' for i in range(columns))
        cells = "".join(f'<td style="text-align: left;">cell {i}</td>\n' for i in range(columns))
        return f"<table>\n<tr>\n{titles}</tr>\n<tr>\n{cells}</tr>\n</table>"

    assert with_titles_in_cells(table(5)) == table(5)
    changed = with_titles_in_cells(table(6) + table(6))
    assert changed.count('<td data-title="&quot;5&quot;" style="text-align: left;">cell 5</td>') == 2
    assert changed.count("data-layout") == 2
