"""The commands that read, for trials of damage. A new command that reads is one entry here."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from tests.campaign.faults.unfinished import resume_command
from tests.campaign.faults.writers import WRITERS

Strictness = Literal["verified", "structured", "data"]

# Files without structure: every change gives other valid data, so the command must only end clearly.
_DATA = (
    "world/*", "pairs/*", "*.csv", "*.conll", "*/metrics.jsonl", "*/report.html", "*/curve.*",
    "card/report-card.*",
)  # fmt: skip

# Files that a model of another library may lack.
OPTIONAL_FILES = ("tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True)
class Reader:
    """A command that reads, and what may be damaged.

    Attributes:
        command: its arguments; they write to `result` or to standard output.
        damaged: the folder of which a file is damaged.
        inputs: other files and folders of the examples that it reads.
        verified: patterns of files of which the command must notice every change, or need none of them.
    """

    command: str
    damaged: str
    inputs: tuple[str, ...] = ()
    verified: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """The arguments of the command."""
        return self.command.split()

    def strictness(self, file: str) -> Strictness:
        """Return which changes of a file the command must notice.

        "verified": any. "structured": a abbreviated, emptied or deleted file. "data": none.
        """
        if any(fnmatch(file, pattern) for pattern in self.verified):
            return "verified"
        return "data" if any(fnmatch(file, pattern) for pattern in _DATA) else "structured"

    def files(self, examples: Path) -> Iterator[str]:
        """Yield the files to damage; a checkpoint's only if the command resumes from it."""
        for path in sorted((examples / self.damaged).rglob("*")):
            is_read = self.verified or CHECKPOINTS_FOLDER not in path.parts
            if path.is_file() and path.suffix != ".lock" and is_read:
                yield path.relative_to(examples).as_posix()


def _table_readers(model: str) -> Iterator[Reader]:
    """Yield the commands that read a fine-tuned model or an ensemble of classifiers."""
    members = ("classify", "classify-2") if model == "ensemble" else ()
    inputs = (*members, "reviews.csv")
    yield Reader(f"predict {model} --data reviews.csv --out result.csv", model, inputs)
    yield Reader(f"evaluate {model} --data reviews.csv --json", model, inputs)


_ENSEMBLE_PREDICTION = "predict ensemble --data reviews.csv --out result.csv"
_MASKED = "The_[MASK]_was_here."
READERS: tuple[Reader, ...] = (
    Reader("tokenizer show tokenizer The_sea", "tokenizer"),
    Reader("corpus build world/text --tokenizer tokenizer --out result --workers 1", "tokenizer", ("world",)),
    Reader("corpus check corpus", "corpus", verified=("corpus/*",)),
    Reader("corpus show corpus --json", "corpus"),
    Reader("probe run --corpus corpus --device cpu --tokens 256 --json", "corpus", ("run",)),
    Reader("report run", "corpus", ("run",)),
    Reader(WRITERS["pretrain"].command.replace("--out out", "--out result"), "corpus"),
    Reader(resume_command("unfinished-run"), "corpus", ("unfinished-run",)),
    Reader(resume_command("unfinished-run"), "unfinished-run", ("corpus",), ("*/checkpoints/*",)),
    Reader("pretrain --out unfinished-run --resume", "unfinished-run", ("corpus",), ("*/checkpoints/*",)),
    Reader(
        resume_command("unfinished-finetuning"),
        "unfinished-finetuning",
        ("run", "reviews.csv"),
        ("*/checkpoints/*",),
    ),
    Reader(
        resume_command("unfinished-corpus"),
        "unfinished-corpus",
        ("world", "text", "tokenizer"),
        ("unfinished-corpus/*",),
    ),
    Reader("info run --json", "run"),
    Reader(f"fill-mask run {_MASKED} --device cpu --json", "run"),
    Reader("score run --data reviews.csv --text review --device cpu", "run", ("reviews.csv",)),
    Reader("evaluate run --task blimp --data pairs --device cpu --json", "run", ("pairs",)),
    Reader("convert run result", "run"),
    Reader("report run", "run", ("corpus",)),
    Reader("pretrain --plot run", "run"),
    Reader("probe run --corpus corpus --device cpu --tokens 256 --json", "run", ("corpus",)),
    Reader("report-card run --corpus corpus --out result --device cpu --json", "run", ("corpus",)),
    Reader("report-card run --corpus corpus --out card --device cpu --json", "card", ("run", "corpus")),
    Reader(WRITERS["finetune"].command.replace("--out out", "--out result"), "run", ("reviews.csv",)),
    Reader("convert google result", "google"),
    *_table_readers("classify"),
    *_table_readers("ensemble"),
    Reader(_ENSEMBLE_PREDICTION, "classify-2", ("ensemble", "classify", "reviews.csv")),
    Reader("report classify", "classify", ("reviews.csv",)),
    Reader("info classify --json", "classify"),
    Reader(WRITERS["ensemble --save"].command, "classify", ("classify-2", "reviews.csv")),
    Reader("predict regress --data reviews.csv --out result.csv", "regress", ("reviews.csv",)),
    Reader("predict tag --data tags.conll --out result.tsv", "tag", ("tags.conll",)),
    Reader("predict answer --data world/squad --out result.json", "answer", ("world",)),
    Reader("predict judge --data world/glue --out result", "judge", ("world",)),
    Reader("predict choose --data world/race --out result.jsonl", "choose", ("world",)),
    Reader("predict answer --data world/squad --out result.json", "world/squad", ("answer",)),
    Reader("predict judge --data world/glue --out result", "world/glue/CoLA", ("judge",)),
    Reader("predict choose --data world/race --out result.jsonl", "world/race", ("choose",)),
    Reader("evaluate run --task blimp --data pairs --device cpu --json", "pairs", ("run",)),
    Reader("tokenizer show tokenizer --stats world/text", "world/text", ("tokenizer",)),
)  # fmt: skip
