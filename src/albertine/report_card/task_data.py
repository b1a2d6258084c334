"""Finds the data of a report card in a folder, and copies at most as many examples as the recipe takes.

Tasks are in the layouts of `tasks.task_sources`; minimal pairs are the .jsonl files of a folder whose name
begins with blimp, or of a folder `data` inside it. All runs of a report card read the copies.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from albertine.atomic import atomic_folder
from albertine.checksums import file_checksum, json_checksum
from albertine.report_card.recipe import MAX_DEV_EXAMPLES, MAX_TRAIN_EXAMPLES, TASK_RECIPES
from albertine.report_card.results import CopiedData
from albertine.tasks.formats.minimal_pairs import is_pair_file, pair_files
from albertine.tasks.task_sources import (
    TaskSource,
    expected_files,
    find_task_source,
    folders_to_search,
    read_examples,
    write_examples,
)


@dataclass(frozen=True)
class DataSources:
    """What a folder has, and what it lacks.

    Attributes:
        tasks: the sources of the tasks, by name, in the order of the recipes.
        blimp: the folder of minimal pairs; None if there is none.
        missing: for each part that the folder lacks, its title and the names that were not found.
    """

    tasks: dict[str, TaskSource]
    blimp: Path | None
    missing: dict[str, str]

    def checksums(self) -> dict[str, str]:
        """Return a checksum of the files of each part, by its title."""
        checksums = {
            TASK_RECIPES[task].title: json_checksum(source.checksums()) for task, source in self.tasks.items()
        }
        if self.blimp is not None:
            files = {Path(file).name: file_checksum(Path(file)) for file in pair_files(str(self.blimp))}
            checksums["BLiMP"] = json_checksum(files)
        return checksums


def find_sources(folder: Path) -> DataSources:
    """Return what a folder has of BLiMP and the tasks."""
    folders = folders_to_search(folder)
    tasks: dict[str, TaskSource] = {}
    missing: dict[str, str] = {}
    blimp = next(filter(None, map(_find_pairs, folders)), None)
    if blimp is None:
        missing["BLiMP"] = "folder blimp with .jsonl files"
    for name, recipe in TASK_RECIPES.items():
        source = find_task_source(name, folders)
        if source is not None:
            tasks[name] = source
        else:
            missing[recipe.title] = expected_files(name)
    return DataSources(tasks, blimp, missing)


def _find_pairs(folder: Path) -> Path | None:
    """Return the folder of minimal pairs inside a folder."""
    named = (path for path in sorted(folder.iterdir()) if path.name.lower().startswith("blimp"))
    candidates = (candidate for path in named for candidate in (path, path / "data"))
    return next(
        (path for path in candidates if path.is_dir() and any(map(is_pair_file, path.iterdir()))), None
    )


def copy_examples(source: TaskSource, out: Path) -> CopiedData:
    """Write `train.jsonl` and `dev.jsonl` into a folder; return their numbers of examples.

    The folder is replaced if it exists: a killed process may have left one that nobody has counted.
    """
    shutil.rmtree(out, ignore_errors=True)
    train, dev = read_examples(source, MAX_TRAIN_EXAMPLES, MAX_DEV_EXAMPLES)
    with atomic_folder(out) as folder:
        write_examples(folder / "train.jsonl", train)
        write_examples(folder / "dev.jsonl", dev)
    return CopiedData(str(source.train), len(train), len(dev))
