"""A classifier, rows that it labels itself, and its export; the npm packages of a page."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.task_fixtures import MODEL, reviews, write_csv

from albertine.errors import AlbertineError
from albertine.export.export import export
from albertine.export.npm_packages import NpmPackage, package_archives
from albertine.export.settings import ExportSettings
from albertine.inference.pipeline import pipeline
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer

LABELS = ("blue", "green", "red")
TEXTS = [row["review"] for row in reviews(3, 40)]


@pytest.fixture(scope="session")
def classifier(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with weights so large that its predictions differ."""
    model, generator = (
        Model(replace(MODEL, layers=5), HeadSettings("classify", labels=3), seed=3),
        torch.Generator().manual_seed(2),
    )
    model.label_names = LABELS
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.15)
    tokenizer = load_tokenizer(checkpoint)
    strip = Strip.from_sequences([tokenizer.encode_with_special_tokens(text)[0][:60] for text in TEXTS])
    with torch.no_grad():  # so that no label is always the most probable one
        model.head.out.bias -= model(strip).logits.mean(0)  # type: ignore[union-attr]
    folder = tmp_path_factory.mktemp("classifier") / "classifier"
    save_folder(model, folder, tokenizer=tokenizer)
    TaskCard("classify", "classify", LABELS, ("accuracy",), max_length=64, columns={"text": "review"}).write(
        folder
    )
    return folder


@pytest.fixture(scope="session")
def data(classifier: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose labels are the predictions of the classifier, so that its accuracy is 1."""
    labels = [prediction["label"] for prediction in pipeline(classifier, precision="fp32")(TEXTS)]
    rows = [{"review": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)]
    return write_csv(tmp_path_factory.mktemp("data") / "rows.csv", rows)


@pytest.fixture(scope="session")
def exported(classifier: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classifier for ONNX Runtime in fp32."""
    folder = tmp_path_factory.mktemp("exported") / "onnx"
    export(classifier, folder, ExportSettings())
    return folder


@pytest.fixture(scope="session")
def archives() -> dict[NpmPackage, Path]:
    """The npm packages, from the cache or fetched."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    try:
        return package_archives(None)
    except AlbertineError as error:
        pytest.skip(str(error))
