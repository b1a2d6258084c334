"""The world on disk: a corpus, the tasks in their official layouts, and a README that says what is there.

Every file is a job that depends on the seed and on nothing else, so any number of
processes writes the same bytes. The folder appears when all of it is written.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.processes import in_processes
from albertine.whole import new_folder, refuse_taken
from albertine.world.readme import TaskCount, TextCount, readme
from albertine.world.settings import WorldSettings
from albertine.world.stories import CORPUS, EXTRA, OTHER, story
from albertine.world.tasks import glue, race, squad

_ON_FILE = 5_000  # stories in a file of text
_TEXTS = {"text": CORPUS, "text-extra": EXTRA, "text-other": OTHER}


@dataclass(frozen=True)
class _Text:
    """A file of stories."""

    out: Path
    folder: str
    first: int
    count: int
    seed: int

    def do(self) -> TextCount:
        """Write it."""
        counted = TextCount(self.folder, files=1, stories=self.count)
        file = self.out / self.folder / f"{self.first // _ON_FILE:05d}.txt"
        file.parent.mkdir(exist_ok=True)
        with file.open("w", encoding="utf-8", newline="\n") as lines:
            for number in range(self.first, self.first + self.count):
                sentences = story(self.seed, self.folder, number, _TEXTS[self.folder]).sentences
                text = "\n".join(sentences)
                lines.write(f"{text}\n\n")
                counted.sentences += len(sentences)
                counted.words += text.count(" ") + len(sentences)
        return counted


@dataclass(frozen=True)
class _Glue:
    """The files of a task of GLUE."""

    out: Path
    name: str
    settings: WorldSettings

    def do(self) -> TaskCount:
        """Write them."""
        from albertine.world.tasks import yardsticks

        task = next(task for task in glue.TASKS if task.name == self.name)
        sizes = _sizes(self.settings)
        seen: set[tuple[str, ...]] = set()
        made = {
            split.file: list(glue.examples(task, split, sizes[split.size], self.settings.seed, seen))
            for split in task.splits
        }
        for split in task.splits:
            rows = made[split.file]
            _write_table(self.out / "glue" / self.name / f"{split.file}.tsv", glue.table(task, split, rows))
            if split.size == "test":
                gold = _GOLD_FILES.get(split.file, self.name)
                _write_table(self.out / "glue" / "gold" / f"{gold}.tsv", glue.gold(rows))
        held_out = made[next(split.file for split in task.splits if split.size == "dev")]
        labels = dict(Counter(example.label for example in held_out)) if task.labels else {}
        return TaskCount(
            self.name,
            task.metric,
            {split.file: len(made[split.file]) for split in reversed(task.splits)},
            labels,
            max(labels.values()) / len(held_out) if task.metric == "accuracy" else 0.0,
            yardsticks.on_pairs(task, made["train"], held_out) if self.settings.baselines else None,
        )


_GOLD_FILES = {"test_matched": "MNLI-m", "test_mismatched": "MNLI-mm"}


@dataclass(frozen=True)
class _Squad:
    """The files of SQuAD."""

    out: Path
    settings: WorldSettings
    name: str = "SQuAD"

    def do(self) -> TaskCount:
        """Write them."""
        from albertine.world.tasks import yardsticks

        settings = self.settings
        made = {
            split: squad.paragraphs(split, size, settings.seed)
            for split, size in (("train", settings.train), ("dev", settings.dev))
        }
        counts = {}
        for split, paragraphs in made.items():
            for version in ("1.1", "v2.0"):
                name = f"{split}-v{version.removeprefix('v')}"
                laid_out = squad.file_of(paragraphs, split, version)
                _write_json(self.out / "squad" / f"{name}.json", laid_out)
                counts[name] = sum(len(entry["paragraphs"][0]["qas"]) for entry in laid_out["data"])
        words = yardsticks.on_spans(made["train"], made["dev"]) if settings.baselines else None
        return TaskCount(self.name, "exact match, v1.1", counts, words=words)


@dataclass(frozen=True)
class _Race:
    """The folders of RACE, of one level."""

    out: Path
    level: str
    settings: WorldSettings

    @property
    def name(self) -> str:
        """Return what the task is called."""
        return f"RACE {self.level}"

    def do(self) -> TaskCount:
        """Write them."""
        from albertine.world.tasks import yardsticks

        settings = self.settings
        made = {
            split: race.articles(self.level, split, size, settings.seed)
            for split, size in _sizes(settings).items()
        }
        for split, articles in made.items():
            for article in articles:
                file = self.out / "race" / split / self.level / f"{article.number}.txt"
                _write_json(file, race.file_of(article, self.level))
        counts = {split: sum(len(article.asked) for article in articles) for split, articles in made.items()}
        rights = dict(Counter("ABCD"[choice.right] for article in made["dev"] for choice in article.asked))
        words = yardsticks.on_options(made["train"], made["dev"]) if settings.baselines else None
        return TaskCount(self.name, "accuracy", counts, rights, 0.25, words)


_Job = _Text | _Glue | _Squad | _Race


def write_world(out: Path, settings: WorldSettings) -> tuple[list[TextCount], list[TaskCount]]:
    """Write a world into a new folder; return what there is."""
    refuse_taken(out)
    with new_folder(out) as folder:
        jobs = _jobs(folder, settings)
        texts = {name: TextCount(name) for name in _TEXTS}
        tasks: dict[str, TaskCount] = {}
        done = _all_done(jobs, settings.workers or os.cpu_count() or 1)
        for count in progress.track(done, "Writing the world", total=len(jobs), unit="jobs"):
            if isinstance(count, TextCount):
                texts[count.folder].add(count)
            else:
                tasks[count.name] = count
        told = [text for text in texts.values() if text.stories]
        ordered = [tasks[job.name] for job in jobs if not isinstance(job, _Text)]
        (folder / "README.md").write_text(readme(settings, told, ordered), encoding="utf-8")
    return told, ordered


def _jobs(folder: Path, settings: WorldSettings) -> list[_Job]:
    """Return what there is to write, what takes longest first."""
    jobs: list[_Job] = []
    if settings.train:
        tasks: list[_Glue | _Squad | _Race] = [_Glue(folder, task.name, settings) for task in glue.TASKS]
        tasks += [_Squad(folder, settings), *(_Race(folder, level, settings) for level in race.LEVELS)]
        jobs += [task for task in tasks if task.name.split()[0].lower() in settings.wanted()]
    for name, count in (
        ("text", settings.stories),
        ("text-extra", settings.extra),
        ("text-other", settings.other),
    ):
        for first in range(0, count, _ON_FILE):
            jobs.append(_Text(folder, name, first, min(_ON_FILE, count - first), settings.seed))
    return jobs


def _all_done(jobs: list[_Job], workers: int) -> Iterable[TextCount | TaskCount]:
    """Do all jobs, here if that is enough."""
    if workers == 1 or len(jobs) < 2:
        return (job.do() for job in jobs)
    done = in_processes(
        _do, jobs, min(workers, len(jobs)), start=_one_thread, advice="--workers 1 needs the least"
    )
    return (count for _, count in done)


def _one_thread() -> None:
    """Keep numpy, which a job imports when it needs it, to one thread: the processes are the parallelism."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _do(job: _Job) -> TextCount | TaskCount:
    return job.do()


def _sizes(settings: WorldSettings) -> dict[str, int]:
    return {"train": settings.train, "dev": settings.dev, "test": settings.test}


def _write_table(file: Path, lines: Iterable[tuple[str, ...]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8", newline="\n")


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8", newline="\n")
