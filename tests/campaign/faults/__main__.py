"""Repeats one trial of faults, as a finding names it.

python -m tests.campaign.faults kill "corpus build" --seed 17 --out build/fault
"""

import argparse
import shutil
import signal
import sys
from pathlib import Path

from tests.campaign.examples import build_examples
from tests.campaign.faults.damage import all_damages
from tests.campaign.faults.run import FAULTS, FaultTrials, import_all_for_faults
from tests.campaign.faults.writers import WRITERS
from tests.campaign.findings import Report


def main() -> int:
    """Repeat a trial; return 1 if it finds something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fault", help=f"a kind of damage, or one of {', '.join(FAULTS)}")
    parser.add_argument("command", help=f"a command that reads, or one of {', '.join(WRITERS)}")
    parser.add_argument("--file", help="the file to damage")
    parser.add_argument("--seed", type=int, required=True, help="seed of the trial")
    parser.add_argument("--fresh", action="store_true", help="start a new Python process")
    parser.add_argument("--out", type=Path, default=Path("build/fault"), help="folder, which is replaced")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import_all_for_faults()
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    build_examples(out / "examples")
    report = Report(options.seed)
    trials = FaultTrials(report, out / "examples", out / "faults")
    if options.file is None:
        trials.run_fault(options.fault, options.command, options.seed, is_fresh=options.fresh)
    else:
        wanted = (options.fault, options.command, options.file)
        damage = next(
            one for one in all_damages(trials.examples) if (one.kind, one.reader.command, one.file) == wanted
        )
        trials.run_damage(damage, options.seed)
    print(f"{len(report.findings)} findings; {dict(report.counts)}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
