"""Stops and kills commands that write before each of their file operations, in turn.

    python -m tests.campaign.faults.every_operation [--signals TERM] [--share 1/2] [COMMAND ...]

The campaign draws such moments at random and finds rare defects late; this tries each one, in some hours on
one core. It prints each problem, and returns 1 if there are any.
"""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.campaign.examples import build_examples
from tests.campaign.faults.interruptions import signal_before
from tests.campaign.faults.promises import BrokenPromise
from tests.campaign.faults.run import import_all_for_faults, share_of
from tests.campaign.faults.trial import FaultTrial, run_undisturbed
from tests.campaign.faults.unfinished import make_unfinished_examples
from tests.campaign.faults.writing_commands import WRITING_COMMANDS

_SIGNALS = {"TERM": signal.SIGTERM, "INT": signal.SIGINT, "KILL": signal.SIGKILL}
_TOO_SLOW = ("demo",)


def _try_operations(name: str, signals: list[str], work: Path, share: slice) -> int:
    """Signal a command before each operation of a share of them; return the number of problems."""
    writer, folder = WRITING_COMMANDS[name], work / "trial"
    reference = run_undisturbed(writer, work / "examples", folder)
    problems = 0
    for operation in range(reference.operations)[share]:
        for number in map(_SIGNALS.__getitem__, signals):
            trial = FaultTrial(writer, folder, work / "examples", reference, random.Random(0))
            try:
                signal_before(trial, operation, number)
            except BrokenPromise as broken:
                problems += 1
                print(f"FOUND {name}: {number.name} before operation {operation}: {broken}", flush=True)
    print(f"{reference.operations:8,} operations, {problems} problems: {name}", flush=True)
    return problems


def main() -> int:
    """Try all operations of all commands, or of those of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [name for name in WRITING_COMMANDS if name not in _TOO_SLOW]
    parser.add_argument("commands", nargs="*", help=f"some of {', '.join(names)}; default: all")
    parser.add_argument("--signals", nargs="+", choices=_SIGNALS, default=["TERM", "KILL"])
    parser.add_argument(
        "--share", type=share_of, default="1/1", help="I/N: every N-th operation, from the I-th on"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import_all_for_faults()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        build_examples(work / "examples")
        make_unfinished_examples(work / "examples", work / "trial")
        problems = sum(
            _try_operations(name, options.signals, work, options.share) for name in options.commands or names
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
