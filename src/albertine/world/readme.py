"""The README of a written world: its files, their sizes and the bag-of-words scores."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from albertine.world.settings import WorldSettings


@dataclass
class TextSummary:
    """The amount of text in a folder."""

    folder: str
    files: int = 0
    stories: int = 0
    sentences: int = 0
    words: int = 0

    def add(self, other: "TextSummary") -> None:
        """Add the counts of another file of the folder."""
        self.files += other.files
        self.stories += other.stories
        self.sentences += other.sentences
        self.words += other.words


@dataclass
class TaskSummary:
    """The folder and sizes of a task's files, and the scores of guessing and of a bag of words."""

    folder: str
    name: str
    metric: str
    examples_by_file: dict[str, int] = field(default_factory=dict)
    dev_labels: dict[str, int] = field(default_factory=dict)
    guessing_score: float = 0.0
    bag_of_words_score: float | None = None  # None: not measured


_FOLDER_DESCRIPTIONS = {
    "text": "the corpus: stories of six genres",
    "text-extra": "additional data: newspaper reports from the same world",
    "text-other": "another domain: handbook pages",
}


def readme(settings: WorldSettings, texts: Sequence[TextSummary], tasks: Sequence[TaskSummary]) -> str:
    """Return the README as Markdown."""
    parts = [_HEAD.format(command=_command(settings), seed=settings.seed)]
    if texts:
        parts.append(_texts(texts))
    if tasks:
        parts += [_tasks(tasks), _SCORES, _BAG_OF_WORDS if settings.baselines else ""]
    parts.append(_layouts(texts, tasks))
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
            *(f"{count:,}" for count in (text.stories, text.sentences, text.words)),
        )
        for text in texts
    ]
    return "## Text\n\n" + _table(("folder", "contents", "documents", "sentences", "words"), rows)


def _tasks(tasks: Sequence[TaskSummary]) -> str:
    rows = []
    for task in tasks:
        files = ", ".join(f"{name} {count:,}" for name, count in task.examples_by_file.items())
        total = sum(task.dev_labels.values())
        labels = ", ".join(
            f"{name} {100 * count / total:.0f}%" for name, count in sorted(task.dev_labels.items())
        )
        bag_of_words = (
            "not measured" if task.bag_of_words_score is None else f"{100 * task.bag_of_words_score:.1f}"
        )
        rows.append(
            (
                task.name,
                files,
                labels or ("a span" if task.name == "SQuAD" else "a number"),
                task.metric,
                f"{100 * task.guessing_score:.1f}",
                bag_of_words,
            )
        )
    head = ("task", "examples", "dev labels", "metric", "guessing", "bag of words")
    return "## Tasks\n\n" + _table(head, rows)


def _layouts(texts: Sequence[TextSummary], tasks: Sequence[TaskSummary]) -> str:
    folders = {task.folder for task in tasks} | ({"text"} if texts else set())
    layouts = "".join(layout for folder, layout in _LAYOUTS.items() if folder in folders)
    return f"## Layouts\n\n{layouts}" + (f"\n{_SPLITS}" if tasks else "")


_HEAD = """\
# A little world

A program generated everything here from seed {seed}: people, places, things and what
happens to them. Labels and answers come from the state of the world in their story, and those
of CoLA from the grammar of the sentences, so a perfect model scores 100 on every task except
SQuAD 2.0, where about one of 600 unanswerable questions has an answer in the text.

The same command writes the same files, byte for byte:

    {command}
"""

_SCORES = """\
Scores are percentages on dev (dev_matched for MNLI). *Guessing* always predicts the most
frequent label; for RACE, one of four options.
"""

_BAG_OF_WORDS = """\
*Bag of words* is logistic regression
(ridge regression for STS-B) over words and bigrams, fitted to train: the score that
is possible without word order beyond two words. For a pair of texts its features are the
n-grams of each text and those that both share. For SQuAD it ranks all phrases of the text
that are an answer anywhere in train by the words that the question shares with their
sentence; its score is the exact match.
"""

_LAYOUTS = {
    "text": """\
- `text*/`: one sentence per line, a blank line after each document. There are about 1,800
  distinct words; training a tokenizer on them finds at most about 1,700 tokens.
""",
    "glue": """\
- `glue/`: folders, files and columns as in GLUE. The columns for parses in MNLI are empty.
  Test files have no labels; `glue/gold/` has them, in the format of a GLUE submission.
""",
    "squad": """\
- `squad/`: versions 1.1 and 2.0. Both have the same stories; 2.0 adds unanswerable questions.
""",
    "race": """\
- `race/`: one file per article, in `middle` (one fact answers a question) and `high` (two or more).
""",
}

_SPLITS = """\
No story is in two splits, and no two examples of a GLUE task have the same texts.
"""
