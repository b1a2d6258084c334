"""Runs the commands of a page of the documentation."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE_BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)


def process_environment() -> dict[str, str]:
    """Return the environment variables, with the commands of this Python first on the PATH."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }


def run_page(name: str, folder: Path, replacements: Mapping[str, str]) -> list[str]:
    """Run the blocks of a page in `folder`, with each of the replacements made; return what each prints."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for old, new in replacements.items():
        assert old in text, f"{name} no longer has {old}"
        text = text.replace(old, new)
    outputs = []
    for language, block in CODE_BLOCK.findall(text):
        if "docker " in block or ("curl" in block and shutil.which("curl") is None):
            continue  # tests/deploy runs the lines of the Dockerfile, and sends requests without curl
        # If a command fails, stop the server of its block.
        script = f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{block}"
        command = ["bash", "-euc", script] if language == "sh" else [sys.executable, "-c", block]
        completed = subprocess.run(
            command,
            cwd=folder,
            env=process_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert completed.returncode == 0, block + completed.stdout + completed.stderr
        outputs.append(completed.stdout)
    return outputs


def free_port() -> str:
    """Return a port that no server uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])
