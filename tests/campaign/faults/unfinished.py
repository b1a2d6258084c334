"""Examples of unfinished runs and corpora, whose commands were killed."""

import os
import shutil
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from tests.campaign.commands import Limits, run_forked
from tests.campaign.faults.operations import OperationCounter, install_hook
from tests.campaign.faults.trial import copy_inputs
from tests.campaign.faults.writing_commands import WRITING_COMMANDS

# For each example: the command, which is killed when it creates a file or folder with this name.
UNFINISHED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "unfinished-run": ("pretrain", "step-00000006"),
        "unfinished-corpus": ("corpus build", "manifest.json"),
        "unfinished-finetuning": ("finetune", "step-00000004"),
    }
)


def resume_command(name: str) -> str:
    """Return the command that resumes an unfinished example."""
    return WRITING_COMMANDS[UNFINISHED[name][0]].command.replace("--out out", f"--out {name}")


def make_unfinished_examples(examples: Path, folder: Path) -> None:
    """Add the unfinished runs and corpora to the examples; their commands run in `folder`, emptied first."""
    for name, (command, last_name) in UNFINISHED.items():
        copy_inputs(WRITING_COMMANDS[command].inputs, examples, folder)

        def kill(event: str, path: Path, last_name: str = last_name) -> None:
            if event in ("open", "os.mkdir") and last_name in path.name:
                os.kill(os.getpid(), signal.SIGKILL)

        hook = partial(install_hook, folder, OperationCounter(), 0, kill)
        outcome = run_forked(resume_command(name).split(), folder, Limits(seconds=120), in_child=hook)
        if outcome.status != -signal.SIGKILL:
            raise SystemExit(f"{name}: status {outcome.status}: {outcome.stderr.decode()}")
        shutil.copytree(folder / name, examples / name)
