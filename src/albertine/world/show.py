"""The console output of `albertine world write` and `albertine world show`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.storage.objects import display_path
from albertine.world.readme import TaskSummary, TextSummary
from albertine.world.settings import StorySettings
from albertine.world.stories import CORPUS_GENRES, GENRES_BY_FOLDER, Story, make_story


def show_written_world(
    out: Path, texts: Sequence[TextSummary], tasks: Sequence[TaskSummary], *, as_json: bool
) -> None:
    """Print the sizes and scores of a written world, as tables or as JSON."""
    if as_json:
        report = {
            "folder": display_path(out),
            "texts": [asdict(text) for text in texts],
            "tasks": [asdict(task) for task in tasks],
        }
        progress.print_json(report)
        return
    from rich.table import Table

    console = progress.result_console()
    console.print(f"Written to {display_path(out)}", markup=False)
    if texts:
        table = Table("text", "documents", "sentences", "words", box=None)
        for text in texts:
            table.add_row(f"{text.folder}/", f"{text.stories:,}", f"{text.sentences:,}", f"{text.words:,}")
        console.print(table)
    if tasks:
        table = Table("task", "examples", "metric", "guessing", "bag of words", box=None)
        for task in tasks:
            bag_of_words = "" if task.bag_of_words_score is None else f"{100 * task.bag_of_words_score:.1f}"
            count = f"{sum(task.examples_by_file.values()):,}"
            table.add_row(task.name, count, task.metric, f"{100 * task.guessing_score:.1f}", bag_of_words)
        console.print(table)
    console.print(f"Details: {display_path(out / 'README.md')}", markup=False)


def show_story(number: int, settings: StorySettings, *, as_json: bool) -> None:
    """Print a story and its event log, as text or as JSON."""
    genres = CORPUS_GENRES if settings.genre == "any" else (settings.genre,)
    folder = next((name for name, in_folder in GENRES_BY_FOLDER.items() if in_folder == genres), "text")
    story = make_story(settings.seed, folder, number, genres)
    if as_json:
        print(
            json.dumps(
                {
                    "title": story.scene.title,
                    "genre": story.genre,
                    "sentences": story.sentences,
                    "log": _event_lines(story),
                }
            )
        )
        return
    console = progress.result_console()
    console.print(f"[bold]{story.scene.title}[/] ({story.genre})\n", highlight=False)
    console.print(" ".join(story.sentences), highlight=False, markup=False)
    console.print("\nWhat happened:", highlight=False)
    for line in _event_lines(story):
        console.print(f"  {line}", highlight=False, markup=False)


def _event_lines(story: Story) -> list[str]:
    return [_event_line(event) for event in story.log]


def _event_line(event: Any) -> str:
    """Return an event as one line: its type and its fields."""
    values = (_event_line(value) if isinstance(value, tuple) else str(value) for value in event)
    return f"{event.__class__.__name__}: {', '.join(values)}"
