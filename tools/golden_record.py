"""Record the results of the command line, and compare two such records.

A refactoring that renames settings, JSON keys, modules or messages must not change results.
Record before and after it, and compare:

    python tools/golden_record.py record before.json
    python tools/golden_record.py record after.json
    python tools/golden_record.py compare before.json after.json

`record` runs the commands of the tables below on a small generated world, on one thread, with the
source tree that contains this script. It writes every result: hashes of files and tensors, and the
contents of JSON, JSON lines and TOML. `compare` requires equal values; keys and file names may
differ, and are listed. If options are renamed, only the tables at the top have to be edited.

A record is valid only on the machine that made it, because other processors round differently.
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
# The commands. Each runs in the work folder; names of options and tasks are only in this section.

WORLD_OPTIONS = "--stories 600 --extra 30 --other 30 --train 200 --dev 60 --test 200 --seed 3 --workers 1"
MODEL = (
    "--model.hidden-size 32 --model.embedding-size 16 --model.layers 4 --model.heads 4 --model.max-length 128"
)
PRETRAIN_OPTIONS = (
    "--corpus corpus --device cpu --objective.max-length 64 --train.steps 20 --train.batch-tokens 512 "
    "--train.evaluate-every 10 --train.evaluate-tokens 1024 --train.save-every 5"
)
FP32, BF16 = "--train.precision fp32", "--train.precision bf16"
# Options of each pre-training run, in addition to PRETRAIN_OPTIONS.
PRETRAIN_RUNS = {
    "muon": f"{MODEL} {FP32}",
    "adamw": f"{MODEL} {FP32} --train.optimizer adamw --train.schedule cosine --train.seed 1",
    "lamb": f"{MODEL} {FP32} --train.optimizer lamb --train.schedule constant --train.warmup 5",
    "curricula": f'{MODEL} {FP32} --curriculum.length "32, 64 from 0.5" --curriculum.depth "2, 4 from 0.5" '
    '--curriculum.mlm-probability "0.3, 0.15 from 0.5"',
    "share-attention": f"{MODEL} {FP32} --model.share attention --model.groups 2 "
    "--train.micro-batch-tokens 128",
    "share-ffn": f"{MODEL} {FP32} --model.share ffn --model.dropout 0.1 --train.recompute",
    "bert": f"{MODEL} {FP32} --model.share none --model.activation gelu --model.attention-dropout 0.1",
    "nsp": f"{MODEL} {FP32} --objective.pair nsp --objective.max-ngram 1 --no-unigram-start --no-local-start",
    "no-pair": f"{MODEL} {FP32} --objective.pair none --objective.seed 2 --train.max-gradient-norm 0.5",
    "bf16": f"{MODEL} {BF16}",
    "deeper": f"--init-from pretrain/muon --model.layers 6 {FP32}",
    "resumed": f"{MODEL} {FP32}",  # `muon`, whose newest checkpoint was removed
}

START_CHECKPOINT = "pretrain/muon"
FINETUNE_OPTIONS = (
    "--device cpu --train.precision fp32 --train.steps 16 --train.batch-size 8 --train.evaluate-every 8"
)
SHORT = "--train.lr 3e-3 --sequence.max-length 64"
# Options of each fine-tuning run, in addition to FINETUNE_OPTIONS.
FINETUNE_RUNS = {
    "cola": f"--task cola --data world {SHORT} --seeds 2",
    "sst-2": f"--task sst-2 --data world {SHORT} --train.optimizer lamb --train.layer-decay 0.8",
    "sts-b": f"--task sts-b --data world {SHORT} --train.optimizer muon",
    "mnli": f"--task mnli --data world {SHORT} --train.freeze-embeddings",
    "squad-1.1": "--task squad-1.1 --data world --train.lr 3e-3 --sequence.stride 32",
    "squad-2.0": "--task squad-2.0 --data world --train.lr 3e-3 --albert-v2",
    "race": f"--task race --data world {SHORT}",
    "classify": f"--task classify --data own/classify.csv --text review --label stars {SHORT} "
    "--random-weights",
    "regress": f"--task regress --data own/regress.csv --text one --text-pair two --label mark {SHORT}",
    "tag": f"--task tag --data own/tag.conll --dev own/tag-dev.conll {SHORT}",
    "span": f"--task span --data own/span.jsonl --sequence.max-length 100 {SHORT.split(' --sequence')[0]}",
    "choice": "--task choice --data own/choice.csv --question asked --context passage --options a,b,c,d "
    f"--label right {SHORT}",
    "sweep": "--task sst-2 --data world --sequence.max-length 64 --sweep --grid.lr 3e-3,2x --grid.dropout 0",
}
INFERENCE_OPTIONS = "--device cpu --precision fp32"
# Options of `predict` for each fine-tuned model.
PREDICT_OPTIONS = {
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
OFFICIAL_TASKS = ("cola", "sst-2", "sts-b", "mnli", "squad-1.1", "squad-2.0", "race")
# Data for evaluating the models that are not fine-tuned on tasks of the world.
OWN_DATA = {
    "classify": "own/classify.csv",
    "regress": "own/regress.csv",
    "tag": "own/tag-dev.conll",
    "span": "own/span.jsonl",
    "choice": "own/choice.csv",
}
MASKED_TEXT = "The [MASK] was in the kitchen of the [MASK]."

# Keys whose values depend on the machine, the clock or installed versions; in all files, or by file.
MACHINE_KEYS = {"seconds", "versions", "transformers_version"}
MACHINE_KEYS_BY_FILE = {
    "metrics.jsonl": {"tokens_per_second", "utilization", "peak_memory"},
    # A hash of a state that contains durations, and checksums of files that are recorded anyway.
    "state.json": {"sha256", "files"},
}
# JSON files that are recorded as a hash, because another library defines their format.
HASHED_FILES = {"tokenizer.json"}
# Suffixes of files that are not recorded: figures and pages, whose text may change, and locks.
IGNORED_SUFFIXES = {".png", ".svg", ".html", ".md", ".lock"}
CHECKPOINTS_FOLDER = "checkpoints"  # in a run folder; the names in it sort by step
GOOGLE_CHECKPOINT = ROOT / "tests" / "interop" / "google"


# ---------------------------------------------------------------------------------------------------
# The steps.


@dataclass(frozen=True)
class Step:
    """One command, and the parts of its result that are recorded.

    Attributes:
        name: name of the section in the record.
        command: the arguments of `albertine`.
        record_stdout: whether standard output, which is JSON, is recorded.
        files: folders or files whose contents are recorded, separated by spaces.
        as_bytes: whether all files are recorded as hashes.
        prepare: called with the work folder before the command runs.
    """

    name: str
    command: str
    record_stdout: bool = False
    files: str = ""
    as_bytes: bool = False
    prepare: Callable[[Path], None] | None = None


def steps() -> Iterator[Step]:
    """Yield all steps, in order."""
    yield from text_steps()
    for name, options in PRETRAIN_RUNS.items():
        prepare = remove_newest_checkpoint if name == "resumed" else None
        out = f"pretrain/{name}"
        yield Step(out, f"pretrain --out {out} {PRETRAIN_OPTIONS} {options}", files=out, prepare=prepare)
    yield from pretrained_steps()
    for name, options in FINETUNE_RUNS.items():
        out = f"tuned/{name}"
        command = f"finetune {START_CHECKPOINT} --out {out} {FINETUNE_OPTIONS} {options} --json"
        yield Step(out, command, record_stdout=True, files=out, prepare=write_own_data)
    yield from finetuned_steps()


def text_steps() -> Iterator[Step]:
    """Yield the steps that write and show the world, the tokenizer and the corpus."""
    yield Step(
        "world", f"world write world {WORLD_OPTIONS} --json", record_stdout=True, files="world", as_bytes=True
    )
    yield Step("world show", "world show 7 --genre mystery --json", record_stdout=True)
    command = "tokenizer train world/text --vocab-size 600 --seed 1 --out tokenizer"
    yield Step("tokenizer", command, files="tokenizer")
    command = 'tokenizer show tokenizer "Edith opened the old café." --stats world/text-other --json'
    yield Step("tokenizer show", command, record_stdout=True)
    command = (
        "corpus build world/text --tokenizer tokenizer --held-out 0.05 --seed 1 --workers 1 --out corpus"
    )
    yield Step("corpus", f"{command} --json", record_stdout=True, files="corpus")
    yield Step("corpus check", "corpus check corpus --json", record_stdout=True)
    for pair in ("sop", "nsp", "none"):
        command = f"corpus show corpus --samples 20 --objective.max-length 96 --objective.pair {pair} --json"
        yield Step(f"corpus show {pair}", command, record_stdout=True)
    yield Step("info", "info --json", record_stdout=True)
    command = "info albert-large --compare bert-large --model.share attention --memory 16GB --json"
    yield Step("info of two", command, record_stdout=True)


def pretrained_steps() -> Iterator[Step]:
    """Yield the steps that use pre-trained models."""
    for name in ("muon", "nsp", "share-attention"):
        command = f"probe pretrain/{name} --corpus corpus --device cpu --tokens 3000 --max-length 64 --json"
        yield Step(f"probe {name}", command, record_stdout=True)
    yield Step("info of a run", f"info {START_CHECKPOINT} --json", record_stdout=True)
    yield Step(
        "fill",
        f'fill-mask {START_CHECKPOINT} "{MASKED_TEXT}" --device cpu --top-k 8 --json',
        record_stdout=True,
    )
    command = f"fill-mask {START_CHECKPOINT} --corpus corpus --samples 5 --max-length 64 --device cpu --json"
    yield Step("fill samples", command, record_stdout=True)
    yield Step("convert", "convert pretrain/share-attention converted/run", files="converted/run")
    yield Step("convert Google", f"convert {GOOGLE_CHECKPOINT} converted/google", files="converted/google")


def finetuned_steps() -> Iterator[Step]:
    """Yield the steps that use fine-tuned models."""
    models = " ".join(f"tuned/{name}" for name in OFFICIAL_TASKS)
    yield Step("evaluate", f"evaluate {models} --data world {INFERENCE_OPTIONS} --json", record_stdout=True)
    for name, data in OWN_DATA.items():
        yield Step(
            f"evaluate {name}",
            f"evaluate tuned/{name} --data {data} {INFERENCE_OPTIONS} --json",
            record_stdout=True,
        )
    for name, options in PREDICT_OPTIONS.items():
        files = " ".join(word for word in options.split() if word.startswith("answers/"))
        files += f" {files.removesuffix('.json')}.no_answer.json" if "squad-2" in name else ""
        yield Step(f"predict {name}", f"predict tuned/{name} {INFERENCE_OPTIONS} {options}", files=files)
    models = "tuned/cola/seed-0 tuned/cola/seed-1"
    for selection in ("all", "greedy"):
        out = f"answers/ensemble-{selection}"
        command = (
            f"ensemble {models} --data world --selection {selection} {INFERENCE_OPTIONS} --out {out} --json"
        )
        yield Step(f"ensemble {selection}", command, record_stdout=True, files=out)
    yield Step("convert tuned", "convert tuned/squad-2.0 converted/tuned", files="converted/tuned")


# ---------------------------------------------------------------------------------------------------
# The Python API; names of the API are only in this section.


def observe_python(work: Path) -> dict[str, Any]:
    """Return the results of the functions of the public API."""
    import torch

    import albertine

    torch.set_num_threads(1)
    strip = albertine.Strip.from_sequences(
        [[2, 17, 301, 44, 3, 9, 3], [2, 8, 3], [2, 90, 91, 92, 3], [2, 3]],
        [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0], [0, 0, 0, 0, 1], [0, 0]],
    )
    results: dict[str, Any] = {"padded strip": [tensor_hash(tensor) for tensor in strip.to_padded()]}
    with torch.inference_mode():
        for name in ("muon", "share-attention", "share-ffn", "bert", "deeper"):
            model = albertine.load(work / "pretrain" / name)
            results[f"load {name}"] = [tensor_hash(model.encoder(strip)), *output_hashes(model(strip))]
        for head in ("mlm", "classify", "regress", "span", "choice", "token"):
            results[f"head {head}"] = output_hashes(
                albertine.load(work / START_CHECKPOINT, head, seed=5)(strip)
            )
    preset = albertine.create("demo", seed=2)
    results["preset"] = {name: tensor_hash(tensor) for name, tensor in preset.state_dict().items()}
    fill_mask = albertine.fill_mask_pipeline(work / START_CHECKPOINT, device="cpu")
    results["fill"] = [
        [[prediction.token, prediction.score] for prediction in predictions]
        for predictions in fill_mask.fill(MASKED_TEXT, top_k=5)
    ]
    results["order"] = fill_mask.order_probability("He took the key.", "It fitted the lock.")
    albertine.save(preset, work / "saved")
    return results | {"save": folder_contents(work / "saved", work), "pipelines": observe_pipelines(work)}


def observe_pipelines(work: Path) -> dict[str, Any]:
    """Return the predictions of the pipelines of fine-tuned models."""
    import albertine

    inputs: dict[str, dict[str, Any]] = {
        "cola": {"text": ["The key was in the drawer.", "Key drawer the in."]},
        "sts-b": {"text": "Ned has a boat.", "text_pair": "Edith has a boat."},
        "tag": {"text": "Then Olive Finch went to Fenwick ."},
        "squad-2.0": {"question": "Who has the key?", "context": "Ida has the key. Ned has a boat."},
        "race": {"context": "Ida has a key.", "question": "Who?", "options": ["Ida", "Ned", "Olive", "Hugo"]},
    }
    return {
        name: albertine.pipeline(work / "tuned" / name, device="cpu", precision="fp32")(**arguments)
        for name, arguments in inputs.items()
    }


# ---------------------------------------------------------------------------------------------------
# Preparation of some steps.


def remove_newest_checkpoint(work: Path) -> None:
    """Copy a finished run without its newest checkpoint, like a run that was interrupted before it."""
    shutil.copytree(work / START_CHECKPOINT, work / "pretrain" / "resumed")
    checkpoints = sorted((work / "pretrain" / "resumed" / CHECKPOINTS_FOLDER).glob("step-*"))
    shutil.rmtree(checkpoints[-1])


def write_own_data(work: Path) -> None:
    """Write data files in the formats for own tasks, with texts from the tasks of the world."""
    own = work / "own"
    if own.exists():
        return
    own.mkdir()
    reviews = read_tsv(work / "world/glue/SST-2/train.tsv")
    stars = {"0": "poor", "1": "good"}
    write_csv(
        own / "classify.csv", [{"review": row["sentence"], "stars": stars[row["label"]]} for row in reviews]
    )
    scored_pairs = read_tsv(work / "world/glue/STS-B/train.tsv")
    pairs = [{"one": row["sentence1"], "two": row["sentence2"], "mark": row["score"]} for row in scored_pairs]
    write_csv(own / "regress.csv", pairs)
    sentences = [row["sentence"] for row in reviews]
    (own / "tag.conll").write_text("".join(map(to_conll, sentences)), encoding="utf-8")
    (own / "tag-dev.conll").write_text("".join(map(to_conll, sentences[::4])), encoding="utf-8")
    lines = [json.dumps(question, ensure_ascii=False) + "\n" for question in squad_questions(work)]
    (own / "span.jsonl").write_text("".join(lines[:220]), encoding="utf-8")
    write_csv(own / "choice.csv", list(race_questions(work))[:200])


def read_tsv(file: Path) -> list[dict[str, str]]:
    """Return the rows of a tab-separated file, by the column names in its first line."""
    columns, *lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    return [dict(zip(columns, line, strict=True)) for line in lines]


def write_csv(file: Path, rows: list[dict[str, str]]) -> None:
    """Write rows to a CSV file with a header."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def to_conll(sentence: str) -> str:
    """Return a sentence in CoNLL format; capitalized words after the first are names."""
    lines, tag = [], "O"
    for position, word in enumerate(sentence.replace(".", " .").split()):
        is_name = position > 0 and word[0].isupper()
        tag = ("B-NAME" if tag == "O" else "I-NAME") if is_name else "O"
        lines.append(f"{word}\t{tag}\n")
    return "".join(lines) + "\n"


def squad_questions(work: Path) -> Iterator[dict[str, Any]]:
    """Yield the questions of SQuAD 2.0 with their passages; some have no answer."""
    dataset = json.loads((work / "world/squad/train-v2.0.json").read_text(encoding="utf-8"))
    for article in dataset["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield {
                    "id": question["id"],
                    "question": question["question"],
                    "context": paragraph["context"],
                    "answers": [
                        {key: answer[key] for key in ("text", "answer_start")}
                        for answer in question["answers"]
                    ],
                }


def race_questions(work: Path) -> Iterator[dict[str, str]]:
    """Yield the questions of RACE, each with its passage and four options."""
    for file in sorted((work / "world/race/train/middle").iterdir()):
        article = json.loads(file.read_text(encoding="utf-8"))
        questions = zip(article["questions"], article["options"], article["answers"], strict=True)
        for question, options, right in questions:
            columns = dict(zip("abcd", options, strict=True))
            yield {"passage": article["article"], "asked": question, **columns, "right": right}


# ---------------------------------------------------------------------------------------------------
# Recording.


def record(out: Path, work: Path) -> None:
    """Run all steps and write their results."""
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", COLUMNS="100")
    os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
    sys.path.insert(0, str(ROOT / "src"))
    import_libraries()
    results, started = {}, time.monotonic()
    for step in steps():
        step_started = time.monotonic()
        if step.prepare:
            step.prepare(work)
        results[step.name] = run_step(step, work)
        print(f"{time.monotonic() - step_started:6.1f} s  {step.name}", file=sys.stderr)
    results["python"] = call_in_fork(lambda: observe_python(work), work)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"{out}: {len(results)} sections in {time.monotonic() - started:.0f} s", file=sys.stderr)


def import_libraries() -> None:
    """Import the large libraries once; each command runs in a fork, which inherits them."""
    for name in (
        "matplotlib.pyplot",
        "pyarrow",
        "tokenizers",
        "torch",
        "torch._dynamo",
        "torch.distributed.fsdp",
    ):
        import_module(name)


def run_step(step: Step, work: Path) -> dict[str, Any]:
    """Run the command of a step; return the recorded parts of its result."""
    stdout = run_command(shlex.split(step.command), work)
    result: dict[str, Any] = {}
    if step.record_stdout:
        result["printed"] = scrub(json.loads(stdout), work, MACHINE_KEYS)
    for name in step.files.split():
        result[name] = folder_contents(work / name, work, as_bytes=step.as_bytes)
    return result


def run_command(arguments: list[str], work: Path) -> str:
    """Run `python -m albertine` in a fork of this process; return its standard output."""
    stdout_file, stderr_file = work / "stdout.txt", work / "stderr.txt"

    def main() -> None:
        for file, descriptor in ((stdout_file, 1), (stderr_file, 2)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        os.chdir(work)
        sys.argv = ["albertine", *arguments]
        runpy.run_module("albertine", run_name="__main__", alter_sys=True)

    status = run_in_fork(main)
    if status not in (0, 3):  # 3: nothing was learned, because the fine-tuning runs are very short
        stderr = stderr_file.read_text(encoding="utf-8")
        raise SystemExit(f"albertine {shlex.join(arguments)}\nended with status {status}:\n{stderr}")
    return stdout_file.read_text(encoding="utf-8")


def call_in_fork(function: Callable[[], Any], work: Path) -> Any:
    """Call a function in a fork of this process; return its result, converted to JSON."""
    file = work / "result.json"
    if run_in_fork(lambda: file.write_text(json.dumps(function()), encoding="utf-8")):
        raise SystemExit("the Python API failed; its traceback is above")
    return scrub(json.loads(file.read_text(encoding="utf-8")), work, MACHINE_KEYS)


def run_in_fork(function: Callable[[], object]) -> int:
    """Call a function in a fork of this process; return the exit status of the fork."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        function()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def folder_contents(path: Path, work: Path, *, as_bytes: bool = False) -> Any:
    """Return the contents of a file, or of all files of a folder by their relative paths."""
    if path.is_file():
        return file_contents(path, work, as_bytes=as_bytes)
    files = [
        file for file in sorted(path.rglob("*")) if file.is_file() and file.suffix not in IGNORED_SUFFIXES
    ]
    if not files:
        raise SystemExit(f"{path}: contains nothing to record")
    return {str(file.relative_to(path)): file_contents(file, work, as_bytes=as_bytes) for file in files}


def file_contents(file: Path, work: Path, *, as_bytes: bool) -> Any:
    """Return the values in a file, or the hash of its bytes."""
    if as_bytes or file.name in HASHED_FILES:
        return sha256(file.read_bytes())
    dropped = MACHINE_KEYS | MACHINE_KEYS_BY_FILE.get(file.name, set())
    match file.suffix:
        case ".safetensors":
            return tensor_hashes(file)
        case ".arrow":
            return {"bytes": sha256(file.read_bytes()), "columns": column_hashes(file)}
        case ".json":
            return scrub(json.loads(file.read_text(encoding="utf-8")), work, dropped)
        case ".jsonl":
            lines = file.read_text(encoding="utf-8").splitlines()
            return scrub([json.loads(line) for line in lines], work, dropped)
        case ".csv":
            with file.open(encoding="utf-8", newline="") as stream:
                return list(csv.reader(stream))
        case ".tsv":
            return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
        case ".toml":
            return scrub(tomllib.loads(file.read_text(encoding="utf-8")), work, dropped)
    return sha256(file.read_bytes())


def scrub(value: Any, work: Path, dropped: set[str]) -> Any:
    """Return a value without `dropped` keys and with the path of the work folder replaced by WORK."""
    if isinstance(value, dict):
        return {key: scrub(item, work, dropped) for key, item in value.items() if key not in dropped}
    if isinstance(value, list):
        return [scrub(item, work, dropped) for item in value]
    return value.replace(str(work), "WORK") if isinstance(value, str) else value


def sha256(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def tensor_hashes(file: Path) -> dict[str, str]:
    """Return type, shape and hash of each tensor of a safetensors file, in the order of their bytes."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
    return {
        name: f"{entry['dtype']} {entry['shape']} {sha256(data[slice(*entry['data_offsets'])])}"
        for name, entry in sorted(entries, key=lambda item: item[1]["data_offsets"])
    }


def column_hashes(file: Path) -> dict[str, str]:
    """Return a hash of each column of an Arrow file."""
    import pyarrow as pa

    with pa.memory_map(str(file)) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
        return {name: sha256(repr(table[name].to_pylist()).encode()) for name in table.column_names}


def tensor_hash(tensor: Any) -> str:
    """Return type, shape and hash of a tensor."""
    return f"{tensor.dtype} {list(tensor.shape)} {sha256(tensor.detach().contiguous().numpy().tobytes())}"


def output_hashes(output: Any) -> list[str]:
    """Return type, shape and hash of all tensors of a head's output, in order."""
    import torch

    hashes = []
    for value in vars(output).values():
        if isinstance(value, torch.Tensor):
            hashes.append(tensor_hash(value))
        elif hasattr(value, "__dict__"):
            hashes += output_hashes(value)
    return hashes


# ---------------------------------------------------------------------------------------------------
# Comparison.


class Comparison:
    """Compares two records, "before" and "after".

    Attributes:
        differences: a line for each value that differs.
        renamed_key_counts: pairs of an old and a new key, with the number of their occurrences.
    """

    def __init__(self, renamed_values: dict[str, str], renamed_keys: dict[str, str]):
        self._renamed_values, self._renamed_keys = renamed_values, renamed_keys
        self.differences: list[str] = []
        self.renamed_key_counts: dict[tuple[str, str], int] = {}

    def compare(self, old: Any, new: Any, old_path: str, new_path: str) -> None:
        """Compare two values, and all values in them."""
        if isinstance(old, dict) and isinstance(new, dict):
            self._compare_tables(old, new, old_path, new_path)
        elif isinstance(old, list) and isinstance(new, list):
            if len(old) != len(new):
                self._add_difference(old_path, new_path, f"{len(old)} values", f"{len(new)} values")
            for index, (old_item, new_item) in enumerate(zip(old, new, strict=False)):
                self.compare(old_item, new_item, f"{old_path}[{index}]", f"{new_path}[{index}]")
        elif not self._is_same_value(old, new):
            self._add_difference(old_path, new_path, shorten(old), shorten(new))

    def _compare_tables(self, old: dict[str, Any], new: dict[str, Any], old_path: str, new_path: str) -> None:
        """Compare values by key, then those of the remaining keys by equality, then in order."""
        if all(new_key in new for old_key, new_key in self._renamed_keys.items() if old_key in old):
            old = {self._renamed_keys.get(key, key): value for key, value in old.items()}
        for key in old:
            if key in new:
                self.compare(old[key], new[key], join_path(old_path, key), join_path(new_path, key))
        old_keys, new_keys = [key for key in old if key not in new], [key for key in new if key not in old]
        if not old_path:  # sections of a record are never renamed
            self.differences += [f"section {key}: only in the second record" for key in new_keys]
            self.differences += [f"section {key}: only in the first record" for key in old_keys]
            return
        pairs = []
        for key in list(old_keys):
            match = next((name for name in new_keys if self._equal_but_for_keys(old[key], new[name])), None)
            if match is not None:
                pairs.append((key, match))
                old_keys.remove(key)
                new_keys.remove(match)
        for key, match in [*pairs, *zip(old_keys, new_keys, strict=False)]:
            self.renamed_key_counts[key, match] = self.renamed_key_counts.get((key, match), 0) + 1
            self.compare(old[key], new[match], join_path(old_path, key), join_path(new_path, match))
        for key in old_keys[len(new_keys) :]:
            self._add_difference(join_path(old_path, key), new_path, shorten(old[key]), "nothing")
        for key in new_keys[len(old_keys) :]:
            self._add_difference(old_path, join_path(new_path, key), "nothing", shorten(new[key]))

    def _equal_but_for_keys(self, old: Any, new: Any) -> bool:
        """Return whether two values are equal, except for renamed keys in them."""
        comparison = Comparison(self._renamed_values, self._renamed_keys)
        comparison.compare(old, new, ".", ".")
        return not comparison.differences

    def _is_same_value(self, old: Any, new: Any) -> bool:
        """Return whether two plain values have the same type and are the same, numbers to the last bit."""
        if isinstance(old, str) and old != new:
            return self._renamed_values.get(old) == new
        return type(old) is type(new) and repr(old) == repr(new)

    def _add_difference(self, old_path: str, new_path: str, old: str, new: str) -> None:
        path = old_path if old_path == new_path else f"{old_path} -> {new_path}"
        self.differences.append(f"{path}: {old} -> {new}")


def join_path(path: str, key: str) -> str:
    """Return the path of a key in a table."""
    return f"{path} / {key}" if path else key


def shorten(value: Any) -> str:
    """Return a value as JSON of at most 100 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def compare(before: Path, after: Path, renamed_values: Iterable[str], renamed_keys: Iterable[str]) -> int:
    """Print the differences of two records; return the exit status."""
    values, keys = (dict(pair.split("=", 1) for pair in pairs) for pairs in (renamed_values, renamed_keys))
    comparison = Comparison(values, keys)
    comparison.compare(*(json.loads(file.read_text(encoding="utf-8")) for file in (before, after)), "", "")
    for (old, new), count in comparison.renamed_key_counts.items():
        print(f"renamed key: {old} -> {new} ({count} times)")
    for line in comparison.differences:
        print(f"DIFFERENT: {line}")
    print(f"{len(comparison.differences)} differences, {len(comparison.renamed_key_counts)} renamed keys")
    return 1 if comparison.differences else 0


def main() -> int:
    """Run the command `record` or `compare`; return the exit status."""
    parser = argparse.ArgumentParser(description="Record the results of the command line; compare records.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run all commands and write their results")
    recording.add_argument("out", type=Path)
    recording.add_argument("--work", type=Path, help="new folder to work in, which is kept")
    comparing = commands.add_parser("compare", help="compare two records; exit status 1 if values differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    value_help = "text value that was renamed on purpose, as OLD=NEW; may be repeated"
    comparing.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW", help=value_help)
    key_help = "key whose old name is now the name of another key, as OLD=NEW; may be repeated"
    comparing.add_argument("--renamed-key", action="append", default=[], metavar="OLD=NEW", help=key_help)
    args = parser.parse_args()
    if args.command == "compare":
        return compare(args.before, args.after, args.renamed, args.renamed_key)
    if args.work:
        args.work.mkdir(parents=True)
        record(args.out, args.work.resolve())
        return 0
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        record(args.out, Path(folder).resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
