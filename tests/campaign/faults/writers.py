"""The commands that write, for trials of interruption. A new command that writes is one entry here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_FIT = "--device cpu --train.precision fp32"
_CLASSIFY = f"--task classify --data reviews.csv --text review --label stars {_FIT} --train.batch-size 4"


@dataclass(frozen=True)
class Writer:
    """A command that writes, and what it reads.

    Attributes:
        command: its arguments; they write to `out` or into an input.
        inputs: the files and folders of the examples that it reads or changes.
        present_only: patterns of results that contain times, and need only exist.
        is_slow: whether the command takes much longer than a second.
    """

    command: str
    inputs: tuple[str, ...]
    present_only: tuple[str, ...] = ()
    is_slow: bool = False

    @property
    def arguments(self) -> list[str]:
        """The arguments of the command."""
        return self.command.split()


WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        "world write": Writer(
            "world write out --stories 10 --extra 2 --other 2 --train 2 --dev 2 --test 2 --no-baselines "
            "--workers 1",
            (),
        ),
        "world write, 2 workers": Writer(
            "world write out --stories 10 --extra 2 --other 2 --train 0 --no-baselines --workers 2",
            (),
            is_slow=True,
        ),
        "tokenizer train": Writer(
            "tokenizer train world/text --out out --vocab-size 300", ("world",), is_slow=True
        ),
        "corpus build": Writer(
            "corpus build world/text text/plain.txt.gz --tokenizer tokenizer --out out --held-out 0.2 "
            "--workers 1",
            ("world", "text", "tokenizer"),
        ),
        "corpus build, 2 workers": Writer(
            "corpus build world/text world/text-extra world/text-other --tokenizer tokenizer --out out "
            "--held-out 0.2 --workers 2",
            ("world", "tokenizer"),
            is_slow=True,
        ),
        "pretrain": Writer(
            "pretrain --corpus corpus --out out --model.embedding-size 16 --model.hidden-size 32 "
            "--model.ffn-size 64 --model.layers 2 --model.heads 2 --model.max-length 64 --train.steps 6 "
            "--train.batch-tokens 256 --train.save-every 2 --train.evaluate-every 3 "
            f"--train.evaluate-tokens 256 {_FIT}",
            ("corpus",),
        ),
        "pretrain --plot": Writer("pretrain --plot run", ("run",)),
        "finetune": Writer(
            f"finetune run --out out --train.steps 4 --train.lr 1e-3 {_CLASSIFY}", ("run", "reviews.csv")
        ),
        "finetune --seeds": Writer(
            f"finetune run --out out --seeds 2 --train.steps 3 --train.lr 1e-3 {_CLASSIFY}",
            ("run", "reviews.csv"),
        ),
        "finetune --sweep": Writer(
            f"finetune run --out out --sweep --grid.lr 1e-3,2e-3 --grid.dropout 0 --train.steps 3 "
            f"{_CLASSIFY}",
            ("run", "reviews.csv"),
        ),
        "predict .csv": Writer(
            "predict classify --data reviews.csv --out out.csv", ("classify", "reviews.csv")
        ),
        "predict .tsv": Writer("predict tag --data tags.conll --out out.tsv", ("tag", "tags.conll")),
        "predict .jsonl": Writer("predict choose --data world/race --out out.jsonl", ("choose", "world")),
        "predict, SQuAD": Writer("predict answer --data world/squad --out out.json", ("answer", "world")),
        "predict, GLUE": Writer("predict judge --data world/glue --out out", ("judge", "world")),
        "score": Writer("score run --data reviews.csv --text review --out out.csv", ("run", "reviews.csv")),
        "ensemble --out": Writer(
            "ensemble classify classify-2 --data reviews.csv --out out.csv",
            ("classify", "classify-2", "reviews.csv"),
        ),
        "ensemble --save": Writer(
            "ensemble classify classify-2 --data reviews.csv --save out",
            ("classify", "classify-2", "reviews.csv"),
        ),
        "ensemble --save --out": Writer(
            "ensemble classify classify-2 --data reviews.csv --save out --out out.jsonl",
            ("classify", "classify-2", "reviews.csv"),
        ),
        "convert": Writer("convert run out", ("run",)),
        "convert, Google": Writer("convert google out", ("google",)),
        "report, pre-training": Writer("report run", ("run", "corpus")),
        "report, fine-tuning": Writer("report classify", ("classify", "reviews.csv")),
        "report-card": Writer(
            "report-card run --corpus corpus --data world/glue --out out --device cpu",
            ("run", "corpus", "world"),
            is_slow=True,
        ),
        "demo": Writer(
            "demo --out out --text world/text --pretraining-steps 10 --finetuning-steps 5",
            ("world",),
            present_only=("out/*.html", "out/results/*", "out/tasks/*/results.json"),
            is_slow=True,
        ),
    }
)
