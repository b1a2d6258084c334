"""The README of a written world: what is there, how much of it, and what a bag of words makes of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from albertine.world.settings import WorldSettings


@dataclass
class TextSummary:
    """How much text a folder holds."""

    folder: str
    files: int = 0
    stories: int = 0
    sentences: int = 0
    words: int = 0

    def add(self, other: "TextSummary") -> None:
        """Count the text of another file in."""
        self.files += other.files
        self.stories += other.stories
        self.sentences += other.sentences
        self.words += other.words


@dataclass
class TaskSummary:
    """How many examples the files of a task hold, and what is reached without reading."""

    name: str
    metric: str
    examples_by_file: dict[str, int] = field(default_factory=dict)
    dev_labels: dict[str, int] = field(default_factory=dict)  # of the development part
    guessing_score: float = 0.0
    bag_of_words_score: float | None = None  # the score of a bag of words


_FOLDER_DESCRIPTIONS = {
    "text": "the corpus: stories of six genres",
    "text-extra": "additional data: newspaper reports from the same world",
    "text-other": "another domain: pages of a handbook",
}


def readme(settings: WorldSettings, texts: Sequence[TextSummary], tasks: Sequence[TaskSummary]) -> str:
    """Write the README."""
    parts = [_HEAD.format(command=_command(settings), seed=settings.seed), _texts(texts)]
    if tasks:
        parts += [_tasks(tasks), _BASELINES if settings.baselines else "", _LAYOUTS]
    return "\n".join(part for part in parts if part)


def _command(settings: WorldSettings) -> str:
    tasks = f"--tasks {','.join(settings.task_names())} " if settings.tasks else ""
    return (
        f"albertine world write OUT --stories {settings.stories} --extra {settings.extra} "
        f"--other {settings.other} {tasks}--train {settings.train} --dev {settings.dev} "
        f"--test {settings.test} --seed {settings.seed}{'' if settings.baselines else ' --no-baselines'}"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _texts(texts: Sequence[TextSummary]) -> str:
    rows = [
        (
            f"`{text.folder}/`",
            _FOLDER_DESCRIPTIONS[text.folder],
            *(f"{n:,}" for n in (text.stories, text.sentences, text.words)),
        )
        for text in texts
    ]
    return "## Text\n\n" + _table(("folder", "what", "documents", "sentences", "words"), rows)


def _tasks(tasks: Sequence[TaskSummary]) -> str:
    rows = []
    for task in tasks:
        files = ", ".join(f"{name} {count:,}" for name, count in task.examples_by_file.items())
        total = sum(task.dev_labels.values())
        labels = ", ".join(
            f"{name} {100 * count / total:.0f}%" for name, count in sorted(task.dev_labels.items())
        )
        words = "not measured" if task.bag_of_words_score is None else f"{100 * task.bag_of_words_score:.1f}"
        rows.append(
            (
                task.name,
                files,
                labels or ("a span" if task.name == "SQuAD" else "a number"),
                task.metric,
                f"{100 * task.guessing_score:.1f}",
                words,
            )
        )
    head = ("task", "examples", "labels of dev", "score", "guessing", "bag of words")
    return "## Tasks\n\n" + _table(head, rows)


_HEAD = """\
# A little world

Everything here was made up by a program, from the seed {seed}: people, places, things,
and what happens to them. Every label and answer comes from the state of the world in
which its story happened, so the ceiling of every task is 100.

The same command writes the same files again, byte for byte:

    {command}
"""

_BASELINES = """\
*Guessing* is the commonest label (one of four options for RACE). *Bag of words* is
logistic regression over single words and pairs of neighbours (least squares for
STS-B), fitted to train and scored on dev, for MNLI on dev_matched: what is reached
without reading. For a pair of texts it sees what each has and what both have. For
SQuAD it ranks everything in the text that is an answer somewhere in train, by what the
question shares with the sentence around it; its score is the share of exact matches.
Scores are in percent.
"""

_LAYOUTS = """\
## Layouts

- `text*/`: a sentence on each line, a blank line after each document. The world has some
  1,800 words, so a vocabulary of it has at most about 1,700 pieces.
- `glue/`: folders, files and columns as GLUE has them. The columns of MNLI for parses
  are empty. Test files have no labels; `glue/gold/` has them, laid out as predictions
  are for the benchmark's server.
- `squad/`: versions 1.1 and 2.0. Both have the same stories; 2.0 adds questions without an answer.
- `race/`: a file for each article, in `middle` (one fact is enough) and `high` (two or more are needed).

No story is in two splits, and no two examples of a task of GLUE are the same text.
"""
