"""Shared fixtures: a small corpus of made-up text, a server that forks commands; hypothesis profiles."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, Signals, default_int_handler
from signal import signal as set_handler

# Tests run in parallel, so that a second thread would only wait for a core, in a busy loop.
# Libraries read these when they are loaded.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import pytest
import torch
from hypothesis import settings

from albertine import progress
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import CorpusSettings
from albertine.pretrain import run as pretrain_run
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer

# In CI, hypothesis draws the same examples in every run. A slow machine causes no failure.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Background jobs of a script ignore SIGINT, and their children inherit that; some tests send SIGINT.
set_handler(SIGINT, default_int_handler)

# Tables are as wide as the terminal, which differs between machines; a test of narrow tables sets the width.
os.environ["COLUMNS"] = "200"

_LONG_PARTS = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long-part",
        type=int,
        metavar="N",
        help=f"run only one of {_LONG_PARTS} parts of the long tests: N modulo {_LONG_PARTS}",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("long_part")
    if part is not None:
        long = [item for item in items if item.get_closest_marker("long")]
        others = set(long) - set(long[part % _LONG_PARTS :: _LONG_PARTS])
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


SYLLABLES = ["ka", "lo", "mi", "ren", "tas", "vu", "dor", "wel", "shi", "gon", "bra", "un"]


def made_up_sentences(seed: int, sentences: int) -> list[str]:
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(200)]
    return [
        " ".join(rng.choices(vocabulary, k=rng.randint(2, 15))).capitalize() + "." for _ in range(sentences)
    ]


def write_text(folder: Path, documents: int = 40) -> Path:
    """Write documents of very different lengths, one sentence per line."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    texts = [
        "\n".join(made_up_sentences(seed, rng.choice([1, 2, 3, 10, 60, 200]))) for seed in range(documents)
    ]
    half = documents // 2
    (folder / "a.txt").write_text("\n\n".join(texts[:half]) + "\n")
    (folder / "b.txt").write_text("\n\n".join(texts[half:]) + "\n")
    return folder


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="session")
def tokenizer(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tokenizer") / "made"
    build_tokenizer([str(text)], out, TokenizerSettings(vocab_size=220, layout="lines"))
    return out


@pytest.fixture(scope="session")
def corpus(text: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    out = tmp_path_factory.mktemp("corpus") / "made"
    build_corpus([str(text)], tokenizer, out, CorpusSettings(layout="lines", workers=1, held_out=0.2))
    return Corpus(out)


class ForkServer:
    """Runs commands in forks of a process that has imported everything, to save the time of the imports."""

    def __init__(self) -> None:
        script = Path(__file__).parent / "fork_server.py"
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self,
        *arguments: str,
        world_size: int = 1,
        signal: Signals = Signals.SIGKILL,
        signal_after: float | None = None,
        signal_when_exists: Path | None = None,
    ) -> tuple[list[int], str]:
        """Run a command in `world_size` processes; return their exit codes (-9: killed) and their output.

        The processes receive `signal` after `signal_after` seconds, or once `signal_when_exists` exists.
        """
        request = {
            "arguments": arguments,
            "world_size": world_size,
            "signal": signal,
            "signal_after": signal_after,
            "signal_when_exists": str(signal_when_exists or ""),
        }
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        return reply["exit_codes"], reply["output"]

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def messages_on() -> None:
    """Print messages, also after a test that ran a command with --quiet."""
    progress.set_quiet(False)


@pytest.fixture(autouse=True)
def skip_drawing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not draw curves, which takes longer than a run, unless a test uses the fixture `draw_curves`."""
    if "draw_curves" not in request.fixturenames:
        monkeypatch.setattr(pretrain_run, "draw_curve", lambda _: None)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute all runs of a study in this process, to count and to interrupt them, or to save starts."""
    monkeypatch.setattr("albertine.study.execution.are_parallel", lambda _: False)


@pytest.fixture
def draw_curves() -> None:
    """Draw the curves of runs."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute on one thread: small models are slower on several, and tests run in parallel."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)
