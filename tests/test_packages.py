"""Tests of the package layout: imports of the command line, docstrings, import layers."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import albertine

ROOT = Path(__file__).parent.parent
PACKAGE = Path(albertine.__file__).parent
HEAVY = ("torch", "numpy", "transformers", "tokenizers", "pyarrow", "matplotlib", "huggingface_hub")


def modules_imported_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print('\\n'.join(sys.modules))"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in completed.stdout.split()}


def modules_imported_by_command(*arguments: str) -> set[str]:
    imports = "from albertine.cli import app\nfrom albertine.command import run_command\n"
    return modules_imported_by(f"{imports}assert run_command(app, {list(arguments)}) == 0")


def test_help_imports_nothing_heavy() -> None:
    assert not modules_imported_by_command("--help") & set(HEAVY)


def test_info_imports_nothing_heavy() -> None:
    assert not modules_imported_by_command("info") & set(HEAVY)


def test_every_file_has_a_docstring() -> None:
    for file in PACKAGE.rglob("*.py"):
        assert file.read_text(encoding="utf-8").startswith('"""'), f"{file} has no docstring"


def test_import_layers_list_every_package() -> None:
    packages = {
        file.stem for file in PACKAGE.iterdir() if file.suffix == ".py" or (file / "__init__.py").exists()
    }
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    in_contract = {name.strip() for layer in contract["layers"] for name in re.split("[:|]", layer)}
    assert packages - {"__init__"} == in_contract
