"""The campaign: faults, hostile input and load, drawn from a seed, for as long as you like.

    make campaign MINUTES=10 SEED=0

It interrupts commands at random moments, gives damaged and hostile files to every command that
reads files, and floods servers with requests. It compares each outcome with the promises of
docs/reliability.md, and prints each finding with the command that reproduces it. It writes only
into one folder, and sends signals only to processes that it started.
"""

import argparse
import itertools
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.campaign import faults, hostile_input, server_load
from tests.campaign.commands import import_all
from tests.campaign.examples import build_examples
from tests.campaign.findings import Report

# Arguments: the report, the examples, a folder to work in, random numbers, the deadline.
Part = Callable[[Report, Path, Path, random.Random, float], None]
PARTS: dict[str, Part] = {
    "faults": faults.run_part,
    "input": hostile_input.run_part,
    "server": server_load.run_part,
}
TIME_SHARES = {"faults": 0.5, "input": 0.3, "server": 0.2}


def run_campaign(out: Path, minutes: float, seed: int, parts: list[str]) -> Report:
    """Run parts of the campaign for some minutes, write the report into `out`, and return it."""
    make_room(out)
    import_all()
    examples = out / "examples"
    build_examples(examples)
    report = Report(seed)
    total_share = sum(TIME_SHARES[part] for part in parts)
    for part in parts:
        work = out / part
        work.mkdir()
        deadline = time.monotonic() + 60 * minutes * TIME_SHARES[part] / total_share
        # Each part has its own random numbers, so that it repeats without the others.
        PARTS[part](report, examples, work, random.Random(f"{seed} {part}"), deadline)
    report.write(out)
    return report


def make_room(out: Path) -> None:
    """Remove the folder of an earlier campaign; rename it if it holds findings."""
    if not any(out.glob("*/findings/*")):
        shutil.rmtree(out, ignore_errors=True)
        return
    names = (out.with_name(f"{out.name}-{number}") for number in itertools.count(1))
    kept = next(folder for folder in names if not folder.exists())
    out.rename(kept)
    print(f"{kept}: the findings of an earlier campaign")


def main() -> int:
    """Run the campaign with the options of the command line; return 1 if it found anything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="minutes to run, after the examples are built"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices")
    parser.add_argument("--part", action="append", choices=PARTS, help="run only this part; repeatable")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/campaign"),
        help="folder of all files; an earlier one is replaced, or renamed if it holds findings",
    )
    options = parser.parse_args()
    report = run_campaign(options.out.resolve(), options.minutes, options.seed, options.part or list(PARTS))
    for name, trials in sorted(report.counts.items()):
        print(f"{trials:8,}  {name}")
    print(f"{len(report.findings)} findings; report: {options.out / 'report.json'}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
