"""The public face: the lines of the README, as a person types them."""

import subprocess
import sys
from pathlib import Path

import pytest

import albertine

ROOT = Path(__file__).parent.parent


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    code = (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", code + "\nassert hidden.shape == (8, 768)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "my-albert" / "model.safetensors").exists()


def test_all_exports_exist() -> None:
    for name in albertine.__all__:
        assert getattr(albertine, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = albertine.nothing
