"""Writes a world to disk: a corpus, the tasks in their official layouts, and a README.

Every job writes its own files and depends only on the settings, so any number of
processes writes the same bytes. The folder appears only when all of it is written.
"""

import json
import os
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.atomic import atomic_folder
from albertine.executors.executor import Executor
from albertine.executors.process_pool import ProcessPool
from albertine.processes import num_cores
from albertine.storage.upload import check_output_folder, output_folder
from albertine.world.readme import TaskSummary, TextSummary, readme
from albertine.world.settings import WorldSettings
from albertine.world.stories import GENRES_BY_FOLDER, make_story
from albertine.world.tasks import glue, race, squad

WORLD_FILE, WORLD_FORMAT = "world.json", 1
_STORIES_PER_FILE = 5_000
_GOLD_FILE_NAMES = {"test_matched": "MNLI-m", "test_mismatched": "MNLI-mm"}


@dataclass(frozen=True)
class _TextJob:
    """The job that writes one file of stories."""

    out: Path
    folder: str
    first: int
    count: int
    seed: int

    def run(self) -> TextSummary:
        """Write the file; return its size."""
        summary = TextSummary(self.folder, files=1, stories=self.count)
        file = self.out / self.folder / f"{self.first // _STORIES_PER_FILE:05d}.txt"
        file.parent.mkdir(exist_ok=True)
        with file.open("w", encoding="utf-8", newline="\n") as lines:
            for number in range(self.first, self.first + self.count):
                sentences = make_story(
                    self.seed, self.folder, number, GENRES_BY_FOLDER[self.folder]
                ).sentences
                text = "\n".join(sentences)
                lines.write(f"{text}\n\n")
                summary.sentences += len(sentences)
                summary.words += text.count(" ") + len(sentences)
        return summary


@dataclass(frozen=True)
class _GlueJob:
    """The job that writes the files of one GLUE task."""

    out: Path
    name: str
    settings: WorldSettings

    @property
    def task_name(self) -> str:
        """The task's name in the settings."""
        return self.name.lower()

    def run(self) -> TaskSummary:
        """Write the files; return their sizes and scores."""
        task = next(task for task in glue.TASKS if task.name == self.name)
        sizes = _sizes(self.settings)
        seen: set[tuple[str, ...]] = set()
        examples_by_file = {
            split.file: list(
                glue.make_examples(task, split, sizes[split.partition], self.settings.seed, seen)
            )
            for split in task.splits
        }
        self._write(task, examples_by_file)
        return self._summary(task, examples_by_file)

    def _write(self, task: glue.GlueTaskSpec, examples_by_file: Mapping[str, list[glue.GlueExample]]) -> None:
        folder = self.out / "glue"
        for split in task.splits:
            examples = examples_by_file[split.file]
            _write_table(folder / self.name / f"{split.file}.tsv", glue.table_rows(task, split, examples))
            if split.partition == "test":
                gold = _GOLD_FILE_NAMES.get(split.file, self.name)
                _write_table(folder / "gold" / f"{gold}.tsv", glue.gold_rows(examples))

    def _summary(
        self, task: glue.GlueTaskSpec, examples_by_file: Mapping[str, list[glue.GlueExample]]
    ) -> TaskSummary:
        from albertine.world.tasks import baselines

        train = examples_by_file["train"]
        dev = examples_by_file[next(split.file for split in task.splits if split.partition == "dev")]
        labels = dict(Counter(example.label for example in dev)) if task.labels else {}
        return TaskSummary(
            "glue",
            self.name,
            task.metric,
            # The splits are in the order in which they are drawn, training last.
            examples_by_file={
                split.file: len(examples_by_file[split.file]) for split in reversed(task.splits)
            },
            dev_labels=labels,
            guessing_score=max(labels.values()) / len(dev) if task.metric == "accuracy" else 0.0,
            bag_of_words_score=baselines.glue_baseline(task, train, dev) if self.settings.baselines else None,
        )


@dataclass(frozen=True)
class _SquadJob:
    """The job that writes the files of SQuAD 1.1 and 2.0."""

    out: Path
    settings: WorldSettings
    name: str = "SQuAD"
    task_name: str = "squad"

    def run(self) -> TaskSummary:
        """Write the files; return their sizes and scores."""
        from albertine.world.tasks import baselines

        settings = self.settings
        paragraphs_by_split = {
            split: squad.make_paragraphs(split, size, settings.seed)
            for split, size in (("train", settings.train), ("dev", settings.dev))
        }
        counts = {}
        for split, paragraphs in paragraphs_by_split.items():
            for name, version in ((f"{split}-v1.1", "1.1"), (f"{split}-v2.0", "v2.0")):
                content = squad.squad_json(paragraphs, split, version)
                _write_json(self.out / "squad" / f"{name}.json", content)
                counts[name] = sum(len(entry["paragraphs"][0]["qas"]) for entry in content["data"])
        score = (
            baselines.squad_baseline(paragraphs_by_split["train"], paragraphs_by_split["dev"])
            if settings.baselines
            else None
        )
        return TaskSummary(
            "squad", self.name, "exact match, v1.1", examples_by_file=counts, bag_of_words_score=score
        )


@dataclass(frozen=True)
class _RaceJob:
    """The job that writes the folders of one level of RACE."""

    out: Path
    level: str
    settings: WorldSettings

    @property
    def name(self) -> str:
        """The task's name in the README."""
        return f"RACE {self.level}"

    @property
    def task_name(self) -> str:
        """The task's name in the settings."""
        return "race"

    def run(self) -> TaskSummary:
        """Write the files; return their sizes and scores."""
        from albertine.world.tasks import baselines

        settings = self.settings
        articles_by_split = {
            split: race.make_articles(self.level, split, size, settings.seed)
            for split, size in _sizes(settings).items()
        }
        for split, articles in articles_by_split.items():
            for article in articles:
                file = self.out / "race" / split / self.level / f"{article.number}.txt"
                _write_json(file, race.race_json(article, self.level))
        counts = {
            split: sum(len(article.questions) for article in articles)
            for split, articles in articles_by_split.items()
        }
        answer_counts = dict(
            Counter(
                "ABCD"[question.answer_index]
                for article in articles_by_split["dev"]
                for question in article.questions
            )
        )
        score = (
            baselines.race_baseline(articles_by_split["train"], articles_by_split["dev"])
            if settings.baselines
            else None
        )
        return TaskSummary(
            "race",
            self.name,
            "accuracy",
            examples_by_file=counts,
            dev_labels=answer_counts,
            guessing_score=0.25,
            bag_of_words_score=score,
        )


_WorldJob = _TextJob | _GlueJob | _SquadJob | _RaceJob


def write_world(
    out: Path, settings: WorldSettings, executor: Executor | None = None
) -> tuple[list[TextSummary], list[TaskSummary]]:
    """Write a world into a new folder; return the sizes of its texts and tasks.

    Args:
        out: a new folder, or its URL on object storage.
        settings: what to write.
        executor: where the jobs run; None for processes of this machine.
    """
    check_output_folder(out)
    with output_folder(out) as local, atomic_folder(local) as folder:
        jobs = _jobs(folder, settings)
        texts = {name: TextSummary(name) for name in GENRES_BY_FOLDER}
        tasks: dict[str, TaskSummary] = {}
        # Closed before the folder is removed after an error, so that no job still writes to it.
        with closing(_run_jobs(jobs, settings.workers or num_cores(), executor)) as summaries:
            for summary in progress.track(summaries, "Writing the world", total=len(jobs), unit="jobs"):
                if isinstance(summary, TextSummary):
                    texts[summary.folder].add(summary)
                else:
                    tasks[summary.name] = summary
        written_texts = [text for text in texts.values() if text.stories]
        written_tasks = [tasks[job.name] for job in jobs if not isinstance(job, _TextJob)]
        _write_json(folder / WORLD_FILE, _description(settings))
        text = readme(settings, written_texts, written_tasks)
        (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")
    return written_texts, written_tasks


def _description(settings: WorldSettings) -> dict[str, Any]:
    """Return the content of `world.json`: everything that determines the other files."""
    values = {key: value for key, value in asdict(settings).items() if key != "workers"}
    if settings.tasks is not None:  # in one spelling, which the command in the README has too
        values["tasks"] = ",".join(settings.task_names())
    return {"format": WORLD_FORMAT, "settings": values}


def _jobs(folder: Path, settings: WorldSettings) -> list[_WorldJob]:
    """Return all jobs; tasks come first because they take longest."""
    jobs: list[_WorldJob] = []
    if settings.train:
        tasks: list[_GlueJob | _SquadJob | _RaceJob] = [
            _GlueJob(folder, task.name, settings) for task in glue.TASKS
        ]
        tasks += [_SquadJob(folder, settings), *(_RaceJob(folder, level, settings) for level in race.LEVELS)]
        jobs += [task for task in tasks if task.task_name in settings.task_names()]
    for name, count in (
        ("text", settings.stories),
        ("text-extra", settings.extra),
        ("text-other", settings.other),
    ):
        for first in range(0, count, _STORIES_PER_FILE):
            jobs.append(_TextJob(folder, name, first, min(_STORIES_PER_FILE, count - first), settings.seed))
    return jobs


def _run_jobs(
    jobs: list[_WorldJob], workers: int, executor: Executor | None
) -> Generator[TextSummary | TaskSummary, None, None]:
    """Run all jobs, in this process if one worker or one job is enough; yield their results."""
    if executor is None:
        if workers == 1 or len(jobs) < 2:
            yield from (job.run() for job in jobs)
            return
        executor = ProcessPool(min(workers, len(jobs)))
    results = executor.run(
        _run_job,
        jobs,
        initializer=_limit_to_one_thread,
        advice="--workers 1 needs the least memory",
    )
    for _, summary in results:
        yield summary


def _limit_to_one_thread() -> None:
    """Limit numpy to one thread, since there is one process per core; a job imports numpy after this."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _run_job(job: _WorldJob) -> TextSummary | TaskSummary:
    return job.run()


def _sizes(settings: WorldSettings) -> dict[str, int]:
    return {"train": settings.train, "dev": settings.dev, "test": settings.test}


def _write_table(file: Path, lines: Iterable[tuple[str, ...]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8", newline="\n")


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8", newline="\n")
