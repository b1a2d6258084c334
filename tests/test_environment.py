"""Tests of the setup script: it installs once, and reports problems in one line."""

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
    """The script, loaded for a temporary project, with an install function that only records its argument."""
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
    monkeypatch.setattr(module, "VENV_FOLDER", str(tmp_path / ".venv"))
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


def test_dev_includes_core_but_not_vice_versa(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_main(environment, monkeypatch)
    run_main(environment, monkeypatch, "dev")
    assert run_main(environment, monkeypatch) == ["", "dev"]


def test_a_failed_installation_leaves_no_marker(
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
def test_an_unsupported_python_is_one_line(
    environment: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    version: tuple[int, int, int],
) -> None:
    fake_sys = SimpleNamespace(version_info=version, executable="python", stderr=sys.stderr, exit=sys.exit)
    monkeypatch.setattr(environment, "sys", fake_sys)
    with pytest.raises(SystemExit) as exit_info:
        environment.check_python()
    assert exit_info.value.code == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert "use 3.11 to 3.13" in stderr


def test_a_missing_venv_module_is_one_line(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit) as exit_info:
        environment.check_python()
    assert exit_info.value.code == 2
    assert "apt-get install python3-venv" in capsys.readouterr().err


def test_old_python_versions_can_parse_the_script(environment: ModuleType) -> None:
    source = Path(str(environment.__file__)).read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 4))


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.13.0+cpu", (2, 13, 0)), ("2.9.1", (2, 9, 1)), ("2.11.0a0+git1f", (2, 11, 0, 0))],
)
def test_versions_compare_as_numbers(
    environment: ModuleType, version: str, expected: tuple[int, ...]
) -> None:
    assert environment.version_tuple(version) == expected


@pytest.fixture
def commands(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that would install torch, without the interpreter and its options."""
    recorded: list[str] = []
    monkeypatch.setattr(environment, "run_or_exit", lambda command, _: recorded.append(" ".join(command[3:])))
    monkeypatch.setattr(sys, "platform", "linux")
    return recorded


def test_without_a_gpu_torch_is_installed_without_cuda(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, commands: list[str]
) -> None:
    monkeypatch.setattr(environment, "has_gpu", lambda: False)
    monkeypatch.setattr(environment, "would_install_cuda", lambda _: True)
    environment.install_torch("torch==2.13.0")
    assert "--torch-backend cpu torch==2.13.0" in commands[-1]


@pytest.mark.parametrize(("gpu", "cuda"), [(True, True), (False, False)])
def test_otherwise_pip_installs_torch(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, commands: list[str], gpu: bool, cuda: bool
) -> None:
    monkeypatch.setattr(environment, "has_gpu", lambda: gpu)
    monkeypatch.setattr(environment, "would_install_cuda", lambda _: cuda)
    environment.install_torch("torch==2.13.0")
    assert len(commands) == 1
    assert commands[0].endswith("install torch==2.13.0")


def test_cuda_packages_are_detected_in_a_dry_run(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for names, expected in ((["torch", "sympy"], False), (["torch", "nvidia-cublas"], True)):

        def write_report(command: list[str], _: str, names: list[str] = names) -> None:
            report = {"install": [{"metadata": {"name": name}} for name in names]}
            Path(command[command.index("--report") + 1]).write_text(json.dumps(report), encoding="utf-8")

        monkeypatch.setattr(environment, "run_or_exit", write_report)
        assert environment.would_install_cuda("torch==2.13.0") is expected


@pytest.mark.parametrize("uv_status", [0, 1, None], ids=["uv", "uv fails", "packages of the system"])
def test_an_installed_torch_that_is_new_enough_is_kept(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uv_status: int | None
) -> None:
    """By uv and, where uv fails or would not see an inherited torch, by pip."""
    spec = importlib.util.spec_from_file_location("unpatched", str(environment.__file__))
    assert spec is not None
    assert spec.loader is not None
    unpatched = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(unpatched)
    (tmp_path / "pyproject.toml").write_text('dependencies = ["torch>=2.11"]')
    (tmp_path / "constraints.txt").write_text("rich==15.0.0\ntorch==2.13.0\n")
    if uv_status is None:
        (tmp_path / ".venv" / "pyvenv.cfg").write_text("include-system-site-packages = true\n")
    recorded: list[str] = []
    variables = ("PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT")

    def record(command: list[str], *_: str, **__: object) -> int:
        options = {"--disable-pip-version-check", "--quiet", "--python", str(tmp_path / ".venv/bin/python")}
        recorded.append(" ".join(word for word in command[2:] if word not in options))
        for variable in variables:
            assert Path(os.environ[variable]).read_text(encoding="utf-8") == "rich==15.0.0"
        return (uv_status or 0) if command[2] == "uv" else 0

    monkeypatch.setattr(unpatched, "ROOT", str(tmp_path))
    monkeypatch.setattr(unpatched, "VENV_FOLDER", str(tmp_path / ".venv"))
    monkeypatch.setattr(unpatched, "run_or_exit", record)
    monkeypatch.setattr(unpatched.subprocess, "call", record)
    monkeypatch.setattr(unpatched, "create_environment", lambda: None)
    monkeypatch.setattr(unpatched, "torch_version", lambda _: (2, 12, 1))
    for variable in variables:
        monkeypatch.setenv(variable, "")
    unpatched.install("dev")
    project = f"--editable {tmp_path}[dev]"
    with_uv = ["pip install uv", f"uv pip install {project}"]
    with_pip = [f"pip install {project}"]
    assert recorded == {0: with_uv, 1: [*with_uv, *with_pip], None: with_pip}[uv_status]
