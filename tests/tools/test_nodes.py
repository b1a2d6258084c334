"""Tests of the nodes in network namespaces, and of the picture of step times."""

import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from albertine.train.metrics_log import read_metrics

ROOT = Path(__file__).parents[2]


RECEIVER = """
import socket, time
connection = socket.create_server(("0.0.0.0", 5000)).accept()[0]
started, size = time.monotonic(), 0
while block := connection.recv(1 << 20):
    size += len(block)
print(8 * size / (time.monotonic() - started))
"""
SENDER = """
import socket, sys, time
for _ in range(200):
    try:
        connection = socket.create_connection(("10.0.0.1", 5000))
        break
    except OSError:
        time.sleep(0.05)
connection.sendall(bytes(3_000_000))
"""


def test_bandwidth_between_nodes_is_limited(nodes_module: Any, tmp_path: Path) -> None:
    with nodes_module.Nodes(2) as nodes:
        nodes.limit_bandwidth("20mbit")
        receiver = nodes.start(0, [sys.executable, "-c", RECEIVER], {}, tmp_path / "log")
        nodes.start(1, [sys.executable, "-c", SENDER], {}).wait()
        assert receiver.wait() == 0
    assert 2e6 < float((tmp_path / "log").read_text()) < 25e6


def test_a_killed_node_has_no_processes_and_sends_nothing(nodes_module: Any) -> None:
    with nodes_module.Nodes(2) as nodes:
        sleeper = nodes.start(0, ["sleep", "600"], {})
        while not nodes.processes(0):
            time.sleep(0.01)
        nodes.kill(0)
        assert sleeper.wait() == -9
        assert nodes.processes(0) == []
        connect = "import socket; socket.create_connection(('10.0.0.1', 5000), timeout=1)"
        assert nodes.start(1, [sys.executable, "-c", connect], {}, Path("/dev/null")).wait() == 1


def test_an_error_removes_the_nodes(nodes_module: Any) -> None:
    with pytest.raises(ZeroDivisionError), nodes_module.Nodes(1) as nodes:
        nodes.start(0, ["sleep", "600"], {})
        raise ZeroDivisionError


def test_a_wrong_rate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from nodes import bits_per_second

    assert bits_per_second("2.5gbit") == 2.5e9
    with pytest.raises(SystemExit, match="fast: no rate"):
        bits_per_second("fast")


def test_positions_of_the_picture_are_logarithmic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from bandwidth_chart import draw_step_times

    svg = draw_step_times({"A": [(1e8, 100.0), (1e9, 10.0), (1e10, 1.0)]})
    root = ET.fromstring(svg)
    points = next(each for each in root.iter() if each.tag.endswith("polyline")).attrib["points"]
    (x0, y0), (x1, y1), (x2, y2) = [tuple(map(float, pair.split(","))) for pair in points.split()]
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.2)
    assert re.search(r"A: 100.0 s at 100 M", root.attrib["aria-label"])
    draw_step_times({"A": [(1e9, 1.0)]})  # a single point on ticks of both axes


@pytest.mark.slow  # eight processes
def test_two_nodes_with_two_processes_equal_one_with_four(
    nodes_module: Any, corpus: Any, tmp_path: Path
) -> None:
    arguments = [
        "pretrain", "--corpus", str(corpus.folder), "--device", "cpu", "--model.hidden-size", "32",
        "--model.embedding-size", "16", "--model.layers", "2", "--model.heads", "2",
        "--model.max-length", "64", "--objective.max-length", "32", "--train.steps", "12",
        "--train.batch-tokens", "512", "--train.precision", "fp32", "--train.evaluate-tokens", "256",
    ]  # fmt: skip
    for nodes, processes in ((1, 4), (2, 2)):
        command = [sys.executable, str(ROOT / "tools" / "nodes.py"), "--nodes", str(nodes)]
        command += ["--processes", str(processes), "--", *arguments, "--out", str(tmp_path / f"run-{nodes}")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    losses = [
        [line["loss"] for line in read_metrics(tmp_path / f"run-{nodes}") if "loss" in line]
        for nodes in (1, 2)
    ]
    assert len(losses[0]) == 12
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
