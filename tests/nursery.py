"""Imports everything once and forks processes that run a command: see `conftest.Nursery`.

A line of JSON in says what to run, in how many processes, and when to kill them; a line
out says how they ended. Nothing here touches torch before a fork, so that no threads are
lost in one.
"""

import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch.distributed.fsdp

from albertine.__main__ import Ender
from albertine.cli import app
from albertine.command import run


def child(words: list[str], rank: int, ranks: int, port: int, said: int) -> None:
    os.dup2(said, 1)
    os.dup2(said, 2)
    torch.set_num_threads(1)
    if ranks > 1:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    signal.signal(signal.SIGTERM, Ender())
    status = 99
    try:
        status = run(app, words)
    finally:
        os._exit(status)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def perform(asked: dict[str, Any]) -> dict[str, Any]:
    port = free_port()
    with tempfile.TemporaryFile() as said:
        children = []
        for rank in range(asked["ranks"]):
            number = os.fork()
            if not number:
                child(asked["words"], rank, asked["ranks"], port, said.fileno())
            children.append(number)
        if asked["after"] is not None or asked["when"]:
            handles = [os.pidfd_open(number) for number in children]
            deadline = time.monotonic() + (60 if asked["after"] is None else asked["after"])
            there = Path(asked["when"] or "/nowhere")
            while time.monotonic() < deadline and not there.exists():
                if select.select(handles, [], [], 0.001)[0]:
                    break
            for number in children:
                os.kill(number, asked["signal"])
            for handle in handles:
                os.close(handle)
        ended = [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in children]
        said.seek(0)
        return {"ended": ended, "said": said.read().decode(errors="replace")}


for line in sys.stdin:
    print(json.dumps(perform(json.loads(line))), flush=True)
