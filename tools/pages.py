"""What mkdocs cannot know: the front page is the README, and the reference is in the code.

Links to what lies outside of docs/ (recipes, tests) become plain words on the site.
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
from albertine.command import run
from albertine.settings import Settings
from albertine.settings.schema import fields, is_table

ROOT = Path(__file__).parent.parent
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
_GROUPS = ("tokenizer", "corpus", "world", "bench")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, not written."""
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    front = re.sub(r"\]\(docs/", "](", front)
    front = re.sub(r"\[([^\]]+)\]\((?!https://|[a-z]+\.md)[^)]*\)", r"\1", front)
    pages = {"index.md": front, "reference/commands.md": _commands(), "reference/settings.md": _settings()}
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Take out links that lead nowhere on the site."""
    return _OUTSIDE.sub(r"\1", markdown)


def _commands() -> str:
    """Write down the help of every command."""
    parts = ["# Commands\n\nWhat `albertine COMMAND --help` says.\n"]
    for words in _every_command():
        title = f"## albertine {' '.join(words)}" if words else "## albertine"
        parts.append(f"{title}\n\n```text\n{_help(words).strip()}\n```\n")
    return "\n".join(parts)


def _every_command() -> list[list[str]]:
    found: list[list[str]] = [[]]
    for name in _names(app):
        found.append([name])
        if name in _GROUPS:
            found += [[name, inner] for inner in _names(app[name])]
    return found


def _names(commands: object) -> list[str]:
    return sorted(name for name in commands if not name.startswith("-"))  # type: ignore[attr-defined]


def _help(words: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run(app, [*words, "--help"])
    return out.getvalue()


def _settings() -> str:
    """Write down every tree of settings, by the command that takes it."""
    parts = [
        "# Settings\n\nOf each command, as in a file for `--config`; on the command line, `--table.key`.\n"
    ]
    for words in _every_command():
        tree = _tree(words)
        if tree is None:
            continue
        rows = [f"| `{key}` | {default} | {doc} |" for key, default, doc in _rows(tree, "")]
        parts.append(f"## {' '.join(words)}\n\n| key | default | |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _tree(words: list[str]) -> type[Settings] | None:
    """Return the settings that a command takes, as its signature says."""
    command = app
    for word in words:
        command = command[word]
    hints = get_type_hints(command.default_command) if command.default_command else {}
    return next((hint for hint in get_args(hints.get("settings")) if hint is not type(None)), None)


def _rows(tree: type[Settings], prefix: str) -> list[tuple[str, str, str]]:
    found = []
    for field, hint in fields(tree):
        if is_table(hint):
            found += _rows(hint, f"{prefix}{field.name}.")
        else:
            default = "" if field.default is None else f"`{field.default}`"
            found.append((prefix + field.name, default, field.metadata["doc"].replace("|", "\\|")))
    return found
