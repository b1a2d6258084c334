"""The house is what its plan says: floors, light entrance, no hidden set-up."""

import subprocess
import sys
import tomllib
from pathlib import Path

import albertine

ROOT = Path(__file__).parent.parent
PACKAGE = Path(albertine.__file__).parent
HEAVY = ("torch", "numpy", "transformers", "tokenizers", "pyarrow", "matplotlib", "huggingface_hub", "grain")


def modules_imported_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_help_imports_nothing_heavy() -> None:
    run = "from albertine.cli import app\nfrom albertine.command import run\nassert run(app, ['--help']) == 0"
    assert not modules_imported_by(run) & set(HEAVY)


def test_info_imports_nothing_heavy() -> None:
    run = "from albertine.cli import app\nfrom albertine.command import run\nassert run(app, ['info']) == 0"
    assert not modules_imported_by(run) & set(HEAVY)


def test_every_file_has_a_docstring() -> None:
    for file in PACKAGE.rglob("*.py"):
        assert file.read_text(encoding="utf-8").startswith('"""'), f"{file} has no docstring"


def test_import_layers_list_every_package() -> None:
    packages = {
        file.stem for file in PACKAGE.iterdir() if file.suffix == ".py" or (file / "__init__.py").exists()
    }
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    in_contract = {room.strip() for floor in contract["layers"] for room in floor.split(":")}
    assert packages - {"__init__"} == in_contract


def test_package_drawing_is_complete() -> None:
    drawing = (ROOT / "docs" / "house.svg").read_text(encoding="utf-8")
    for package in PACKAGE.iterdir():
        if package.suffix == ".py" and package.stem not in ("__init__", "__main__", "version"):
            assert f">{package.name}<" in drawing, f"docs/house.svg lacks {package.name}"
        if (package / "__init__.py").exists():
            assert f">{package.name}/<" in drawing, f"docs/house.svg lacks {package.name}/"
