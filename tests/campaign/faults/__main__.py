"""Repeats one trial of a fault; a finding names the options.

python -m tests.campaign.faults kill "corpus build" --seed 17 --out build/fault
"""

import argparse
import shutil
import signal
import sys
from pathlib import Path

from tests.campaign.examples import build_examples
from tests.campaign.faults.damage import all_damages
from tests.campaign.faults.run import FAULTS, FaultRunner, import_all_for_faults
from tests.campaign.faults.writing_commands import WRITING_COMMANDS
from tests.campaign.findings import Report


def main() -> int:
    """Repeat a trial; return 1 if it finds something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fault", help=f"one of {', '.join(FAULTS)}; with --file, a kind of damage")
    parser.add_argument(
        "command", help=f"one of {', '.join(WRITING_COMMANDS)}; with --file, the arguments of a command"
    )
    parser.add_argument("--file", help="file of the examples to damage")
    parser.add_argument("--seed", type=int, required=True, help="seed of the trial")
    parser.add_argument("--fresh", action="store_true", help="run the command in a new Python process")
    parser.add_argument(
        "--out", type=Path, default=Path("build/fault"), help="folder of all files; it is replaced"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import_all_for_faults()
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    build_examples(out / "examples")
    report = Report(options.seed)
    runner = FaultRunner(report, out / "examples", out / "faults")
    if options.file is None:
        runner.run_fault(options.fault, options.command, options.seed, is_fresh=options.fresh)
    else:
        damages = {(each.kind, each.reader.command, each.file): each for each in all_damages(runner.examples)}
        runner.run_damage(damages[options.fault, options.command, options.file], options.seed)
    print(f"{len(report.findings)} findings; {dict(report.counts)}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
