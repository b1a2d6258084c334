"""The set-up installs once, and says in one line what is missing."""

import ast
import importlib.util
import json
import os
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
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    (tmp_path / "pyproject.toml").write_text("a")
    (tmp_path / "constraints.txt").write_text("b")
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(module, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(module, "installed", [], raising=False)
    monkeypatch.setattr(module, "install", module.installed.append)
    return module


def run_main(environment: ModuleType, monkeypatch: pytest.MonkeyPatch, *extras: str) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["environment.py", *extras])
    environment.main()
    installed: list[str] = environment.installed
    return installed


def test_it_installs_once(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(environment, monkeypatch) == [""]
    assert run_main(environment, monkeypatch) == [""]


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_a_changed_file_installs_again(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str
) -> None:
    run_main(environment, monkeypatch, "dev")
    (tmp_path / file).write_text("changed")
    assert run_main(environment, monkeypatch, "dev") == ["dev", "dev"]


def test_development_has_all_that_the_core_needs_and_not_the_other_way(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_main(environment, monkeypatch)
    run_main(environment, monkeypatch, "dev")
    assert run_main(environment, monkeypatch) == ["", "dev"]


def test_a_failed_installation_leaves_no_mark(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise SystemExit(2)

    with monkeypatch.context() as patch:
        patch.setattr(environment, "install", fail)
        with pytest.raises(SystemExit):
            run_main(environment, monkeypatch)
    assert run_main(environment, monkeypatch) == [""]


@pytest.mark.parametrize("version", [(3, 10, 4), (3, 14, 0)])
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


def test_old_pythons_can_parse_the_script(environment: ModuleType) -> None:
    source = Path(str(environment.__file__)).read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 4))


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.13.0+cpu", (2, 13, 0)), ("2.9.1", (2, 9, 1)), ("2.11.0a0+git1f", (2, 11, 0, 0))],
)
def test_versions_compare_as_numbers(
    environment: ModuleType, version: str, expected: tuple[int, ...]
) -> None:
    assert environment.numbers(version) == expected


@pytest.fixture
def commands(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the commands that installing torch runs."""
    noted: list[str] = []
    monkeypatch.setattr(environment, "run", lambda command, _: noted.append(" ".join(command[3:])))
    monkeypatch.setattr(sys, "platform", "linux")
    return noted


def test_without_a_gpu_torch_comes_without_cuda(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, commands: list[str]
) -> None:
    monkeypatch.setattr(environment, "has_gpu", lambda: False)
    monkeypatch.setattr(environment, "brings_cuda", lambda _: True)
    environment.install_torch("torch==2.13.0")
    assert "--torch-backend cpu torch==2.13.0" in commands[-1]


@pytest.mark.parametrize(("gpu", "cuda"), [(True, True), (False, False)])
def test_with_a_gpu_or_a_build_without_cuda_pip_is_enough(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, commands: list[str], gpu: bool, cuda: bool
) -> None:
    monkeypatch.setattr(environment, "has_gpu", lambda: gpu)
    monkeypatch.setattr(environment, "brings_cuda", lambda _: cuda)
    environment.install_torch("torch==2.13.0")
    assert len(commands) == 1
    assert commands[0].endswith("install torch==2.13.0")


def test_cuda_packages_are_seen_in_what_pip_would_install(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for names, brings in ((["torch", "sympy"], False), (["torch", "nvidia-cublas"], True)):

        def answer(command: list[str], _: str, names: list[str] = names) -> None:
            report = {"install": [{"metadata": {"name": name}} for name in names]}
            Path(command[command.index("--report") + 1]).write_text(json.dumps(report), encoding="utf-8")

        monkeypatch.setattr(environment, "run", answer)
        assert environment.brings_cuda("torch==2.13.0") is brings


def test_a_torch_that_is_there_and_new_enough_stays(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = importlib.util.spec_from_file_location("fresh", str(environment.__file__))
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    (tmp_path / "pyproject.toml").write_text('dependencies = ["torch>=2.11"]')
    (tmp_path / "constraints.txt").write_text("rich==15.0.0\ntorch==2.13.0\n")
    noted: list[str] = []

    def note(command: list[str], _: str) -> None:
        noted.append(" ".join(command))
        noted.append(Path(os.environ["PIP_CONSTRAINT"]).read_text(encoding="utf-8"))

    for name, value in (("ROOT", str(tmp_path)), ("VENV", str(tmp_path / ".venv")), ("run", note)):
        monkeypatch.setattr(fresh, name, value)
    monkeypatch.setattr(fresh, "make_environment", lambda: None)
    monkeypatch.setattr(fresh, "torch_version", lambda _: (2, 12, 1))
    monkeypatch.setenv("PIP_CONSTRAINT", "")
    fresh.install("dev")
    assert len(noted) == 2
    assert noted[0].endswith(f"--editable {tmp_path}[dev]")
    assert noted[1] == "rich==15.0.0"
