"""Commands accept or refuse the hostile files that they once handled badly."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.hostile_input.readers import READERS
from tests.campaign.hostile_input.replay import CASES_FOLDER, case_files

_ROOT = Path(__file__).parent.parent.parent


def test_every_case_names_a_reader() -> None:
    others = {file.name for file in CASES_FOLDER.iterdir()} - {file.name for file in case_files()}
    assert others == {"README.md"}, f"not named after one of the readers {', '.join(READERS)}"


@pytest.mark.long
@pytest.mark.slow
def test_every_case_is_accepted_or_refused_in_one_line() -> None:
    # In a new process, because it forks: pytest may have started threads.
    process = subprocess.run(
        [sys.executable, "-m", "tests.campaign.hostile_input.replay"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
