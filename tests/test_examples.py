"""The examples run, small."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, words)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=one_thread)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first example makes of some stories."""
    folder = tmp_path_factory.mktemp("examples")
    write_world(folder / "world", WorldSettings(stories=600, extra=0, other=0, train=0, workers=1))
    done = run(
        "own_text",
        folder / "world" / "text",
        folder / "out",
        "--pieces",
        "500",
        "--steps",
        "8",
        "--model",
        "demo",
    )
    assert "hidden pieces right" in done.stdout
    assert done.stdout.count("[MASK]") == 2
    return folder / "out"


def test_own_text_resumes(made: Path) -> None:
    before = (made / "run" / "model.safetensors").stat().st_mtime_ns
    run(
        "own_text", made.parent / "world" / "text", made, "--pieces", "500", "--steps", "8", "--model", "demo"
    )
    assert (made / "run" / "model.safetensors").stat().st_mtime_ns == before


def test_sharing_counts_every_plan() -> None:
    lines = run("sharing", "--hidden", "64", "--layers", "2").stdout.splitlines()
    counts = [int(line[20:34].replace(",", "")) for line in lines[1:]]
    assert len(counts) == 5
    assert counts[0] == max(counts)
    assert counts[-1] == min(counts)


def test_answers_keep_order_and_save_the_model(made: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"{text}\t{label}" for text, label in [("it is good", "yes"), ("it is bad", "no")] * 20)
    (tmp_path / "rows.tsv").write_text(f"text\tlabel\n{rows}\n")
    tune = [sys.executable, "-m", "albertine", "finetune", str(made / "run"), "--task", "classify", "--quiet"]
    tune += ["--data", str(tmp_path / "rows.tsv"), "--out", str(tmp_path / "judge"), "--train.steps", "4"]
    subprocess.run(tune, check=True, capture_output=True)
    (tmp_path / "texts.txt").write_text("one\ntwo words\nthree words here\n")
    done = run("answers", tmp_path / "judge", tmp_path / "texts.txt", "--out", tmp_path / "theirs")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["text"] for one in answers] == ["one", "two words", "three words here"]
    assert all(one["label"] in ("yes", "no") for one in answers)
    assert (tmp_path / "theirs" / "model.safetensors").exists()
