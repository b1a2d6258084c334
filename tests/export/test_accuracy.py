"""Tests of the rows that calibrate an export in int8, and of the points that it may lose."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.task_fixtures import save_untrained_model, write_csv

from albertine.errors import InputError, WorkError
from albertine.export.accuracy import CALIBRATION_ROWS, Accuracy, Int8Scores, sample_different, sample_rows
from albertine.export.embedding_accuracy import create_embedding_judge
from albertine.export.judges import create_judge
from albertine.export.result import MAX_LOSS, SEARCH_ABOVE_LOSS, check_loss
from albertine.export.settings import ExportSettings
from albertine.inference.embedding import make_embedding_pipeline, modules_of_folder
from albertine.interop.load import load_checkpoint, load_encoder
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer

SHORT, LONG = "ka", "ka lo bra mi ka lo bra mi"


@pytest.mark.parametrize(("limit", "lost"), [(MAX_LOSS, 2), (SEARCH_ABOVE_LOSS, 1)])
def test_a_loss_of_exactly_a_limit_is_not_more(limit: float, lost: int) -> None:
    def scores(right: int, lost: int) -> Int8Scores:
        before, after = (Accuracy(n / 200, str(n), 200, "examples") for n in (right, right - lost))
        return Int8Scores(before, after)

    for right in range(lost + 1, 201):
        assert scores(right, lost).loss <= limit < scores(right, lost + 1).loss
    check_loss(scores(168, 2), "out", force=False)
    with pytest.raises(WorkError, match=r"loses 1\.5 points"):
        check_loss(scores(168, 3), "out", force=False)


def test_a_sample_is_drawn_from_all_rows() -> None:
    rows = sample_rows(iter(range(30_000)), 300)
    assert rows == sample_rows(iter(range(30_000)), 300)
    assert len(set(rows)) == 300
    for start in (0, 10_000, 20_000):
        assert 70 < sum(start <= row < start + 10_000 for row in rows) < 130
    assert sorted(sample_rows(range(5), 300)) == [0, 1, 2, 3, 4]


def test_a_sample_of_different_texts_does_not_depend_on_repetitions() -> None:
    texts = [str(number % 1_000 if number % 10 == 0 else 0) for number in range(100_000)]
    sample = sample_different(iter(texts), 50)
    assert len(set(sample)) == 50
    assert sample == sample_different(reversed(texts), 50)
    assert sorted(sample_different(["b", "a", "b"], 50)) == ["a", "b"]


def test_calibration_sees_all_of_a_sorted_file(classifier: Path, tmp_path: Path) -> None:
    rows = [{"review": text} for text in (SHORT, LONG) for _ in range(2 * CALIBRATION_ROWS)]
    table = write_csv(tmp_path / "sorted.csv", rows)
    settings = ExportSettings(to="openvino", precision="int8", calibrate=table)
    judge = create_judge("model", classifier, load_checkpoint(classifier), settings, must_judge=False)
    assert judge is not None
    lengths = [length for strip in judge.calibration_strips() for length in strip.lengths]
    assert len(lengths) == CALIBRATION_ROWS
    assert CALIBRATION_ROWS / 3 < sum(length == max(lengths) for length in lengths) < 2 * CALIBRATION_ROWS / 3


def test_calibration_needs_no_ids(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = TaskCard("classify", "classify", ("bad", "good"), max_length=64, columns={"id": "key"})
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify"), card)
    table = write_csv(tmp_path / "rows.csv", [{"text": SHORT}, {"text": LONG}])
    settings = ExportSettings(to="openvino", precision="int8", calibrate=table)
    judge = create_judge("model", model, load_checkpoint(model), settings, must_judge=False)
    assert judge is not None
    assert sum(len(strip.lengths) for strip in judge.calibration_strips()) == 2
    assert "no column key" not in capsys.readouterr().err


def test_other_labels_are_refused_before_the_work(classifier: Path, tmp_path: Path) -> None:
    rows = [{"review": SHORT, "label": label} for label in ("neg", "nag")]
    settings = ExportSettings(
        to="onnx", precision="int8", data=str(write_csv(tmp_path / "dev.csv", rows)), text="review"
    )
    with pytest.raises(InputError, match=r"dev\.csv, line \d: label \w+ is not one of the model's"):
        create_judge("model", classifier, load_checkpoint(classifier), settings, must_judge=True)


def test_texts_for_vectors_are_drawn_from_all_of_a_sorted_file(checkpoint: Path, tmp_path: Path) -> None:
    texts = [f"{text} {'lo ' * (number % 7)}{number}" for text in (SHORT, LONG) for number in range(600)]
    table = write_csv(tmp_path / "sorted.csv", [{"text": text} for text in texts])
    settings = replace(ExportSettings(to="openvino", precision="int8", task="embed"), data=str(table))
    modules = modules_of_folder(checkpoint)
    source = make_embedding_pipeline(modules, load_encoder(checkpoint), EngineOptions("cpu", "fp32"))
    judge = create_embedding_judge(source, settings, must_judge=True)
    assert judge is not None
    lengths = [length for strip in judge.calibration_strips() for length in strip.lengths]
    assert len(lengths) == CALIBRATION_ROWS
    middle = (min(lengths) + max(lengths)) / 2
    assert CALIBRATION_ROWS / 4 < sum(length > middle for length in lengths) < 3 * CALIBRATION_ROWS / 4


def test_columns_are_those_of_the_calibration_beside_an_official_layout(
    checkpoint: Path, tmp_path: Path
) -> None:
    card = TaskCard("sst-2", "classify", ("0", "1"), ("accuracy",), max_length=32)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=2), card)
    folder = tmp_path / "glue" / "SST-2"
    folder.mkdir(parents=True)
    (folder / "dev.tsv").write_text("sentence\tlabel\nka lo\t1\nmi\t0\n", encoding="utf-8")
    table = write_csv(tmp_path / "rows.csv", [{"review": "ka lo bra"}, {"review": "mi"}])
    settings = ExportSettings(
        to="openvino", precision="int8", data=str(tmp_path / "glue"), calibrate=table, text="review"
    ).with_explicit_keys({"to", "precision", "data", "split", "calibrate", "text"})
    judge = create_judge("model", model, load_checkpoint(model), settings, must_judge=True)
    assert judge is not None
    assert sum(len(strip.lengths) for strip in judge.calibration_strips()) == 2
    assert judge.score_source().count == 2


def test_texts_of_a_pretrained_model_have_masks(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("ka lo mi bra\n" * 9 + "ka ka lo lo mi mi\n", encoding="utf-8")
    settings = ExportSettings(to="openvino", precision="int8", calibrate=tmp_path / "texts.txt")
    judge = create_judge("model", checkpoint, load_checkpoint(checkpoint), settings, must_judge=False)
    assert judge is not None
    assert not judge.has_labels
    tokens = torch.cat([strip.tokens for strip in judge.calibration_strips()])
    special = load_tokenizer(checkpoint).special_ids
    assert (tokens == special.cls).sum() == 2  # two different texts
    assert (tokens == special.mask).any()
