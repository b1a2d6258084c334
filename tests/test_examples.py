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
SMALL = ("--vocab-size", "500", "--steps", "8", "--model", "demo")


def run(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, words)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=one_thread)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of pretrain_on_own_text on stories of the little world."""
    folder = tmp_path_factory.mktemp("examples")
    write_world(folder / "world", WorldSettings(stories=600, extra=0, other=0, train=0, workers=1))
    done = run("pretrain_on_own_text", folder / "world" / "text", folder / "out", *SMALL)
    assert "masked tokens: accuracy" in done.stdout
    assert done.stdout.count("[MASK]") == 2
    return folder / "out"


def test_pretrain_on_own_text_resumes(trained: Path) -> None:
    before = (trained / "run" / "model.safetensors").stat().st_mtime_ns
    run("pretrain_on_own_text", trained.parent / "world" / "text", trained, *SMALL)
    assert (trained / "run" / "model.safetensors").stat().st_mtime_ns == before


def test_compare_sharing_prints_every_scheme() -> None:
    lines = run("compare_sharing", "--hidden", "64", "--layers", "2").stdout.splitlines()
    counts = [int(line[20:34].replace(",", "")) for line in lines[1:]]
    assert len(counts) == 5
    assert counts[0] == max(counts)
    assert counts[-1] == min(counts)


def test_batch_prediction_keeps_order_and_converts_the_model(trained: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"{text}\t{label}" for text, label in [("it is good", "yes"), ("it is bad", "no")] * 20)
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
    done = run(
        "batch_prediction", tmp_path / "judge", tmp_path / "texts.txt", "--out", tmp_path / "converted"
    )
    predictions = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["text"] for one in predictions] == ["one", "two words", "three words here"]
    assert all(one["label"] in ("yes", "no") for one in predictions)
    assert (tmp_path / "converted" / "model.safetensors").exists()
