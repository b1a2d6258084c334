"""Tests that the examples run, with small settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

pytestmark = pytest.mark.slow  # whole workflows

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL_RUN = ("--vocab-size", "500", "--steps", "8", "--model", "demo")


def run_example(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    completed = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert completed.returncode == 0, completed.stderr
    return completed


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of pretrain_on_own_text, run on stories of the little world."""
    folder = tmp_path_factory.mktemp("examples")
    write_world(folder / "world", WorldSettings(stories=600, extra=0, other=0, train=0, workers=1))
    completed = run_example("pretrain_on_own_text", folder / "world" / "text", folder / "out", *SMALL_RUN)
    assert "masked tokens: accuracy" in completed.stdout
    assert completed.stdout.count("[MASK]") == 2
    return folder / "out"


def test_pretrain_on_own_text_resumes(trained: Path) -> None:
    modified = (trained / "run" / "model.safetensors").stat().st_mtime_ns
    run_example("pretrain_on_own_text", trained.parent / "world" / "text", trained, *SMALL_RUN)
    assert (trained / "run" / "model.safetensors").stat().st_mtime_ns == modified


def test_compare_sharing_prints_every_scheme() -> None:
    lines = run_example("compare_sharing", "--hidden", "64", "--layers", "2").stdout.splitlines()
    counts = [int(line[20:34].replace(",", "")) for line in lines[1:]]
    assert len(counts) == 5
    assert counts[0] == max(counts)
    assert counts[-1] == min(counts)


def test_batch_prediction_keeps_order_and_converts_the_model(trained: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"number {number} is good\tyes\nnumber {number} is bad\tno" for number in range(20))
    (tmp_path / "rows.tsv").write_text(f"text\tlabel\n{rows}\n")
    command = [
        sys.executable,
        "-m",
        "albertine",
        "finetune",
        str(trained / "run"),
        "--task",
        "classify",
        "--quiet",
    ]
    command += ["--data", str(tmp_path / "rows.tsv"), "--out", str(tmp_path / "judge"), "--train.steps", "4"]
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "texts.txt").write_text("one\ntwo words\nthree words here\n")
    completed = run_example(
        "batch_prediction", tmp_path / "judge", tmp_path / "texts.txt", "--out", tmp_path / "converted"
    )
    predictions = [json.loads(line) for line in completed.stdout.splitlines()]
    assert [prediction["text"] for prediction in predictions] == ["one", "two words", "three words here"]
    assert all(prediction["label"] in ("yes", "no") for prediction in predictions)
    assert (tmp_path / "converted" / "model.safetensors").exists()
