"""What an export of `albert-base` takes on disk, and a page on its first visit."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.export.export_fixtures import LABELS
from tests.task_fixtures import reviews, write_csv

from albertine.export.export import export
from albertine.export.npm_packages import NpmPackage
from albertine.export.settings import ExportSettings
from albertine.export.web_page import first_visit_bytes
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import MODEL_PRESETS, HeadSettings
from albertine.settings.export import ExportFormat
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer

_MAX_BYTES = {"fp32": 48_000_000, "int8": 12_500_000}


@pytest.fixture(scope="module")
def base_classifier(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of the size of albert-base, with random weights."""
    settings = replace(MODEL_PRESETS["albert-base"], vocab_size=30_000)
    model = Model(settings, HeadSettings("classify", labels=3), seed=1)
    model.label_names = LABELS
    folder = tmp_path_factory.mktemp("base") / "base"
    save_folder(model, folder, tokenizer=load_tokenizer(checkpoint))
    card = TaskCard("classify", "classify", LABELS, ("accuracy",), max_length=64, columns={"text": "review"})
    card.write(folder)
    return folder


def _int8(to: ExportFormat, tmp_path: Path) -> ExportSettings:
    rows = str(write_csv(tmp_path / "rows.csv", reviews(1, 16)))
    return ExportSettings(to=to, precision="int8", data=rows, text="review", label="stars")


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_albert_base_has_its_weights_once_on_disk(
    to: ExportFormat, precision: str, base_classifier: Path, tmp_path: Path
) -> None:
    settings = _int8(to, tmp_path) if precision == "int8" else ExportSettings(to=to)
    export(base_classifier, tmp_path / "out", settings, force=precision == "int8")
    size = sum(file.stat().st_size for file in (tmp_path / "out").glob("model.*"))
    assert 0.9 * _MAX_BYTES[precision] < size <= _MAX_BYTES[precision]


@pytest.mark.slow
def test_the_first_visit_of_albert_base_is_small(
    base_classifier: Path, archives: dict[NpmPackage, Path], tmp_path: Path
) -> None:
    export(base_classifier, tmp_path / "out", ExportSettings(to="web", precision="int8"), force=True)
    _, compressed = first_visit_bytes(tmp_path / "out")
    assert compressed <= 18_000_000
