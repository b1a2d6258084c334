"""Replays the cases of `tests/campaign/cases/`: hostile files that a command once handled badly.

    python -m tests.campaign.hostile_input.replay [CASE ...]

It prints each problem that it finds, with the command, and returns 1 if there are any.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.campaign.commands import command_text, import_all
from tests.campaign.examples import build_examples
from tests.campaign.hostile_input.derived_examples import build_derived_examples
from tests.campaign.hostile_input.oracle import PATIENT_LIMITS
from tests.campaign.hostile_input.readers import READERS
from tests.campaign.hostile_input.trials import Trial, arguments_of, copy_examples, run_trial, write_file

CASES_FOLDER = Path(__file__).parent.parent / "cases"


def case_files() -> list[Path]:
    """Return the files of all cases; the name of each begins with a key of `READERS` and a dot."""
    return sorted(file for file in CASES_FOLDER.iterdir() if file.name.partition(".")[0] in READERS)


def replay(case: Path, work: Path) -> Iterator[str]:
    """Run the commands that read a case; yield each problem, with the command."""
    name = case.name.partition(".")[0]
    reader = READERS[name]
    for command in reader.commands or ("",):
        trial = Trial(name, command, seeds=(), special="", is_quiet=False, is_process=False)
        folder = work / "trial"
        copy_examples(reader, [work / "derived", work / "examples"], folder)
        write_file(reader, case.read_bytes(), folder)
        arguments = arguments_of(trial, folder)
        problem = run_trial(trial, folder, PATIENT_LIMITS)  # other tests run at the same time
        if problem is not None:
            yield f"{case.name}: {problem}\n  {command_text(arguments, Path())}"


def main() -> int:
    """Replay the cases of the command line, or all cases; return 1 if there are problems."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    cases = [Path(name) for name in sys.argv[1:]] or case_files()
    import_all()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        build_examples(work / "examples")
        build_derived_examples(work / "examples", work / "derived")
        problems = [problem for case in cases for problem in replay(case, work)]
    for problem in problems:
        print(problem)
    print(f"{len(cases)} cases, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
