"""What a person sees of the world: what was written, and single stories with what happened in them."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.world.readme import TaskCount, TextCount
from albertine.world.settings import TaleSettings
from albertine.world.stories import CORPUS, Story, story


def show(out: Path, texts: Sequence[TextCount], tasks: Sequence[TaskCount], *, as_json: bool) -> None:
    """Print what was written."""
    if as_json:
        report = {
            "folder": str(out),
            "texts": [asdict(text) for text in texts],
            "tasks": [asdict(task) for task in tasks],
        }
        print(json.dumps(report))
        return
    from rich.table import Table

    console = progress.results()
    console.print(f"{out} holds")
    table = Table("text", "documents", "sentences", "words", box=None)
    for text in texts:
        table.add_row(f"{text.folder}/", f"{text.stories:,}", f"{text.sentences:,}", f"{text.words:,}")
    console.print(table)
    if tasks:
        table = Table("task", "examples", "score", "guessing", "bag of words", box=None)
        for task in tasks:
            words = "" if task.words is None else f"{100 * task.words:.1f}"
            count = f"{sum(task.files.values()):,}"
            table.add_row(task.name, count, task.metric, f"{100 * task.chance:.1f}", words)
        console.print(table)
    console.print(f"{out / 'README.md'} says more")


def show_story(number: int, settings: TaleSettings, *, as_json: bool) -> None:
    """Print a story of the corpus, and its log."""
    genres = CORPUS if settings.genre == "any" else (settings.genre,)
    tale = story(settings.seed, "text", number, genres)
    if as_json:
        print(
            json.dumps(
                {
                    "title": tale.scene.title,
                    "genre": tale.genre,
                    "sentences": tale.sentences,
                    "log": _log(tale),
                }
            )
        )
        return
    console = progress.results()
    console.print(f"[bold]{tale.scene.title}[/] ({tale.genre})\n", highlight=False)
    console.print(" ".join(tale.sentences), highlight=False, markup=False)
    console.print("\nWhat happened:", highlight=False)
    for line in _log(tale):
        console.print(f"  {line}", highlight=False, markup=False)


def _log(tale: Story) -> list[str]:
    return [_line(event) for event in tale.log]


def _line(event: Any) -> str:
    """Write an event in a line."""
    values = (_line(value) if isinstance(value, tuple) else str(value) for value in event)
    return f"{event.__class__.__name__}: {', '.join(values)}"
