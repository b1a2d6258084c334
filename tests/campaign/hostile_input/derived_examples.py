"""Valid files that only trials of hostile input need, derived from the examples of the campaign."""

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import torch
from safetensors.torch import load_file, save_file

from tests.campaign.commands import Limits, run_forked
from tests.campaign.hostile_input.command_lines import COMMAND_LINES, PRINT_SETTINGS
from tests.interop.make_google_checkpoint import BERT_CONFIG, BERT_SHAPES, write_checkpoint

# Commands that read a settings file, with the options that make them fast.
SETTINGS_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "info": "info --json",
        "corpus-show": "corpus show corpus --json --samples 2",
        "tokenizer-show": "tokenizer show tokenizer words --json",
        "predict": "predict classify --out new.jsonl --device cpu",
        "evaluate": "evaluate classify --json --device cpu",
        "fill-mask": "fill-mask run [MASK] --json --device cpu",
        "score": "score run --out new.jsonl --device cpu",
        "embed": "embed run --out new.npy --device cpu",
        "probe": "probe run --json --device cpu",
        "world-show": "world show 3 --json",
        "tokenizer-train": "tokenizer train text --out new --print-settings",
        "corpus-build": "corpus build text --tokenizer tokenizer --out new --print-settings",
        "pretrain": "pretrain --out new --print-settings",
        "plan": "plan --hardware H100 --json",
        "finetune": "finetune run --out new --print-settings",
        "serve": "serve classify --print-settings",
        "demo": "demo --out new --print-settings",
        "report-card": "report-card run --out new --print-settings",
        "world-write": "world write new --print-settings",
        "study": "study claim.toml --out new --print-settings",
        "bench-pretrain": "bench pretrain --print-settings",
    }
)
# More options of these commands, which become part of the settings file.
_SETTINGS_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "info": "--model albert-tiny",
        "predict": "--data reviews.csv",
        "evaluate": "--data reviews.csv",
        "probe": "--corpus corpus --tokens 100",
        "pretrain": "--corpus corpus",
        "plan": "--model albert-tiny --tokens 1M --train.optimizer lamb",
        "finetune": "--task classify --data reviews.csv",
    }
)
_DIALOGUE = [
    ["W: The boat is red.", "M: No, it is blue."],
    [{"question": "What color is the boat?", "choice": ["red", "blue", "green", "gray"], "answer": "blue"}],
    "1-1",
]
_CONLLU = (
    "# sent_id = 1\n# text = The boat.\n"
    "1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n"
    "2-3\tboats'\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tboat\tboat\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
)


def build_derived_examples(examples: Path, folder: Path) -> None:
    """Write the derived examples into a new folder."""
    folder.mkdir()
    _write_settings(examples, folder / "settings")
    _write_weights(examples / "run", folder)
    _write_vocabulary(folder / "wordpiece")
    write_checkpoint(folder / "google-bert", BERT_CONFIG, BERT_SHAPES, family="bert")
    (folder / "dream").mkdir()
    (folder / "dream" / "dev.json").write_text(json.dumps([_DIALOGUE] * 3))
    (folder / "words.conllu").write_text(_CONLLU * 3)
    for name in ("reviews.csv", "reviews.jsonl"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((examples / name).read_bytes(), mtime=0))
    (folder / "arguments").mkdir()
    for name, command in COMMAND_LINES.items():
        (folder / "arguments" / f"{name.replace(' ', '-')}.json").write_text(json.dumps(command.split()))


def _write_settings(examples: Path, folder: Path) -> None:
    """Write the settings file of each command, as the command prints it."""
    folder.mkdir()
    for name, command in SETTINGS_COMMANDS.items():
        options = _SETTINGS_OPTIONS.get(name, "")
        arguments = f"{command.removesuffix(PRINT_SETTINGS)} {options} {PRINT_SETTINGS}".split()
        outcome = run_forked(arguments, examples, Limits(seconds=60))
        if outcome.status:
            raise SystemExit(f"{command}: {outcome.stderr.decode()}")
        (folder / f"{name}.toml").write_bytes(outcome.stdout)


def _write_weights(run: Path, folder: Path) -> None:
    """Write the model of a run twice: with pickled weights, and with sharded ones."""
    tensors = load_file(run / "model.safetensors")
    names = sorted(tensors)
    for layout in ("pickled", "sharded"):
        (folder / layout).mkdir()
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(run / name, folder / layout / name)
    torch.save(tensors, folder / "pickled" / "pytorch_model.bin")
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for shard, members in shards.items():
        save_file({name: tensors[name] for name in members}, folder / "sharded" / shard)
    weight_map = {name: shard for shard, members in shards.items() for name in members}
    text = json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map})
    (folder / "sharded" / "model.safetensors.index.json").write_text(text)


def _write_vocabulary(folder: Path) -> None:
    """Write a WordPiece tokenizer: a vocabulary, options and special tokens."""
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##a", "##b", "the", "boat", ".", ","]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    options = {
        "do_lower_case": True,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "model_max_length": 64,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    special = {
        "pad_token": "[PAD]",
        "unk_token": {"content": "[UNK]", "lstrip": False},
        "mask_token": "[MASK]",
    }
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
