"""Runs beside each other: told together, ended together, each gone on with where it was."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from albertine import progress
from albertine.demo.abreast import _step, abreast
from albertine.errors import AlbertineError, InputError, Status, Stopped
from albertine.processes import holding
from albertine.settings import SettingError
from albertine.text.tokenizer import load_tokenizer
from albertine.train.journal import JOURNAL


def test_all_are_made_and_told_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0)  # a fast machine is through before it would say a word
    made = tmp_path / "made"
    made.mkdir()
    (made / JOURNAL).write_text("".join(json.dumps({"step": one}) + "\n" for one in range(1, 6)))
    runs = {
        tmp_path / name: partial(shutil.copytree, made, tmp_path / name) for name in ("one", "two", "three")
    }
    abreast("Making", runs, 5)
    assert all((run / JOURNAL).exists() for run in runs)
    assert "Making: 15 steps" in capsys.readouterr().err


def test_a_mistake_in_one_comes_out_as_it_is(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(InputError, match="nowhere: no such folder; a tokenizer's is asked for"):
        abreast("Making", {tmp_path / "two": partial(load_tokenizer, nowhere)}, 5)


@pytest.mark.parametrize(
    "error",
    [
        Stopped("asked to end", Status.TERMINATED),
        SettingError("steps", 3, "must be at least 10", ("warmup",)),
        InputError("a.txt: empty"),
    ],
)
def test_errors_travel_between_processes(error: AlbertineError) -> None:
    travelled = pickle.loads(pickle.dumps(error))
    assert type(travelled) is type(error)
    assert str(travelled) == str(error)
    assert travelled.status == error.status
    assert vars(travelled) == vars(error)


def test_a_process_that_gets_no_signals_gets_none_after_holding_some() -> None:
    with holding(signal.SIGINT):
        with holding(signal.SIGINT, signal.SIGTERM):
            pass
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= {signal.SIGINT}
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_demo_that_is_asked_to_end_keeps_both_runs(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    words = ["--stories", "600", "--examples", "100", "--steps", "200", "--tuning-steps", "5"]
    command = [sys.executable, "-m", "albertine", "demo", "--out", str(out), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as demo:
        deadline = time.monotonic() + 120
        runs = [out / "albert", out / "bert"]
        while not all(map(_step, runs)) and time.monotonic() < deadline:
            assert demo.poll() is None
            time.sleep(0.2)
        demo.send_signal(signal.SIGTERM)
        _, told = demo.communicate(timeout=60)
    assert demo.returncode == 143, told
    assert "Traceback" not in told
    for run in runs:
        newest = max((run / "trainer").glob("step-*"), key=lambda folder: int(folder.name.split("-")[1]))
        assert int(newest.name.split("-")[1]) > 0  # not where it began, but where it was
    assert not (out / "measured" / "albert.json").exists()
