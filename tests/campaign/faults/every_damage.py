"""Damages every file that a command reads in every way, in turn.

    python -m tests.campaign.faults.every_damage [--seed 0] [--share 1/2] [COMMAND ...]

The campaign draws such damages at random and finds rare defects late; this tries each one, in about a
quarter of an hour on one core. It prints each finding with the command that repeats it, and returns 1 if
there are any.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.campaign.examples import build_examples
from tests.campaign.faults.damage import all_damages
from tests.campaign.faults.run import FaultRunner, import_all_for_faults, share_of
from tests.campaign.findings import Report

_PROGRESS_EVERY = 100  # damages


def main() -> int:
    """Try all damages, or those of the commands of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", help="beginnings of the commands that read; default: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of the positions and sizes of the damages")
    parser.add_argument("--share", type=share_of, default="1/1", help="I/N: run the I-th of N equal shares")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import_all_for_faults()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        build_examples(work / "examples")
        report = Report(options.seed)
        runner = FaultRunner(report, work / "examples", work / "faults")
        prefixes = tuple(options.commands) or ("",)
        damages = [each for each in all_damages(runner.examples) if each.reader.command.startswith(prefixes)]
        damages = damages[options.share]
        if not damages:
            parser.error("no damages; check the names of the commands and the share")
        for number, damage in enumerate(damages, 1):
            runner.run_damage(damage, options.seed)
            if number % _PROGRESS_EVERY == 0:
                print(f"{number:8,} damages, {len(report.findings)} findings", flush=True)
    print(f"{sum(report.counts.values()):8,} damages, {len(report.findings)} findings")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
