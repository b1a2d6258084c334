"""The examples: small valid folders and files of every kind, from which all trials start.

`build_examples` writes them with commands of Albertine, in a few seconds. The commands name paths
relative to the folder, so that they also work in a copy of it.
"""

import csv
import gzip
import json
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import pyarrow
import pyarrow.parquet
import torch
from safetensors.torch import save_file

from albertine.errors import ExitStatus
from albertine.export.npm_packages import has_cached_packages
from tests.campaign.commands import Limits, run_forked
from tests.sentencepiece_fixture import sentencepiece_model
from tests.task_fixtures import reviews, write_csv, write_jsonl

_GOOGLE_FOLDER = Path(__file__).parent.parent / "interop" / "google"
_MODEL = (
    "--model.embedding-size 16 --model.hidden-size 32 --model.ffn-size 64 --model.layers 2 --model.heads 2 "
    "--model.max-length 64 --device cpu"
)
_FINETUNE = "--device cpu --train.precision fp32 --train.steps 4 --train.batch-size 4 --train.lr 1e-3"

# A model for each task type, and two for the ensemble.
FINETUNE_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "classify": "--task classify --data reviews.csv --text review --label stars",
        "classify-2": "--task classify --data reviews.csv --text review --label stars --train.seed 1",
        "labels": "--task multi-label --data reviews.csv --text review --label stars",
        "regress": "--task regress --data reviews.csv --text review --label mark",
        "tag": "--task tag --data tags.conll",
        "choose": "--task race --data world/race",
        "match": "--task race --data world/race --co-matching",
        "compare": "--task rte --data world/glue --matching",
        "answer": "--task squad-2.0 --data world/squad --train.exits --exit-heads own --train.learned-exit",
        "judge": "--task cola --data world/glue",
    }
)
_CLAIM = """\
claim = "Order is the better objective."
source = "the campaign"
columns = ["mask_loss", "sop_accuracy"]
[arms]
none = { objective.pair = "none" }
SOP = { objective.pair = "sop", train.lr = 0.004 }
[[expectations]]
measure = "sop_accuracy"
arm = "SOP"
than = "none"
margin = 5
[scales.smoke]
stories = 40
examples = 2
dev_examples = 2
vocab_size = 400
probe_tokens = 500
pretrain.train.steps = 3
[starts]
SOP = "none"
[published]
columns = ["SOP %"]
rows.none = [53.3]
rows.SOP = [86.5]
"""
_GLUE_CLAIM = """
claim = "An ensemble is better."
source = "examples"
columns = ["mnli"]
arms.single = {}
arms.ensemble = {}
finetuning.ensemble = { runs = 2, ensemble = true }
[[expectations]]
measure = "mnli"
arm = "ensemble"
than = "single"
margin = 1
[scales.evening]
tasks = ["mnli"]
vocab_size = 400
probe_tokens = 500
examples = 12
dev_examples = 4
finetune_steps = 2
[scales.evening.pretrain]
model = { embedding_size = 16, hidden_size = 32, heads = 4, layers = 2, max_length = 64 }
objective.max_length = 32
train = { steps = 3, batch_tokens = 256 }
"""
STUDY_COMMAND = "study claim.toml --scale smoke --out studies --seeds 1"
# Needs Node.js, and the npm packages that any earlier export to web has fetched.
CAN_EXPORT_WEB = shutil.which("node") is not None and has_cached_packages()
WEB_COMMANDS = ("export classify --to web --out exported-web",) if CAN_EXPORT_WEB else ()
BUILD_COMMANDS: tuple[str, ...] = (
    "world write world --stories 60 --extra 5 --other 5 --train 16 --dev 8 --test 8 --no-baselines "
    "--workers 1",
    "tokenizer train world/text --out tokenizer --vocab-size 400",
    "corpus build world/text --tokenizer tokenizer --out corpus --held-out 0.2 --workers 1",
    f"pretrain --corpus corpus --out run {_MODEL} --train.steps 6 --train.batch-tokens 256 "
    "--train.save-every 2 --train.evaluate-every 3 --train.evaluate-tokens 256 --train.precision fp32",
    f"pretrain --corpus corpus --out apart {_MODEL} --model.share none --train.steps 1 "
    "--train.batch-tokens 256 --train.evaluate-tokens 256 --train.precision fp32",
    "convert run converted",
    *(f"finetune run --out {name} {options} {_FINETUNE}" for name, options in FINETUNE_COMMANDS.items()),
    "report-card run --corpus corpus --out card --device cpu",
    "ensemble classify classify-2 --data reviews.csv --save ensemble",
    "export classify --out exported",
    "export run --task embed --out exported-encoder",
    *WEB_COMMANDS,
    STUDY_COMMAND,
)


def build_examples(folder: Path) -> None:
    """Write the examples into a folder, which must not exist."""
    folder.mkdir(parents=True)
    _write_tables(folder)
    _write_text(folder / "text")
    _write_pairs(folder / "pairs")
    (folder / "sentencepiece").mkdir()
    (folder / "sentencepiece" / "spiece.model").write_bytes(sentencepiece_model())
    shutil.copytree(_GOOGLE_FOLDER, folder / "google")
    (folder / "claim.toml").write_text(_CLAIM)
    (folder / "glue.toml").write_text(_GLUE_CLAIM)
    exponent = files("albertine.study.claims") / "recurrence.toml"
    (folder / "exponent.toml").write_bytes(exponent.read_bytes())
    for command in BUILD_COMMANDS:
        outcome = run_forked(command.split(), folder, Limits(seconds=120))
        if outcome.status not in (ExitStatus.DONE, ExitStatus.NOTHING_LEARNED):
            raise SystemExit(f"albertine {command}: status {outcome.status}: {outcome.stderr.decode()}")
    _write_sentence_folder(folder / "run", folder / "sentences")


def copy_example(name: str, examples: Path, folder: Path, *ignored: str) -> None:
    """Copy a file or a folder of the examples into another folder, except the ignored names in it."""
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if (examples / name).is_dir():
        ignore = shutil.ignore_patterns(*ignored)
        shutil.copytree(examples / name, target, ignore=ignore, dirs_exist_ok=True)
    else:
        shutil.copy2(examples / name, target)


def _write_sentence_folder(run: Path, folder: Path) -> None:
    """Write the model of a run as a folder of sentence-transformers with every module that is supported."""
    modules = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense", "3_Normalize": "Normalize"}
    contents: dict[str, object] = {
        "modules.json": [
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{name}"}
            for index, (path, name) in enumerate(modules.items())
        ],
        "sentence_bert_config.json": {"max_seq_length": 32, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "__version__": {"sentence_transformers": "5.0.0"},
            "prompts": {"query": "query: ", "document": ""},
            "default_prompt_name": "query",
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": 32,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
            "include_prompt": True,
        },
        "2_Dense/config.json": {
            "in_features": 32,
            "out_features": 8,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        },
    }
    for path in modules:
        (folder / path).mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(run / name, folder / name)
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    generator = torch.Generator().manual_seed(0)
    tensors = {"linear.weight": torch.randn(8, 32, generator=generator), "linear.bias": torch.zeros(8)}
    save_file(tensors, folder / "2_Dense" / "model.safetensors")


def _write_tables(folder: Path) -> None:
    """Write the same rows in every format of tables, and a file of tagged words."""
    rows = reviews(1, 40)
    write_csv(folder / "reviews.csv", rows)
    write_jsonl(folder / "reviews.jsonl", rows)
    with (folder / "reviews.tsv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), dialect="excel-tab")
        writer.writeheader()
        writer.writerows(rows)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "reviews.parquet")
    # Of some chunks, with checkpoints between them.
    many = [{"review": " ".join(row["review"].split()[-2:])} for row in reviews(2, 9000)]
    write_csv(folder / "many.csv", many)
    (folder / "sentences.txt").write_text("".join(f"{row['review']}\n" for row in rows))
    sentences = [[(word, "AB"[len(word) > 3]) for word in row["review"].split()] for row in rows]
    (folder / "tags.conll").write_text(
        "\n".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences)
    )


def _write_pairs(folder: Path) -> None:
    """Write minimal pairs of two paradigms in the format of BLiMP."""
    for paradigm in ("agreement", "order"):
        texts = [row["review"] for row in reviews(len(paradigm), 6)]
        rows = [
            {
                "sentence_good": text,
                "sentence_bad": " ".join(reversed(text.split())),
                "linguistics_term": "syntax",
                "UID": paradigm,
            }
            for text in texts
        ]
        write_jsonl(folder / f"{paradigm}.jsonl", rows)


def _write_text(folder: Path) -> None:
    """Write the same documents in every format of text."""
    folder.mkdir()
    documents = [" ".join(row["review"] for row in reviews(seed, 20)) + "." for seed in range(5)]
    plain = "\n\n".join(documents) + "\n"
    lines = "".join(json.dumps({"text": document}) + "\n" for document in documents)
    (folder / "plain.txt").write_text(plain)
    (folder / "lines.jsonl").write_text(lines)
    for name, content in (("plain.txt.gz", plain), ("lines.jsonl.gz", lines)):
        (folder / name).write_bytes(gzip.compress(content.encode(), mtime=0))
    pyarrow.parquet.write_table(pyarrow.table({"text": documents}), folder / "table.parquet")
