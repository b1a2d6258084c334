"""The commands that write, to which faults happen. A new command that writes is one entry here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tests.campaign.examples import CAN_EXPORT_WEB

_FIT = "--device cpu --train.precision fp32"
_CLASSIFY = f"--task classify --data reviews.csv --text review --label stars {_FIT} --train.batch-size 4"


@dataclass(frozen=True)
class WritingCommand:
    """A command that writes, and what it reads.

    Attributes:
        command: its arguments, separated by spaces; it writes to `out` or into an input.
        inputs: the files and folders of the examples that it reads or changes.
        present_only: patterns of results that are not compared, because they contain times.
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


WRITING_COMMANDS: Mapping[str, WritingCommand] = MappingProxyType(
    {
        "world write": WritingCommand(
            "world write out --stories 10 --extra 2 --other 2 --train 2 --dev 2 --test 2 --no-baselines "
            "--workers 1",
            (),
        ),
        "world write, 2 workers": WritingCommand(
            "world write out --stories 10 --extra 2 --other 2 --train 0 --no-baselines --workers 2",
            (),
            is_slow=True,
        ),
        "tokenizer train": WritingCommand(
            "tokenizer train world/text --out out --vocab-size 300", ("world",), is_slow=True
        ),
        "corpus build": WritingCommand(
            "corpus build world/text text/plain.txt.gz --tokenizer tokenizer --out out --held-out 0.2 "
            "--workers 1",
            ("world", "text", "tokenizer"),
        ),
        "corpus build, 2 workers": WritingCommand(
            "corpus build world/text world/text-extra world/text-other --tokenizer tokenizer --out out "
            "--held-out 0.2 --workers 2",
            ("world", "tokenizer"),
            is_slow=True,
        ),
        "pretrain": WritingCommand(
            "pretrain --corpus corpus --out out --model.embedding-size 16 --model.hidden-size 32 "
            "--model.ffn-size 64 --model.layers 2 --model.heads 2 --model.max-length 64 --train.steps 6 "
            "--train.batch-tokens 256 --train.save-every 2 --train.evaluate-every 3 "
            f"--train.evaluate-tokens 256 {_FIT}",
            ("corpus",),
        ),
        "pretrain --plot": WritingCommand("pretrain --plot run", ("run",)),
        "finetune": WritingCommand(
            f"finetune run --out out --train.steps 4 --train.lr 1e-3 {_CLASSIFY}", ("run", "reviews.csv")
        ),
        "finetune, exits": WritingCommand(
            "finetune run --out out --train.steps 4 --train.lr 1e-3 --train.exits --exit-heads own "
            f"--train.learned-exit {_CLASSIFY}",
            ("run", "reviews.csv"),
        ),
        "finetune --seeds": WritingCommand(
            f"finetune run --out out --seeds 2 --train.steps 3 --train.lr 1e-3 {_CLASSIFY}",
            ("run", "reviews.csv"),
        ),
        "finetune --sweep": WritingCommand(
            f"finetune run --out out --sweep --grid.lr 1e-3,2e-3 --grid.dropout 0 --train.steps 3 "
            f"{_CLASSIFY}",
            ("run", "reviews.csv"),
        ),
        "predict .csv": WritingCommand(
            "predict classify --data reviews.csv --out out.csv", ("classify", "reviews.csv")
        ),
        "predict .tsv": WritingCommand("predict tag --data tags.conll --out out.tsv", ("tag", "tags.conll")),
        "predict .jsonl": WritingCommand(
            "predict choose --data world/race --out out.jsonl", ("choose", "world")
        ),
        "predict, several chunks": WritingCommand(
            "predict classify --data many.csv --out out.csv", ("classify", "many.csv"), is_slow=True
        ),
        "predict, SQuAD": WritingCommand(
            "predict answer --data world/squad --out out.json", ("answer", "world")
        ),
        "predict, GLUE": WritingCommand("predict judge --data world/glue --out out", ("judge", "world")),
        "score": WritingCommand(
            "score run --data reviews.csv --text review --out out.csv", ("run", "reviews.csv")
        ),
        "score, several chunks": WritingCommand(
            "score run --data many.csv --text review --out out.jsonl", ("run", "many.csv"), is_slow=True
        ),
        "embed .npy": WritingCommand(
            "embed run --data reviews.csv --text review --out out.npy --device cpu", ("run", "reviews.csv")
        ),
        "embed .jsonl": WritingCommand(
            "embed sentences --data sentences.txt --out out.jsonl --device cpu",
            ("sentences", "sentences.txt"),
        ),
        "ensemble --out": WritingCommand(
            "ensemble classify classify-2 --data reviews.csv --out out.csv",
            ("classify", "classify-2", "reviews.csv"),
        ),
        "ensemble --save": WritingCommand(
            "ensemble classify classify-2 --data reviews.csv --save out",
            ("classify", "classify-2", "reviews.csv"),
        ),
        "ensemble --save --out": WritingCommand(
            "ensemble classify classify-2 --data reviews.csv --save out --out out.jsonl",
            ("classify", "classify-2", "reviews.csv"),
        ),
        "convert": WritingCommand("convert run out", ("run",)),
        "convert, Google": WritingCommand("convert google out", ("google",)),
        "convert, sharing": WritingCommand("convert apart out --share all --rank 2", ("apart",)),
        "export": WritingCommand(
            "export classify --precision int8 --data reviews.csv --out out --force",
            ("classify", "reviews.csv"),
            is_slow=True,
        ),
        "export, embed": WritingCommand("export run --task embed --out out", ("run",), is_slow=True),
        **(
            {"export, web": WritingCommand("export classify --to web --out out", ("classify",), is_slow=True)}
            if CAN_EXPORT_WEB
            else {}
        ),
        "bench exits": WritingCommand(
            f"bench exits run --out out --seeds 1 --train.steps 2 --train.lr 1e-3 {_CLASSIFY}",
            ("run", "reviews.csv"),
            present_only=("out/results/*", "out/curve.svg"),
            is_slow=True,
        ),
        "report, pre-training": WritingCommand("report run", ("run", "corpus")),
        "report --out": WritingCommand("report run --out out.html", ("run", "corpus")),
        "report, fine-tuning": WritingCommand("report classify", ("classify", "reviews.csv")),
        "compare": WritingCommand("compare classify classify-2 --out out.html", ("classify", "classify-2")),
        "report-card": WritingCommand(
            "report-card run --corpus corpus --data world/glue --out out --device cpu",
            ("run", "corpus", "world"),
            is_slow=True,
        ),
        "study": WritingCommand(
            "study claim.toml --scale smoke --out out --seeds 1",
            ("claim.toml",),
            present_only=(
                "out/index.html",
                "out/claims/*",
                "out/runs/*/results/training.json",
                "out/runs/*/model/curve.*",
            ),
            is_slow=True,
        ),
        "study, real tasks": WritingCommand(
            "study glue.toml --scale evening --text world/text --data world/glue --out out --seeds 1",
            ("glue.toml", "world"),
            present_only=(
                "out/index.html",
                "out/claims/*",
                "out/runs/*/results/training.json",
                "out/runs/*/model/curve.*",
            ),
            is_slow=True,
        ),
        "demo": WritingCommand(
            "demo --out out --text world/text --pretraining-steps 10 --finetuning-steps 5",
            ("world",),
            present_only=("out/*.html", "out/results/*", "out/tasks/*/results.json"),
            is_slow=True,
        ),
    }
)
