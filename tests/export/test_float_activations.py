"""Activations with outliers, whose quantization spoils a model in int8, stay in floating point."""

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from experiments.outliers import add_outliers
from tests.export.export_fixtures import LABELS, TEXTS
from tests.task_fixtures import MODEL, reviews, write_csv

from albertine.checksums import file_checksum
from albertine.engines.exported_folder import open_export
from albertine.export import judged_int8
from albertine.export.accuracy import Accuracy, Judge
from albertine.export.export import export
from albertine.export.judged_int8 import quantize_judged
from albertine.export.quantizers import find_quantizers, write_without
from albertine.export.settings import ExportSettings
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.inference.evaluate import evaluate
from albertine.inference.pipeline import pipeline
from albertine.inference.settings import EvaluateSettings
from albertine.interop.export_record import read_export_record
from albertine.interop.load import load_checkpoint
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.settings.export import ExportFormat
from albertine.tasks.checkpoint_card import read_card
from albertine.text.tokenizer import load_tokenizer

OUTLIER = 1000.0


@pytest.fixture(scope="module")
def model_with_outliers(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuned model; in each layer, two values are multiplied by a thousand, and divided afterwards.

    In int8, the other values of these activations become 0. In fp32 nothing changes.
    """
    folder = tmp_path_factory.mktemp("outliers")
    settings = FinetuneSettings(
        task="classify",
        data=str(write_csv(folder / "train.csv", reviews(1, 200))),
        dev=str(write_csv(folder / "dev.csv", reviews(2, 60))),
        text="review",
        label="stars",
        device="cpu",
        train=FinetuneTrainSettings(steps=100, lr=3e-3, batch_size=16, optimizer="adamw"),
    )
    start = Model(replace(MODEL, norm_first=True), HeadSettings("pretrain"), seed=1)
    save_folder(start, folder / "start", tokenizer=load_tokenizer(checkpoint))
    finetune(str(folder / "start"), folder / "run", settings)
    model = load_checkpoint(folder / "run")
    add_outliers(model, OUTLIER)
    save_folder(model, folder / "model", tokenizer=load_tokenizer(folder / "run"))
    read_card(folder / "run", model.settings, model.head_settings, model.label_names).write(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "rows.csv", reviews(3, 60))


@pytest.mark.slow
@pytest.mark.parametrize("exits", [False, True])
def test_an_activation_with_outliers_stays_in_floating_point(
    exits: bool, model_with_outliers: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ExportSettings(precision="int8", data=str(data), exits=exits)
    kept = export(model_with_outliers, tmp_path / "kept", settings, force=True)
    monkeypatch.setattr(judged_int8, "SEARCH_ABOVE_LOSS", 100.0)
    quantized = export(model_with_outliers, tmp_path / "quantized", settings, force=True)
    assert kept.scores is not None
    assert quantized.scores is not None
    assert quantized.scores.loss > 20
    assert kept.scores.loss < 5
    assert 1 <= kept.scores.float_activations < kept.scores.activations
    assert kept.num_bytes <= quantized.num_bytes  # the weights are the same
    shown = f"{kept.scores.float_activations} of {kept.scores.activations} activations in floating point"
    assert shown in (tmp_path / "kept" / "README.md").read_text(encoding="utf-8")
    (evaluation,) = evaluate(tmp_path / "kept", EvaluateSettings(data=str(data)))
    assert evaluation.primary_metric == kept.scores.after.score


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_all_quantizers_can_be_removed(
    to: ExportFormat, classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_csv(tmp_path / "rows.csv", reviews(3, 60))
    monkeypatch.setattr(judged_int8, "SEARCH_ABOVE_LOSS", 100.0)
    export(
        classifier,
        tmp_path / "out",
        ExportSettings(to=to, precision="int8", data=str(data), label="stars"),
        force=True,
    )
    before = mean_error(classifier, tmp_path / "out")
    quantizers = find_quantizers(tmp_path / "out", to)
    assert len(quantizers) >= 1 + 4 * 5 + 1  # embedding, layers and head
    original = shutil.copytree(tmp_path / "out", tmp_path / "original")
    write_without(original, tmp_path / "out", to, quantizers[:1])
    assert find_quantizers(tmp_path / "out", to) == quantizers[1:]
    write_without(original, tmp_path / "out", to, quantizers)
    assert find_quantizers(tmp_path / "out", to) == []
    update_record(tmp_path / "out")
    assert mean_error(classifier, tmp_path / "out") < 1.1 * before  # the rest is of the weights


def update_record(folder: Path) -> None:
    """Write the checksums of changed files into the record of an export."""
    record = read_export_record(folder)
    checksums = {name: file_checksum(folder / name) for name in record.checksums}
    replace(record, checksums=checksums).write(folder)


def mean_error(source: Path, exported: Path) -> float:
    """Return the mean difference of probabilities from those of the source."""
    expected, actual = (pipeline(folder, precision="fp32")(TEXTS) for folder in (source, exported))
    return statistics.fmean(
        abs(before["probabilities"][name] - after["probabilities"][name])
        for before, after in zip(expected, actual, strict=True)
        for name in LABELS
    )


class ScriptedJudge(Judge):
    """Gives scores in a fixed order."""

    def __init__(self, scores: Sequence[float]):
        self._scores = list(scores)

    def calibration_strips(self) -> Sequence[Strip]:
        return [Strip.from_sequences([[2, 7, 3]])]

    def score_source(self) -> Accuracy:
        return Accuracy(1.0, "100", 100, "examples")

    def score_export(self, folder: Path) -> Accuracy:
        assert (folder / "model.onnx").is_file()
        return Accuracy(self._scores.pop(0), "", 100, "examples")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.996], 0),  # high enough
        ([0.90, 0.94, 0.999], 2),  # the first number that is high enough
        ([0.90, 0.94, 0.97, 0.96, 0.95, 0.95, 0.95], 2),  # never high enough: the best one
        ([0.90, 0.80, 0.70, 0.60, 0.50, 0.50, 0.50], 0),
    ],
)
def test_the_search_keeps_as_many_in_floating_point_as_the_score_needs(
    scores: list[float], expected: int, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(exported, tmp_path / "out")
    is_searched = len(scores) > 1
    result = quantize_judged(
        folder,
        ["model.onnx"],
        ExportSettings(precision="int8"),
        ScriptedJudge(scores),
        lambda folder, strips: (open_export(folder).logits(strip) for strip in strips),
        name="out",
        force=True,
    )
    assert result is not None
    assert result.float_activations == expected
    message = "out: int8 loses 10.0 points on 100 examples (some hundred measure it better); measuring which"
    assert (message in " ".join("".join(capsys.readouterr()).split())) == is_searched
    assert len(find_quantizers(folder, "onnx")) == 1 + 4 * 5 + 2 - expected  # embedding, layers, head
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in exported.iterdir())
