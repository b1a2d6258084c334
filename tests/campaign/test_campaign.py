"""A minute of the campaign finds nothing, and findings are kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.__main__ import make_room
from tests.campaign.findings import REPORT_FILE

_ROOT = Path(__file__).parent.parent.parent


@pytest.mark.long
@pytest.mark.slow
def test_a_minute_of_the_campaign_finds_nothing(tmp_path: Path) -> None:
    # In a new process, because it forks: pytest may have started threads.
    command = [sys.executable, "-m", "tests.campaign", "--minutes", "1", "--out", str(tmp_path / "out")]
    process = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    report = json.loads((tmp_path / "out" / REPORT_FILE).read_text())
    for part in ("faults", "input", "server"):
        assert sum(trials for name, trials in report["counts"].items() if name.startswith(f"{part}: "))


def test_a_campaign_keeps_the_findings_of_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "campaign"
    for number in (1, 2):
        (out / "input" / "findings" / "cases").mkdir(parents=True)
        make_room(out)
        assert not out.exists()
        case = tmp_path / f"campaign-{number}" / "input" / "findings" / "cases"
        assert case.is_dir()
    (out / "input" / "findings").mkdir(parents=True)  # without findings
    make_room(out)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["campaign-1", "campaign-2"]
