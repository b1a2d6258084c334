"""The commands that read, for which files are damaged. A new command that reads is one entry here."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from tests.campaign.examples import CAN_EXPORT_WEB, STUDY_COMMAND
from tests.campaign.faults.unfinished import resume_command
from tests.campaign.faults.writing_commands import WRITING_COMMANDS

Strictness = Literal["verified", "structured", "data"]

# A damaged file of these may be valid with other content, so commands cannot notice the damage.
_DATA = (
    "world/*", "pairs/*", "*.csv", "*.conll", "*/metrics.jsonl", "*/report.html", "*/curve.*",
    "card/report-card.*", "studies/claims/*", "studies/runs/*/results/training.json",
)  # fmt: skip

# Files that a model of another library may lack.
OPTIONAL_FILES = (
    "tokenizer_config.json", "special_tokens_map.json", "sentence_bert_config.json",
    "config_sentence_transformers.json",
)  # fmt: skip


@dataclass(frozen=True)
class ReadingCommand:
    """A command that reads, and what may be damaged.

    Attributes:
        command: its arguments, separated by spaces; it writes to `result` or to standard output.
        damaged: the folder in which a file is damaged.
        inputs: other files and folders of the examples that it reads.
        verified: patterns of files with checksums; the command must notice every change, unless it does not
            need the file.
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
        """Return how much damage to a file the command must notice.

        "verified": all damage. "structured": a file that is truncated, empty or deleted. "data": none.
        """
        if any(fnmatch(file, pattern) for pattern in self.verified):
            return "verified"
        return "data" if any(fnmatch(file, pattern) for pattern in _DATA) else "structured"

    def files(self, examples: Path) -> Iterator[str]:
        """Yield the files to damage; files of checkpoints only if the command resumes from them."""
        for path in sorted((examples / self.damaged).rglob("*")):
            is_read = self.verified or CHECKPOINTS_FOLDER not in path.parts
            if path.is_file() and path.suffix != ".lock" and is_read:
                yield path.relative_to(examples).as_posix()


def _table_commands(model: str) -> Iterator[ReadingCommand]:
    """Yield the commands that read a fine-tuned model or an ensemble of classifiers."""
    members = ("classify", "classify-2") if model == "ensemble" else ()
    inputs = (*members, "reviews.csv")
    yield ReadingCommand(f"predict {model} --data reviews.csv --out result.csv", model, inputs)
    yield ReadingCommand(f"evaluate {model} --data reviews.csv --json", model, inputs)


_ENSEMBLE_PREDICTION = "predict ensemble --data reviews.csv --out result.csv"
_MASKED = "The_[MASK]_was_here."
READING_COMMANDS: tuple[ReadingCommand, ...] = (
    ReadingCommand("tokenizer show tokenizer The_sea", "tokenizer"),
    ReadingCommand(
        "corpus build world/text --tokenizer tokenizer --out result --workers 1", "tokenizer", ("world",)
    ),
    ReadingCommand("corpus check corpus", "corpus", verified=("corpus/*",)),
    ReadingCommand("check corpus --json", "corpus", verified=("corpus/*",)),
    ReadingCommand("corpus show corpus --json", "corpus"),
    ReadingCommand("probe run --corpus corpus --device cpu --tokens 256 --json", "corpus", ("run",)),
    ReadingCommand("report run", "corpus", ("run",)),
    ReadingCommand(WRITING_COMMANDS["pretrain"].command.replace("--out out", "--out result"), "corpus"),
    ReadingCommand(resume_command("unfinished-run"), "corpus", ("unfinished-run",)),
    ReadingCommand(resume_command("unfinished-run"), "unfinished-run", ("corpus",), ("*/checkpoints/*",)),
    ReadingCommand(
        "pretrain --out unfinished-run --resume", "unfinished-run", ("corpus",), ("*/checkpoints/*",)
    ),
    ReadingCommand(
        resume_command("unfinished-finetuning"),
        "unfinished-finetuning",
        ("run", "reviews.csv"),
        ("*/checkpoints/*",),
    ),
    ReadingCommand(
        resume_command("unfinished-corpus"),
        "unfinished-corpus",
        ("world", "text", "tokenizer"),
        ("unfinished-corpus/*",),
    ),
    ReadingCommand("info run --json", "run"),
    ReadingCommand(f"fill-mask run {_MASKED} --device cpu --json", "run"),
    ReadingCommand("score run --data reviews.csv --text review --device cpu", "run", ("reviews.csv",)),
    ReadingCommand(
        "embed sentences --data reviews.csv --text review --out result.npy --device cpu",
        "sentences",
        ("reviews.csv",),
    ),
    ReadingCommand("evaluate run --task blimp --data pairs --device cpu --json", "run", ("pairs",)),
    ReadingCommand("convert run result", "run"),
    ReadingCommand("report run", "run", ("corpus",)),
    ReadingCommand("pretrain --plot run", "run"),
    ReadingCommand("compare run apart --json", "run", ("apart",)),
    ReadingCommand("compare classify-2 classify --json", "classify", ("classify-2",)),
    ReadingCommand("probe run --corpus corpus --device cpu --tokens 256 --json", "run", ("corpus",)),
    ReadingCommand("report-card run --corpus corpus --out result --device cpu --json", "run", ("corpus",)),
    ReadingCommand(
        "report-card run --corpus corpus --out card --device cpu --json", "card", ("run", "corpus")
    ),
    ReadingCommand(f"{STUDY_COMMAND} --json", "studies", ("claim.toml",)),
    ReadingCommand("study --out studies --json", "studies"),
    ReadingCommand(
        WRITING_COMMANDS["finetune"].command.replace("--out out", "--out result"), "run", ("reviews.csv",)
    ),
    ReadingCommand("convert google result", "google"),
    *_table_commands("classify"),
    *_table_commands("ensemble"),
    ReadingCommand(
        "predict exported --data reviews.csv --out result.csv",
        "exported",
        ("reviews.csv",),
        ("exported/model.onnx",),
    ),
    ReadingCommand(
        "embed exported-encoder --data reviews.csv --text review --out result.npy",
        "exported-encoder",
        ("reviews.csv",),
        ("exported-encoder/model.onnx",),
    ),
    *(
        [
            ReadingCommand(
                "predict exported-web --data reviews.csv --out result.csv",
                "exported-web",
                ("reviews.csv",),
                ("exported-web/block.onnx",),
            )
        ]
        if CAN_EXPORT_WEB
        else []
    ),
    ReadingCommand(_ENSEMBLE_PREDICTION, "classify-2", ("ensemble", "classify", "reviews.csv")),
    ReadingCommand("report classify", "classify", ("reviews.csv",)),
    ReadingCommand("info classify --json", "classify"),
    ReadingCommand(WRITING_COMMANDS["ensemble --save"].command, "classify", ("classify-2", "reviews.csv")),
    ReadingCommand("predict regress --data reviews.csv --out result.csv", "regress", ("reviews.csv",)),
    ReadingCommand("predict tag --data tags.conll --out result.tsv", "tag", ("tags.conll",)),
    ReadingCommand("predict answer --data world/squad --out result.json", "answer", ("world",)),
    ReadingCommand("predict judge --data world/glue --out result", "judge", ("world",)),
    ReadingCommand("predict choose --data world/race --out result.jsonl", "choose", ("world",)),
    ReadingCommand("predict match --data world/race --out result.jsonl", "match", ("world",)),
    ReadingCommand("predict answer --data world/squad --out result.json", "world/squad", ("answer",)),
    ReadingCommand("predict judge --data world/glue --out result", "world/glue/CoLA", ("judge",)),
    ReadingCommand("predict choose --data world/race --out result.jsonl", "world/race", ("choose",)),
    ReadingCommand("evaluate run --task blimp --data pairs --device cpu --json", "pairs", ("run",)),
    ReadingCommand("tokenizer show tokenizer --stats world/text", "world/text", ("tokenizer",)),
)
