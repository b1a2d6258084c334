"""A process that imports everything once and runs commands in forks: see `conftest.ForkServer`.

Each line of standard input is a request in JSON: the arguments, the world size, which signal to send,
and when. Each line of standard output is the reply: exit codes and output. This process must not start
threads of torch, because a fork does not inherit them.
"""

import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import torch._dynamo
import torch.distributed.fsdp

from albertine.cli import app
from albertine.command import run_command
from albertine.interruptions import InterruptHandler
from albertine.pretrain import curve_plot

import_module("albertine.pretrain.run")  # once for all forks
curve_plot._write_figure = lambda *_: None  # drawing takes longer than a run


def run_child(arguments: list[str], rank: int, world_size: int, port: int, output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)
    torch.set_num_threads(1)
    if world_size > 1:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    signal.signal(signal.SIGTERM, InterruptHandler())
    status = 99
    try:
        status = run_command(app, arguments)
    finally:
        os._exit(status)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def handle_request(request: dict[str, Any]) -> dict[str, Any]:
    port = free_port()
    with tempfile.TemporaryFile() as output:
        children = []
        for rank in range(request["world_size"]):
            pid = os.fork()
            if not pid:
                run_child(request["arguments"], rank, request["world_size"], port, output.fileno())
            children.append(pid)
        if request["signal_after"] is not None or request["signal_when_exists"]:
            handles = [os.pidfd_open(pid) for pid in children]
            deadline = time.monotonic() + (60 if request["signal_after"] is None else request["signal_after"])
            trigger_file = Path(request["signal_when_exists"] or "/nowhere")
            while time.monotonic() < deadline and not trigger_file.exists():
                if select.select(handles, [], [], 0.001)[0]:
                    break
            for pid in children:
                os.kill(pid, request["signal"])
            for handle in handles:
                os.close(handle)
        exit_codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        output.seek(0)
        return {"exit_codes": exit_codes, "output": output.read().decode(errors="replace")}


for line in sys.stdin:
    print(json.dumps(handle_request(json.loads(line))), flush=True)
