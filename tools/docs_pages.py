"""A mkdocs hook that adds generated pages.

They are the README as front page, references of commands and settings, and the code that pages link to.
"""

import contextlib
import io
import re
from pathlib import Path
from typing import get_args, get_type_hints

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from albertine.cli import app
from albertine.command import run_command
from albertine.settings import Settings
from albertine.settings.schema import is_table, typed_fields
from code_pages import code_pages, with_links_to_code
from front_drawing import site_drawing
from phone_tables import with_titles_in_cells

ROOT = Path(__file__).parent.parent
_PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
_IMAGE = re.compile(r'<img src="docs/(?P<light>[\w.-]+)"[^>]* alt="(?P<description>[^"]*)"')
_COMMAND_GROUPS = ("tokenizer", "corpus", "world", "bench")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the front page, the references and the code."""
    front_page = (ROOT / "README.md").read_text(encoding="utf-8")
    front_page = re.sub(r"\]\(docs/", "](", front_page)
    front_page = re.sub(r"\[([^\]]+)\]\((?!https://|[a-z-]+(?:/[\w-]+)?\.md)[^)]*\)", r"\1", front_page)
    front_page = _PICTURE.sub(_site_picture, front_page)
    pages = {
        "index.md": front_page,
        "reference/commands.md": _command_reference(),
        "reference/settings.md": _settings_reference(),
    }
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    for page in code_pages(config):
        files.append(page)
    return files


def _site_picture(picture: re.Match[str]) -> str:
    """Return a picture of the README for the site, whose light and dark mode has a switch."""
    image = _IMAGE.search(picture[0])
    assert image
    light, description = image["light"], image["description"]
    if light.endswith(".svg"):
        return site_drawing()
    return "\n".join(_picture_of_scheme(light, description, scheme) for scheme in ("light", "dark"))


def _picture_of_scheme(light: str, description: str, scheme: str) -> str:
    """Return a picture that the theme shows in one mode, with another file for phones."""
    wide = light.replace("-light", f"-{scheme}")
    phone = wide.replace(f"-{scheme}", f"-phone-{scheme}")
    return (
        f'<picture><source media="(max-width: 600px)" srcset="{phone}">'
        f'<img src="{wide}#only-{scheme}" alt="{description}"></picture>'
    )


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Change links out of docs/, which is all that the site has, to links to pages with the code."""
    return with_links_to_code(markdown, page.file)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Let phones show wide tables row by row."""
    return with_titles_in_cells(html)


def _command_reference() -> str:
    """Return a page with the help of every command."""
    parts = ["# Commands\n\nThe output of `albertine COMMAND --help`.\n"]
    for command in _all_commands():
        title = f"## albertine {' '.join(command)}" if command else "## albertine"
        parts.append(f"{title}\n\n```text\n{_help_text(command).strip()}\n```\n")
    return "\n".join(parts)


def _all_commands() -> list[list[str]]:
    """Return the words of every command, such as ["corpus", "build"]; [] is `albertine` itself."""
    commands: list[list[str]] = [[]]
    for name in _command_names(app):
        commands.append([name])
        if name in _COMMAND_GROUPS:
            commands += [[name, inner] for inner in _command_names(app[name])]
    return commands


def _command_names(commands: object) -> list[str]:
    return sorted(name for name in commands if not name.startswith("-"))  # type: ignore[attr-defined]


def _help_text(command: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run_command(app, [*command, "--help"])
    return out.getvalue()


def _settings_reference() -> str:
    """Return a page with the settings of every command."""
    parts = ["# Settings\n\nThe keys of a `--config` file, by command; on the command line, `--table.key`.\n"]
    for command in _all_commands():
        settings_type = _settings_type(command)
        if settings_type is None:
            continue
        rows = [f"| `{key}` | {default} | {doc} |" for key, default, doc in _settings_rows(settings_type, "")]
        parts.append(
            f"## {' '.join(command)}\n\n| key | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def _settings_type(command: list[str]) -> type[Settings] | None:
    """Return the settings class of a command, from the signature of its function; None if it has none."""
    app_or_command = app
    for word in command:
        app_or_command = app_or_command[word]
    hints = get_type_hints(app_or_command.default_command) if app_or_command.default_command else {}
    return next((hint for hint in get_args(hints.get("settings")) if hint is not type(None)), None)


def _settings_rows(settings_type: type[Settings], prefix: str) -> list[tuple[str, str, str]]:
    """Return key, default and meaning of each setting of a class and of its tables."""
    rows = []
    for field, hint in typed_fields(settings_type):
        if is_table(hint):
            rows += _settings_rows(hint, f"{prefix}{field.name}.")
        else:
            default = "" if field.default is None else f"`{field.default}`"
            rows.append((prefix + field.name, default, field.metadata["doc"].replace("|", "\\|")))
    return rows
