"""Command lines: a valid one for each command, and edits that put hostile options and values into it.

The tree of a command line is its list of arguments. Commands that would train, serve or download
only print their settings.
"""

import json
import random
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from cyclopts import App

from albertine.cli import app
from tests.campaign.hostile_input.formats import Format
from tests.campaign.hostile_input.hostile_values import HostileValues

# A valid command line of each command. Inputs are examples; outputs begin with "new".
COMMAND_LINES: Mapping[str, str] = MappingProxyType(
    {
        "info": "info run --json",
        "tokenizer train": "tokenizer train text --out new --vocab-size 200 --print-settings",
        "tokenizer show": "tokenizer show tokenizer words --json",
        "corpus build": "corpus build text --tokenizer tokenizer --out new --print-settings",
        "corpus show": "corpus show corpus --samples 2 --json",
        "corpus check": "corpus check corpus --json",
        "check": "check reviews.csv --text review --label stars --tokenizer tokenizer --json",
        "convert": "convert run new",
        "export": "export classify --precision int8 --data reviews.csv --out new --print-settings",
        "pretrain": "pretrain --corpus corpus --out new --print-settings",
        "plan": "plan --model demo --tokens 1M --hardware 8xH100 --price 2 --json",
        "probe": "probe run --corpus corpus --tokens 100 --json --device cpu",
        "fill-mask": "fill-mask run [MASK] --json --device cpu",
        "score": "score run --data reviews.csv --text review --out new.jsonl --device cpu",
        "embed": "embed run --data reviews.csv --text review --out new.npy --device cpu",
        "demo": "demo --out new --print-settings",
        "compare": "compare run apart",
        "report": "report run",
        "report-card": "report-card run --corpus corpus --out new --print-settings",
        "finetune": "finetune run --out new --task classify --data reviews.csv --print-settings",
        "evaluate": "evaluate classify --data reviews.csv --json --device cpu",
        "predict": "predict classify --data reviews.csv --out new.jsonl --device cpu",
        "ensemble": "ensemble classify classify-2 --data reviews.csv --save new --json --device cpu",
        "serve": "serve classify --port 0 --workers 2 --cors-origins https://a.org --print-settings",
        "world write": "world write new --stories 2 --print-settings",
        "world show": "world show 3 --json",
        "study": "study claim.toml --scale smoke --out new --print-plan --json",
        "bench serve": "bench serve classify --print-settings",
        "bench startup": "bench startup --print-settings",
        "bench model": "bench model --print-settings",
        "bench gpu": "bench gpu --out new --dry --print-settings",
        "bench plan": "bench plan --print-settings",
        "bench gradients": "bench gradients --print-settings",
        "bench pretrain": "bench pretrain --print-settings",
        "bench exits": "bench exits run --out out --print-settings",
        "bench export": "bench export --print-settings",
        "bench pipeline": "bench pipeline classify --print-settings",
        "bench finetune": "bench finetune run --print-settings",
        "bench score": "bench score pairs --tokenizer tokenizer --print-settings",
        "bench corpus": "bench corpus text --tokenizer tokenizer --print-settings",
    }
)
PRINT_SETTINGS = "--print-settings"
_MAX_BYTES = 50_000  # of an argument; Linux refuses more than 128 KiB
_PATHS = (
    "", ".", "nothing", "reviews.csv", "text", "run", "reviews.csv/inside", "x" * 5_000, "x/" * 300,
    "new\nline", "\udcff", "new\x1b[31m", "*", "**/*", "[", "~", "loop", "new.csv", "new.json", "-",
)  # fmt: skip
_NUMBERS = (
    "0", "-1", "1e999", "nan", "inf", "9" * 400, "1.5", "0x10", "1_000", "\u0663", " 1", "none", "true", "",
)  # fmt: skip


def command_names(commands: App = app, prefix: str = "") -> Iterator[str]:
    """Yield the names of all commands, such as "corpus build"."""
    for name in commands:
        if not name.startswith("-"):
            inner = [f"{prefix}{name} {each}" for each in commands[name] if not each.startswith("-")]
            yield from inner or [prefix + name]


@cache
def _options(command: str) -> tuple[str, ...]:
    """Return the options of a command, except `--debug`, which prints tracebacks."""
    found = app
    for name in command.split():
        found = found[name]
    names = (name for argument in found.assemble_argument_collection() for name in argument.names)
    return tuple(name for name in names if name.startswith("--") and name != "--debug")


def _edit(arguments: list[str], rng: random.Random, values: HostileValues) -> list[str]:
    """Return a command line with one edit; a `--print-settings` at its end stays."""
    command = next(name for name in COMMAND_LINES if arguments[: len(name.split())] == name.split())
    first = len(command.split())
    last = len(arguments) - (PRINT_SETTINGS in COMMAND_LINES[command])
    index = rng.randint(first, last)
    option = rng.choice(_options(command))
    value = _hostile_argument(rng, values)
    match rng.randrange(7):
        case 0 if first <= index < last:
            return [*arguments[:index], *arguments[index + 1 :]]
        case 1:
            return [*arguments[:index], value, *arguments[index:]]
        case 2 if first <= index < last:
            return [*arguments[:index], value, *arguments[index + 1 :]]
        case 3:
            return [*arguments[:last], f"{option}={value}", *arguments[last:]]
        case 4:
            return [*arguments[:last], option, *arguments[last:]]
        case _:
            return [*arguments[:last], option, value, *arguments[last:]]


def _hostile_argument(rng: random.Random, values: HostileValues) -> str:
    """Return an argument that the system can pass to a process, and that is no path outside the folder."""
    value = rng.choice([rng.choice(_PATHS), rng.choice(_NUMBERS), rng.choice(values.texts)])
    value = value.replace("\0", "").replace("..", "__").removeprefix("hub:")
    value = value.encode("utf-8", "surrogatepass")[:_MAX_BYTES].decode("utf-8", "surrogateescape")
    return "_" + value[1:] if value.startswith("/") else value


def _parse(content: bytes) -> list[str]:
    arguments: list[str] = json.loads(content)
    return arguments


def _write(arguments: Any, rng: random.Random) -> bytes:
    return json.dumps(arguments).encode()


COMMAND_LINE = Format(_parse, _write, _edit, takes_raw_edits=False)
