"""Tests of runs in parallel processes: progress, errors, interruption and resuming."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from albertine import progress
from albertine.errors import AlbertineError, ExitStatus, InputError, RunStopped
from albertine.processes import block_signals
from albertine.settings import SettingError
from albertine.text.tokenizer import load_tokenizer
from albertine.train.metrics_log import METRICS_FILE
from albertine.train.parallel_runs import (
    is_faster_in_parallel,
    last_step,
    run_in_parallel,
    worker_count,
)

CPU = torch.device("cpu")


@pytest.mark.slow
def test_all_runs_finish_and_share_one_progress_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The runs are faster than the delay of the first progress line.
    monkeypatch.setattr(progress, "SECONDS_BEFORE_FIRST_LINE", 0)
    source = tmp_path / "source"
    source.mkdir()
    (source / METRICS_FILE).write_text("".join(json.dumps({"step": step}) + "\n" for step in range(1, 6)))
    runs = {
        tmp_path / name: partial(shutil.copytree, source, tmp_path / name) for name in ("one", "two", "three")
    }
    run_in_parallel("Making", runs, 15, CPU)
    assert all((run / METRICS_FILE).exists() for run in runs)
    assert "Making: 15 steps" in capsys.readouterr().err


@pytest.mark.slow
def test_an_error_in_one_run_is_raised_unchanged(tmp_path: Path) -> None:
    missing_folder = tmp_path / "nowhere"
    with pytest.raises(InputError, match="nowhere: no such folder; name a folder with a tokenizer"):
        run_in_parallel("Making", {tmp_path / "two": partial(load_tokenizer, missing_folder)}, 5, CPU)


@pytest.mark.parametrize(("gigabytes", "workers"), [(80, 8), (12, 2), (2, 1)])
def test_runs_side_by_side_share_the_memory_of_a_gpu(
    gigabytes: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, memory = torch.device("cuda"), gigabytes * 2**30
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=memory))
    monkeypatch.setattr("albertine.train.parallel_runs.num_cores", lambda: 16)
    assert worker_count(20, gpu) == workers
    assert worker_count(1, gpu) == 1
    assert worker_count(20, CPU) == 8
    fractions: list[float] = []
    pools: list[_RecordingPool] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr("albertine.train.parallel_runs.ProcessPool", partial(_RecordingPool, pools))
    runs = {Path(str(number)): partial(int, number) for number in range(20)}
    assert run_in_parallel("Counting", runs, None, gpu) == list(range(20))
    assert [pool.workers for pool in pools] == [workers]
    expected = [0.75 / workers] if workers > 1 else []
    assert fractions == expected
    assert run_in_parallel("Counting", runs, None, CPU) == list(range(20))
    assert fractions == expected  # not on a CPU
    last_run = {Path("19"): partial(int, 19)}
    assert run_in_parallel("Counting", last_run, None, gpu) == [19]
    assert fractions == 2 * expected  # the same for any number of runs, because micro-batches depend on it


class _RecordingPool:
    """Runs jobs in this process."""

    def __init__(self, pools: list["_RecordingPool"], workers: int):
        self.workers = workers
        pools.append(self)

    def run(
        self,
        function: Callable[[Any], Any],
        jobs: Iterable[Any],
        *,
        initializer: Callable[[], None],
        **_: Any,
    ) -> Iterator[Any]:
        initializer()
        for job in jobs:
            yield job, function(job)


def test_narrow_models_run_side_by_side_on_a_gpu_too() -> None:
    assert is_faster_in_parallel(torch.device("cuda"), 312)
    assert not is_faster_in_parallel(torch.device("cuda"), 768)
    assert not is_faster_in_parallel(torch.device("mps"), 312)


@pytest.mark.parametrize(
    "error",
    [
        RunStopped("stopped by SIGTERM", ExitStatus.TERMINATED),
        SettingError("steps", 3, "must be at least 10", ("warmup",)),
        InputError("a.txt: empty"),
    ],
)
def test_errors_survive_pickling(error: AlbertineError) -> None:
    unpickled = pickle.loads(pickle.dumps(error))
    assert type(unpickled) is type(error)
    assert str(unpickled) == str(error)
    assert unpickled.status == error.status
    assert vars(unpickled) == vars(error)


def test_nested_blocks_keep_signals_blocked() -> None:
    with block_signals(signal.SIGINT):
        with block_signals(signal.SIGINT, signal.SIGTERM):
            pass
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= {signal.SIGINT}
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_other_threads_are_delayed(number: signal.Signals) -> None:
    seen = []
    before = signal.signal(number, lambda *_: seen.append("handled"))
    is_blocked = threading.Event()

    def send() -> None:
        is_blocked.wait()
        signal.raise_signal(number)

    thread = threading.Thread(target=send)
    thread.start()  # before the block, which it would inherit
    try:
        with block_signals(signal.SIGINT):
            is_blocked.set()
            thread.join()
            seen.append("end of block")
    finally:
        signal.signal(number, before)
    assert seen == ["end of block", "handled"]


# Each job touches a file and sleeps; like a training run, it stops in an orderly way on SIGTERM.
INTERRUPTED_POOL = """
import signal, sys, time
from pathlib import Path
from albertine.errors import ExitStatus, RunStopped
from albertine.executors.process_pool import ProcessPool

FOLDER = Path(sys.argv[1])

def stop(*_):
    raise RunStopped("stopped by SIGTERM", ExitStatus.TERMINATED)

def job(number):
    before = signal.signal(signal.SIGTERM, stop)
    try:
        (FOLDER / str(number)).touch()
        time.sleep(60)
    finally:
        signal.signal(signal.SIGTERM, before)

def interrupt():
    if len(list(FOLDER.iterdir())) == 2:
        raise KeyboardInterrupt

if __name__ == "__main__":
    try:
        list(ProcessPool(2).run(job, range(6), on_poll=interrupt, advice=""))
    except KeyboardInterrupt:
        print(len(list(FOLDER.iterdir())), "jobs began")
"""


@pytest.mark.slow
def test_a_stopped_pool_begins_no_other_job(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(INTERRUPTED_POOL)
    (tmp_path / "jobs").mkdir()
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "jobs")]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    assert completed.stdout == "2 jobs began\n"
    assert "Traceback" not in completed.stderr


@pytest.mark.slow
@pytest.mark.long
def test_sigterm_checkpoints_both_berts_of_a_demo(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    options = [
        "--compare",
        "--hidden-size",
        "128",
        "--stories",
        "600",
        "--examples",
        "100",
        "--pretraining-steps",
        "150",
        "--finetuning-steps",
        "5",
    ]
    command = [sys.executable, "-m", "albertine", "demo", "--out", str(out), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as demo:
        deadline = time.monotonic() + 400
        runs = [out / "bert", out / "narrow-bert"]  # they begin together, when the ALBERT is trained
        while not all(map(last_step, runs)) and time.monotonic() < deadline:
            assert demo.poll() is None
            time.sleep(0.2)
        demo.send_signal(signal.SIGTERM)
        _, stderr = demo.communicate(timeout=60)
    assert demo.returncode == 143, stderr
    assert "Traceback" not in stderr
    for run in runs:
        newest = max((run / "checkpoints").glob("step-*"), key=lambda folder: int(folder.name.split("-")[1]))
        assert int(newest.name.split("-")[1]) > 0  # saved at the signal, not at the start
    assert not (out / "results" / "bert.json").exists()
