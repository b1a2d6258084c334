"""Records what the command line computes, and compares two such records.

A refactoring that renames settings, JSON keys, modules and messages must not change what is
computed. Record before it, record after it, compare:

    python tools/golden_record.py record before.json
    python tools/golden_record.py record after.json
    python tools/golden_record.py compare before.json after.json

`record` runs the commands of the table below on a small world of its own, from the source tree that
this script lies in, on one thread, and writes every observed value: hashes of files and tensors, and
the contents of JSON, JSON lines and TOML. `compare` demands equal values; keys and file names may
differ, and are listed. When options are renamed, only the tables at the top have to be edited.

A record is valid on the machine that made it: other processors round differently.
"""

import argparse
import csv
import hashlib
import json
import os
import runpy
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# ---------------------------------------------------------------------------------------------------
# What is run. Every command runs in the work folder; names of options and tasks stand only here.

WORLD = "--stories 600 --extra 30 --other 30 --train 200 --dev 60 --test 200 --seed 3 --workers 1"
NETWORK = (
    "--model.hidden-size 32 --model.embedding-size 16 --model.layers 4 --model.heads 4 --model.max-length 128"
)
PRETRAIN = (
    "--corpus corpus --device cpu --objective.max-length 64 --train.steps 20 --train.batch-tokens 512 "
    "--train.evaluate-every 10 --train.evaluate-tokens 1024 --train.save-every 5"
)
FP32, BF16 = "--train.precision fp32", "--train.precision bf16"
# Name of the run: its options beside PRETRAIN.
PRETRAINED = {
    "muon": f"{NETWORK} {FP32}",
    "adamw": f"{NETWORK} {FP32} --train.optimizer adamw --train.schedule cosine --train.seed 1",
    "lamb": f"{NETWORK} {FP32} --train.optimizer lamb --train.schedule constant --train.warmup 5",
    "curricula": f'{NETWORK} {FP32} --curriculum.length "32, 64 from 0.5" --curriculum.depth "2, 4 from 0.5" '
    '--curriculum.mlm-probability "0.3, 0.15 from 0.5"',
    "share-attention": f"{NETWORK} {FP32} --model.share attention --model.groups 2 "
    "--train.micro-batch-tokens 128",
    "share-ffn": f"{NETWORK} {FP32} --model.share ffn --model.dropout 0.1 --train.recompute",
    "bert": f"{NETWORK} {FP32} --model.share none --model.activation gelu --model.attention-dropout 0.1",
    "nsp": f"{NETWORK} {FP32} --objective.pair nsp --objective.max-ngram 1 --no-unigram-start "
    "--no-local-start",
    "no-pair": f"{NETWORK} {FP32} --objective.pair none --objective.seed 2 --train.max-gradient-norm 0.5",
    "bf16": f"{NETWORK} {BF16}",
    "deeper": f"--init-from pretrain/muon --model.layers 6 {FP32}",
    "resumed": f"{NETWORK} {FP32}",  # `muon`, whose newest checkpoint was removed
}

START = "pretrain/muon"
TUNE = "--device cpu --train.precision fp32 --train.steps 16 --train.batch-size 8 --train.evaluate-every 8"
FAST = "--train.lr 3e-3 --sequence.max-length 64"
# Name of the run: its options beside TUNE.
TUNED = {
    "cola": f"--task cola --data world {FAST} --seeds 2",
    "sst-2": f"--task sst-2 --data world {FAST} --train.optimizer lamb --train.layer-decay 0.8",
    "sts-b": f"--task sts-b --data world {FAST} --train.optimizer muon",
    "mnli": f"--task mnli --data world {FAST} --train.freeze-embeddings",
    "squad-1.1": "--task squad-1.1 --data world --train.lr 3e-3 --sequence.stride 32",
    "squad-2.0": "--task squad-2.0 --data world --train.lr 3e-3 --albert-v2",
    "race": f"--task race --data world {FAST}",
    "classify": f"--task classify --data own/classify.csv --text review --label stars {FAST} "
    "--random-weights",
    "regress": f"--task regress --data own/regress.csv --text one --text-pair two --label mark {FAST}",
    "tag": f"--task tag --data own/tag.conll --dev own/tag-dev.conll {FAST}",
    "span": f"--task span --data own/span.jsonl --sequence.max-length 100 {FAST.split(' --sequence')[0]}",
    "choice": "--task choice --data own/choice.csv --question asked --context passage --options a,b,c,d "
    f"--label right {FAST}",
    "sweep": "--task sst-2 --data world --sequence.max-length 64 --sweep --grid.lr 3e-3,2x --grid.dropout 0",
}
ASK = "--device cpu --precision fp32"
# Name of the tuned model: what it answers, and where the answers go.
ANSWERED = {
    "cola": "--data world --out answers/cola",
    "sst-2": "--data world --out answers/sst-2",
    "sts-b": "--data world --out answers/sts-b",
    "mnli": "--data world --out answers/mnli",
    "squad-1.1": "--data world --split train --out answers/squad-1.1.json",
    "squad-2.0": "--data world --split train --out answers/squad-2.0.json",
    "race": "--data world --out answers/race.jsonl",
    "classify": "--data own/classify.csv --out answers/classify.jsonl",
    "regress": "--data own/regress.csv --out answers/regress.csv",
    "tag": "--data own/tag.conll --out answers/tag.jsonl",
    "span": "--data own/span.jsonl --out answers/span.jsonl",
    "choice": "--data own/choice.csv --out answers/choice.tsv",
}
OFFICIAL = ("cola", "sst-2", "sts-b", "mnli", "squad-1.1", "squad-2.0", "race")
# Beside the world's: the data of a tuned model that was tuned on a file of its own.
OWN = {
    "classify": "own/classify.csv",
    "regress": "own/regress.csv",
    "tag": "own/tag-dev.conll",
    "span": "own/span.jsonl",
    "choice": "own/choice.csv",
}
MASKED_TEXT = "The [MASK] was in the kitchen of the [MASK]."

# Keys whose values depend on the machine, the clock or installed versions; in any file, or in one.
MACHINE_KEYS = {"seconds", "versions", "transformers_version"}
MACHINE_KEYS_IN = {
    "metrics.jsonl": {"tokens_per_second", "utilization", "peak_memory"},
    # A digest of a state with seconds in it, and checksums of files that are recorded themselves.
    "state.json": {"sha256", "files"},
}
# Recorded as bytes though they are JSON: a format of another library.
OPAQUE = {"tokenizer.json"}
# Not recorded: drawings, pages and remarks to read, whose words may change; locks.
IGNORED = {".png", ".svg", ".html", ".md", ".lock"}
CHECKPOINTS = "checkpoints"  # the folder in a run that holds its checkpoints, in order of their names
GOOGLE_CHECKPOINT = ROOT / "tests" / "interop" / "google"


# ---------------------------------------------------------------------------------------------------
# The steps.


@dataclass(frozen=True)
class Step:
    """One command, and what of it is recorded.

    Attributes:
        name: of the section in the record.
        command: the words after `albertine`.
        printed: whether standard output is recorded.
        files: a folder or file whose contents are recorded; files of several names, separated by spaces.
        as_bytes: whether JSON among the files is hashed and not read.
        before: what to do first, in the work folder.
    """

    name: str
    command: str
    printed: bool = False
    files: str = ""
    as_bytes: bool = False
    before: Callable[[Path], None] | None = None


def steps() -> Iterator[Step]:
    """Yield all steps, in order."""
    yield from text_steps()
    for name, options in PRETRAINED.items():
        before = remove_newest_checkpoint if name == "resumed" else None
        out = f"pretrain/{name}"
        yield Step(out, f"pretrain --out {out} {PRETRAIN} {options}", files=out, before=before)
    yield from pretrained_steps()
    for name, options in TUNED.items():
        out = f"tuned/{name}"
        command = f"finetune {START} --out {out} {TUNE} {options} --json"
        yield Step(out, command, printed=True, files=out, before=write_own_data)
    yield from tuned_steps()


def text_steps() -> Iterator[Step]:
    """Yield what makes the world, the tokenizer and the corpus, and looks at them."""
    yield Step("world", f"world write world {WORLD} --json", printed=True, files="world", as_bytes=True)
    yield Step("world show", "world show 7 --genre mystery --json", printed=True)
    words = "tokenizer train world/text --vocab-size 600 --seed 1 --out tokenizer"
    yield Step("tokenizer", words, files="tokenizer")
    words = 'tokenizer show tokenizer "Edith opened the old café." --stats world/text-other --json'
    yield Step("tokenizer show", words, printed=True)
    words = "corpus build world/text --tokenizer tokenizer --held-out 0.05 --seed 1 --workers 1 --out corpus"
    yield Step("corpus", f"{words} --json", printed=True, files="corpus")
    yield Step("corpus check", "corpus check corpus --json", printed=True)
    for pair in ("sop", "nsp", "none"):
        words = f"corpus show corpus --samples 20 --objective.max-length 96 --objective.pair {pair} --json"
        yield Step(f"corpus show {pair}", words, printed=True)
    yield Step("info", "info --json", printed=True)
    words = "info albert-large --compare bert-large --model.share attention --memory 16GB --json"
    yield Step("info of two", words, printed=True)


def pretrained_steps() -> Iterator[Step]:
    """Yield what is asked of pre-trained models."""
    for name in ("muon", "nsp", "share-attention"):
        words = f"probe pretrain/{name} --corpus corpus --device cpu --tokens 3000 --max-length 64 --json"
        yield Step(f"probe {name}", words, printed=True)
    yield Step("info of a run", f"info {START} --json", printed=True)
    yield Step("fill", f'fill-mask {START} "{MASKED_TEXT}" --device cpu --top-k 8 --json', printed=True)
    words = f"fill-mask {START} --corpus corpus --samples 5 --max-length 64 --device cpu --json"
    yield Step("fill samples", words, printed=True)
    yield Step("convert", "convert pretrain/share-attention converted/run", files="converted/run")
    yield Step("convert Google", f"convert {GOOGLE_CHECKPOINT} converted/google", files="converted/google")


def tuned_steps() -> Iterator[Step]:
    """Yield what is asked of tuned models."""
    models = " ".join(f"tuned/{name}" for name in OFFICIAL)
    yield Step("evaluate", f"evaluate {models} --data world {ASK} --json", printed=True)
    for name, data in OWN.items():
        yield Step(f"evaluate {name}", f"evaluate tuned/{name} --data {data} {ASK} --json", printed=True)
    for name, options in ANSWERED.items():
        files = " ".join(word for word in options.split() if word.startswith("answers/"))
        files += f" {files.removesuffix('.json')}.no_answer.json" if "squad-2" in name else ""
        yield Step(f"predict {name}", f"predict tuned/{name} {ASK} {options}", files=files)
    both = "tuned/cola/seed-0 tuned/cola/seed-1"
    for choose in ("all", "greedy"):
        out = f"answers/ensemble-{choose}"
        words = f"ensemble {both} --data world --selection {choose} {ASK} --out {out} --json"
        yield Step(f"ensemble {choose}", words, printed=True, files=out)
    yield Step("convert tuned", "convert tuned/squad-2.0 converted/tuned", files="converted/tuned")


# ---------------------------------------------------------------------------------------------------
# The Python API; names of Python stand only here.


def observe_python(work: Path) -> dict[str, Any]:
    """Return what functions of `import albertine` return."""
    import torch

    import albertine

    torch.set_num_threads(1)
    strip = albertine.Strip.from_sequences(
        [[2, 17, 301, 44, 3, 9, 3], [2, 8, 3], [2, 90, 91, 92, 3], [2, 3]],
        [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0], [0, 0, 0, 0, 1], [0, 0]],
    )
    found: dict[str, Any] = {"padded strip": [tensor_of(one) for one in strip.to_padded()]}
    with torch.inference_mode():
        for name in ("muon", "share-attention", "share-ffn", "bert", "deeper"):
            model = albertine.load(work / "pretrain" / name)
            found[f"load {name}"] = [tensor_of(model.encoder(strip)), *tensors_in(model(strip))]
        for head in ("mlm", "classify", "regress", "span", "choice", "token"):
            found[f"head {head}"] = tensors_in(albertine.load(work / START, head, seed=5)(strip))
    preset = getattr(albertine, "create", albertine.load)("demo", seed=2)
    found["preset"] = {name: tensor_of(one) for name, one in preset.state_dict().items()}
    guess = albertine.fill_mask_pipeline(work / START, device="cpu")
    found["fill"] = [[[one.token, one.score] for one in mask] for mask in guess.fill(MASKED_TEXT, top_k=5)]
    found["order"] = guess.order_probability("He took the key.", "It fitted the lock.")
    albertine.save(preset, work / "saved")
    return found | {"save": tree(work / "saved", work), "pipelines": observe_pipelines(work)}


def observe_pipelines(work: Path) -> dict[str, Any]:
    """Return what tuned models answer when they are called as functions."""
    import albertine

    asked: dict[str, dict[str, Any]] = {
        "cola": {"text": ["The key was in the drawer.", "Key drawer the in."]},
        "sts-b": {"text": "Ned has a boat.", "text_pair": "Edith has a boat."},
        "tag": {"text": "Then Olive Finch went to Fenwick ."},
        "squad-2.0": {"question": "Who has the key?", "context": "Ida has the key. Ned has a boat."},
        "race": {"context": "Ida has a key.", "question": "Who?", "options": ["Ida", "Ned", "Olive", "Hugo"]},
    }
    return {
        name: albertine.pipeline(work / "tuned" / name, device="cpu", precision="fp32")(**words)
        for name, words in asked.items()
    }


# ---------------------------------------------------------------------------------------------------
# What happens before some steps.


def remove_newest_checkpoint(work: Path) -> None:
    """Make of a finished run one that was broken off after its last checkpoint but one."""
    shutil.copytree(work / START, work / "pretrain" / "resumed")
    checkpoints = sorted((work / "pretrain" / "resumed" / CHECKPOINTS).glob("step-*"))
    shutil.rmtree(checkpoints[-1])


def write_own_data(work: Path) -> None:
    """Write files as a person may have them, made of the world's tasks."""
    own = work / "own"
    if own.exists():
        return
    own.mkdir()
    reviews = rows_of(work / "world/glue/SST-2/train.tsv")
    stars = {"0": "poor", "1": "good"}
    write_csv(own / "classify.csv", [{"review": r["sentence"], "stars": stars[r["label"]]} for r in reviews])
    marks = rows_of(work / "world/glue/STS-B/train.tsv")
    pairs = [{"one": r["sentence1"], "two": r["sentence2"], "mark": r["score"]} for r in marks]
    write_csv(own / "regress.csv", pairs)
    sentences = [row["sentence"] for row in reviews]
    (own / "tag.conll").write_text("".join(map(as_conll, sentences)), encoding="utf-8")
    (own / "tag-dev.conll").write_text("".join(map(as_conll, sentences[::4])), encoding="utf-8")
    lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in questions_of(work)]
    (own / "span.jsonl").write_text("".join(lines[:220]), encoding="utf-8")
    write_csv(own / "choice.csv", list(choices_of(work))[:200])


def rows_of(file: Path) -> list[dict[str, str]]:
    """Return the rows of a table with a head."""
    head, *lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    return [dict(zip(head, line, strict=True)) for line in lines]


def write_csv(file: Path, rows: list[dict[str, str]]) -> None:
    """Write rows under the names of their columns."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def as_conll(sentence: str) -> str:
    """Return a sentence in columns; a capital inside it makes a name."""
    lines, before = [], "O"
    for at, word in enumerate(sentence.replace(".", " .").split()):
        named = at > 0 and word[0].isupper()
        before = ("B-NAME" if before == "O" else "I-NAME") if named else "O"
        lines.append(f"{word}\t{before}\n")
    return "".join(lines) + "\n"


def questions_of(work: Path) -> Iterator[dict[str, Any]]:
    """Yield questions on passages, some without an answer."""
    told = json.loads((work / "world/squad/train-v2.0.json").read_text(encoding="utf-8"))
    for article in told["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                yield {
                    "id": asked["id"],
                    "question": asked["question"],
                    "context": paragraph["context"],
                    "answers": [
                        {key: one[key] for key in ("text", "answer_start")} for one in asked["answers"]
                    ],
                }


def choices_of(work: Path) -> Iterator[dict[str, str]]:
    """Yield questions with four options each."""
    for file in sorted((work / "world/race/train/middle").iterdir()):
        article = json.loads(file.read_text(encoding="utf-8"))
        asked = zip(article["questions"], article["options"], article["answers"], strict=True)
        for question, options, right in asked:
            columns = dict(zip("abcd", options, strict=True))
            yield {"passage": article["article"], "asked": question, **columns, "right": right}


# ---------------------------------------------------------------------------------------------------
# Recording.


def record(out: Path, work: Path) -> None:
    """Run all steps and write what they gave."""
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", COLUMNS="100")
    os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
    sys.path.insert(0, str(ROOT / "src"))
    preload()
    found, started = {}, time.monotonic()
    for step in steps():
        begun = time.monotonic()
        if step.before:
            step.before(work)
        found[step.name] = perform(step, work)
        print(f"{time.monotonic() - begun:6.1f} s  {step.name}", file=sys.stderr)
    found["python"] = in_child(lambda: observe_python(work), work)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{out}: {len(found)} sections in {time.monotonic() - started:.0f} s", file=sys.stderr)


def preload() -> None:
    """Import the libraries once; every command is a fork of this process, and need not load them again."""
    for name in (
        "matplotlib.pyplot",
        "pyarrow",
        "tokenizers",
        "torch",
        "torch._dynamo",
        "torch.distributed.fsdp",
    ):
        import_module(name)


def perform(step: Step, work: Path) -> dict[str, Any]:
    """Run the command of a step; return what is recorded of it."""
    printed = run(shlex.split(step.command), work)
    found: dict[str, Any] = {}
    if step.printed:
        found["printed"] = scrubbed(json.loads(printed), work, MACHINE_KEYS)
    for name in step.files.split():
        found[name] = tree(work / name, work, as_bytes=step.as_bytes)
    return found


def run(words: list[str], work: Path) -> str:
    """Run `python -m albertine` in a fork of this process; return what it printed."""
    out, err = work / "printed.txt", work / "told.txt"

    def main() -> None:
        for file, number in ((out, 1), (err, 2)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(work)
        sys.argv = ["albertine", *words]
        runpy.run_module("albertine", run_name="__main__", alter_sys=True)

    status = fork(main)
    if status:
        told = err.read_text(encoding="utf-8")
        raise SystemExit(f"albertine {shlex.join(words)}\nended with status {status}:\n{told}")
    return out.read_text(encoding="utf-8")


def in_child(observe: Callable[[], Any], work: Path) -> Any:
    """Call a function in a fork of this process; return what it returned, as JSON has it."""
    file = work / "observed.json"
    if fork(lambda: file.write_text(json.dumps(observe()), encoding="utf-8")):
        raise SystemExit("the Python API failed; its traceback is above")
    return scrubbed(json.loads(file.read_text(encoding="utf-8")), work, MACHINE_KEYS)


def fork(do: Callable[[], object]) -> int:
    """Do something in a process of its own; return its exit status."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        do()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def tree(place: Path, work: Path, *, as_bytes: bool = False) -> Any:
    """Return what a file or all files of a folder hold, by their paths in it."""
    if place.is_file():
        return contents(place, work, as_bytes=as_bytes)
    files = [file for file in sorted(place.rglob("*")) if file.is_file() and file.suffix not in IGNORED]
    if not files:
        raise SystemExit(f"{place}: holds nothing to record")
    return {str(file.relative_to(place)): contents(file, work, as_bytes=as_bytes) for file in files}


def contents(file: Path, work: Path, *, as_bytes: bool) -> Any:
    """Return the values in a file, or the hash of its bytes."""
    if as_bytes or file.name in OPAQUE:
        return digest(file.read_bytes())
    dropped = MACHINE_KEYS | MACHINE_KEYS_IN.get(file.name, set())
    match file.suffix:
        case ".safetensors":
            return tensors_of(file)
        case ".arrow":
            return {"bytes": digest(file.read_bytes()), "columns": columns_of(file)}
        case ".json":
            return scrubbed(json.loads(file.read_text(encoding="utf-8")), work, dropped)
        case ".jsonl":
            lines = file.read_text(encoding="utf-8").splitlines()
            return scrubbed([json.loads(line) for line in lines], work, dropped)
        case ".csv":
            with file.open(encoding="utf-8", newline="") as stream:
                return list(csv.reader(stream))
        case ".tsv":
            return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
        case ".toml":
            return scrubbed(tomllib.loads(file.read_text(encoding="utf-8")), work, dropped)
    return digest(file.read_bytes())


def scrubbed(value: Any, work: Path, dropped: set[str]) -> Any:
    """Return a value without what the machine, the clock and the place of the work folder decide."""
    if isinstance(value, dict):
        return {key: scrubbed(one, work, dropped) for key, one in value.items() if key not in dropped}
    if isinstance(value, list):
        return [scrubbed(one, work, dropped) for one in value]
    return value.replace(str(work), "WORK") if isinstance(value, str) else value


def digest(content: bytes) -> str:
    """Return a hash of bytes."""
    return hashlib.sha256(content).hexdigest()


def tensors_of(file: Path) -> dict[str, str]:
    """Return a hash of each tensor of a file, in the order of their bytes there."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    entries = [(name, told) for name, told in header.items() if name != "__metadata__"]
    return {
        name: f"{told['dtype']} {told['shape']} {digest(data[slice(*told['data_offsets'])])}"
        for name, told in sorted(entries, key=lambda entry: entry[1]["data_offsets"])
    }


def columns_of(file: Path) -> dict[str, str]:
    """Return a hash of each column of a file of Arrow."""
    import pyarrow as pa

    with pa.memory_map(str(file)) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
        return {name: digest(repr(table[name].to_pylist()).encode()) for name in table.column_names}


def tensor_of(tensor: Any) -> str:
    """Return the type, shape and hash of a tensor."""
    return f"{tensor.dtype} {list(tensor.shape)} {digest(tensor.detach().contiguous().numpy().tobytes())}"


def tensors_in(output: Any) -> list[str]:
    """Return all tensors of a head's output, in order."""
    import torch

    found = []
    for value in vars(output).values():
        if isinstance(value, torch.Tensor):
            found.append(tensor_of(value))
        elif hasattr(value, "__dict__"):
            found += tensors_in(value)
    return found


# ---------------------------------------------------------------------------------------------------
# Comparing.


class Comparison:
    """Compares two records.

    Attributes:
        differences: a line for each value that differs.
        keys: pairs of keys that were renamed, with how often.
    """

    def __init__(self, renamed: dict[str, str], renamed_keys: dict[str, str] | None = None):
        self._renamed, self._renamed_keys = renamed, renamed_keys or {}
        self.differences: list[str] = []
        self.keys: dict[tuple[str, str], int] = {}

    def compare(self, one: Any, other: Any, path: str, other_path: str) -> None:
        """Compare two values, and what is in them."""
        if isinstance(one, dict) and isinstance(other, dict):
            self._compare_tables(one, other, path, other_path)
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                self._differ(path, other_path, f"{len(one)} values", f"{len(other)} values")
            for at, (a, b) in enumerate(zip(one, other, strict=False)):
                self.compare(a, b, f"{path}[{at}]", f"{other_path}[{at}]")
        elif not self._same(one, other):
            self._differ(path, other_path, shown(one), shown(other))

    def _compare_tables(self, one: dict[str, Any], other: dict[str, Any], path: str, other_path: str) -> None:
        """Compare by key, then what is left by equal values, then in order."""
        if all(new in other for old, new in self._renamed_keys.items() if old in one):
            one = {self._renamed_keys.get(key, key): value for key, value in one.items()}
        for key in one:
            if key in other:
                self.compare(one[key], other[key], joined(path, key), joined(other_path, key))
        left, others = ([key for key in a if key not in b] for a, b in ((one, other), (other, one)))
        if others and not path:
            self.differences += [f"section {key}: only in the second record" for key in others]
        if not path:  # the names of sections stay
            self.differences += [f"section {key}: only in the first record" for key in left]
            return
        pairs = []
        for key in list(left):
            twin = next((name for name in others if self._equal(one[key], other[name])), None)
            if twin is not None:
                pairs.append((key, twin))
                left.remove(key)
                others.remove(twin)
        for key, twin in [*pairs, *zip(left, others, strict=False)]:
            self.keys[key, twin] = self.keys.get((key, twin), 0) + 1
            self.compare(one[key], other[twin], joined(path, key), joined(other_path, twin))
        for key in left[len(others) :]:
            self._differ(joined(path, key), other_path, shown(one[key]), "nothing")
        for key in others[len(left) :]:
            self._differ(path, joined(other_path, key), "nothing", shown(other[key]))

    def _equal(self, one: Any, other: Any) -> bool:
        """Tell whether two values are equal but for renamed keys."""
        probe = Comparison(self._renamed, self._renamed_keys)
        probe.compare(one, other, ".", ".")
        return not probe.differences

    def _same(self, one: Any, other: Any) -> bool:
        """Tell whether two plain values are the same; numbers to the last bit, and of one type."""
        if isinstance(one, str) and one != other:
            return self._renamed.get(one) == other
        return type(one) is type(other) and repr(one) == repr(other)

    def _differ(self, path: str, other_path: str, one: str, other: str) -> None:
        place = path if path == other_path else f"{path} -> {other_path}"
        self.differences.append(f"{place}: {one} -> {other}")


def joined(path: str, key: str) -> str:
    """Return the path of a key."""
    return f"{path} / {key}" if path else key


def shown(value: Any) -> str:
    """Return a value on a short line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def compare(before: Path, after: Path, renamed: Iterable[str], renamed_keys: Iterable[str]) -> int:
    """Print how two records differ; return the exit status."""
    words, keys = (dict(pair.split("=", 1) for pair in pairs) for pairs in (renamed, renamed_keys))
    found = Comparison(words, keys)
    found.compare(*(json.loads(file.read_text(encoding="utf-8")) for file in (before, after)), "", "")
    for (old, new), count in found.keys.items():
        print(f"renamed key: {old} -> {new} ({count} times)")
    for line in found.differences:
        print(f"DIFFERENT: {line}")
    print(f"{len(found.differences)} differences, {len(found.keys)} renamed keys")
    return 1 if found.differences else 0


def main() -> int:
    """Do what the words of the command line ask for."""
    parser = argparse.ArgumentParser(description="Record what the command line computes; compare records.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run everything, and write what was observed")
    recording.add_argument("out", type=Path)
    recording.add_argument("--work", type=Path, help="a new folder to work in, which is kept")
    comparing = commands.add_parser("compare", help="compare two records; exit status 1 if values differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    told = "a text value that was renamed on purpose, as OLD=NEW; may be repeated"
    comparing.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW", help=told)
    told = "a key whose old name now means another thing, as OLD=NEW; may be repeated"
    comparing.add_argument("--renamed-key", action="append", default=[], metavar="OLD=NEW", help=told)
    asked = parser.parse_args()
    if asked.command == "compare":
        return compare(asked.before, asked.after, asked.renamed, asked.renamed_key)
    if asked.work:
        asked.work.mkdir(parents=True)
        record(asked.out, asked.work.resolve())
        return 0
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        record(asked.out, Path(folder).resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
