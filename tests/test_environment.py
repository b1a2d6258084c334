"""The set-up installs once, and says in one line what is missing."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the set-up script over a project of its own; installing only notes what was asked."""
    file = Path(__file__).parent.parent / "tools" / "environment.py"
    spec = importlib.util.spec_from_file_location("environment", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / ".venv").mkdir()
    (tmp_path / "pyproject.toml").write_text("a")
    (tmp_path / "constraints.txt").write_text("b")
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(module, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(module, "installed", [], raising=False)
    monkeypatch.setattr(module, "install", module.installed.append)
    return module


def make(environment: ModuleType, monkeypatch: pytest.MonkeyPatch, *extras: str) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["environment.py", *extras])
    environment.main()
    installed: list[str] = environment.installed
    return installed


def test_it_installs_once(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make(environment, monkeypatch) == [""]
    assert make(environment, monkeypatch) == [""]


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_a_changed_file_installs_again(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str
) -> None:
    make(environment, monkeypatch, "dev")
    (tmp_path / file).write_text("changed")
    assert make(environment, monkeypatch, "dev") == ["dev", "dev"]


def test_development_has_all_that_the_core_needs_and_not_the_other_way(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(environment, monkeypatch)
    make(environment, monkeypatch, "dev")
    assert make(environment, monkeypatch) == ["", "dev"]


def test_a_failed_installation_leaves_no_mark(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise SystemExit(2)

    with monkeypatch.context() as patch:
        patch.setattr(environment, "install", fail)
        with pytest.raises(SystemExit):
            make(environment, monkeypatch)
    assert make(environment, monkeypatch) == [""]


@pytest.mark.parametrize("version", [(3, 10, 4), (3, 14, 0), (2, 7, 18)])
def test_another_python_gets_one_line(
    environment: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    version: tuple[int, int, int],
) -> None:
    old = SimpleNamespace(version_info=version, executable="python", stderr=sys.stderr, exit=sys.exit)
    monkeypatch.setattr(environment, "sys", old)
    with pytest.raises(SystemExit) as ended:
        environment.check_python()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "3.11 to 3.13 is needed" in told


def test_a_missing_venv_module_gets_one_line(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit) as ended:
        environment.check_python()
    assert ended.value.code == 2
    assert "apt-get install python3-venv" in capsys.readouterr().err
