"""Tests of `albertine score`: formats of the data and of the output, errors, nothing half-written."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.task_fixtures import save_untrained_model, write_csv, write_jsonl

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.inference import score as score_module
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard

TEXTS = ["Kalo mi ren.", "tas vu", "", "Kalo mi ren."]


@pytest.fixture
def expected(checkpoint: Path) -> list[dict[str, Any]]:
    """The values of `TEXTS`, in JSON."""
    return [
        {
            "pll": pytest.approx(score.pll, abs=1e-5),
            "pll_per_token": pytest.approx(score.pll_per_token, abs=1e-5),
            "pll_per_word": pytest.approx(score.pll_per_word, abs=1e-5),
            "num_tokens": len(score.tokens),
            "num_words": score.num_words,
        }
        for score in albertine.fill_mask_pipeline(checkpoint, device="cpu").score(TEXTS)
    ]


def run_score(*arguments: str | Path) -> int:
    return run_command(app, ["score", *map(str, arguments), "--device", "cpu"])


def read_jsonl(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_tables_in_every_format_give_a_row_for_each_text(
    checkpoint: Path, tmp_path: Path, expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_module, "_CHUNK_SIZE", 3)
    rows = [{"id": f"row {index}", "sentence": text} for index, text in enumerate(TEXTS)]
    table = write_csv(tmp_path / "texts.csv", rows)
    lines = write_jsonl(tmp_path / "texts.jsonl", rows)
    tabs = tmp_path / "texts.tsv"
    tabs.write_text("id\tsentence\n" + "".join(f"{row['id']}\t{row['sentence']}\n" for row in rows))
    for file in (table, lines, tabs):
        out = tmp_path / f"{file.suffix[1:]}.jsonl"
        assert run_score(checkpoint, "--data", file, "--text", "sentence", "--out", out) == 0
        assert read_jsonl(out) == [{"id": f"row {i}", **values} for i, values in enumerate(expected)]


def test_lines_of_a_text_file_are_numbered_with_the_blank_ones(
    checkpoint: Path, tmp_path: Path, expected: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    content = "\ufeff" + "\r\n".join(TEXTS)
    plain = tmp_path / "texts.txt"
    plain.write_bytes(content.encode())
    compressed = tmp_path / "texts.txt.gz"
    compressed.write_bytes(gzip.compress(content.encode()))
    for file in (plain, compressed):
        assert run_score(checkpoint, "--data", file) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert rows == [{"id": str(index), **expected[index]} for index in (0, 1, 3)]


def test_csv_and_tsv_have_empty_cells_for_a_text_without_tokens(checkpoint: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "texts.csv", [{"text": text} for text in TEXTS])
    for name, delimiter in (("out.csv", ","), ("out.tsv", "\t")):
        assert run_score(checkpoint, "--data", data, "--out", tmp_path / name) == 0
        with (tmp_path / name).open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream, delimiter=delimiter))
        assert list(rows[0]) == ["id", "pll", "pll_per_token", "pll_per_word", "num_tokens", "num_words"]
        assert [row["id"] for row in rows] == ["0", "1", "2", "3"]
        assert float(rows[0]["pll"]) == pytest.approx(float(rows[3]["pll"]))
        assert float(rows[0]["pll"]) < 0
        assert [rows[2][key] for key in ("pll_per_token", "pll_per_word", "num_tokens")] == ["", "", "0"]


def test_token_scores_and_methods(checkpoint: Path, tmp_path: Path) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("kalomiren tas\n")
    pipeline = albertine.fill_mask_pipeline(checkpoint, device="cpu")
    for method in ("token", "word-l2r"):
        out = tmp_path / f"{method}.jsonl"
        settings = albertine.ScoreSettings(data=str(data), method=method, tokens=True, device="cpu")
        assert albertine.score(checkpoint, settings, out) == 1
        (row,), (score,) = read_jsonl(out), pipeline.score(["kalomiren tas"], method=method)
        assert tuple(row["tokens"]) == score.tokens
        assert row["log_likelihoods"] == pytest.approx(score.log_likelihoods, abs=1e-5)
    settings = albertine.ScoreSettings(data=str(data), tokens=True, device="cpu")
    with pytest.raises(InputError, match=r"which need JSON lines; name a .jsonl file"):
        albertine.score(checkpoint, settings, tmp_path / "out.csv")


def test_too_long_texts_stop_or_are_skipped(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "texts.txt", tmp_path / "out.jsonl"
    data.write_text("mi ren\n" + "kalo " * 100 + "\nvu\n")
    assert run_score(checkpoint, "--data", data, "--out", out) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{data}, line 2: a text of " in error
    assert "the model takes 64; fix it, or use --on-error skip" in error
    assert [file.name for file in tmp_path.iterdir()] == ["texts.txt"]
    assert run_score(checkpoint, "--data", data, "--out", out, "--on-error", "skip") == 0
    assert [row["id"] for row in read_jsonl(out)] == ["0", "2"]
    assert "skipped rows: 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"mi\n\xff\n", "line 2: not UTF-8"),
        ("a.txt", "mi\n".encode("utf-16"), "line 1: not UTF-8"),
        ("a.txt", b"mi\0\n", "line 1: zero bytes"),
        ("a.txt", b"\n \n", "no texts"),
        ("a.txt", b"", "no texts"),
        ("a.jsonl", b'{"sentence": "mi"}\n', "no column text; it has sentence; name another with --text"),
        ("a.jsonl", b'{"text": 1}\n', "holds int 1, not text"),
        ("a.json", b"{}", "unsupported format; supported: .txt, .text, .csv"),
        ("a.txt.gz", b"mi", "corrupt"),
    ],
)
def test_wrong_data_gives_one_line(
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    message: str,
) -> None:
    (tmp_path / name).write_bytes(content)
    assert run_score(checkpoint, "--data", tmp_path / name, "--out", tmp_path / "out.jsonl") == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1
    assert message in error[0]
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_wrong_calls_give_one_line(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("mi\n")
    (tmp_path / "old.csv").touch()
    classifier = save_untrained_model(
        tmp_path / "classifier",
        checkpoint,
        HeadSettings("classify"),
        TaskCard("classify", "classify", ("a", "b")),
    )
    calls: tuple[tuple[list[str | Path], str], ...] = (
        ([checkpoint], "--data is missing"),
        ([checkpoint, "--data", tmp_path / "nothing.txt"], "no such file"),
        ([checkpoint, "--data", tmp_path], "is a folder; name a file with texts"),
        ([checkpoint, "--data", data, "--out", tmp_path / "old.csv"], "exists already"),
        ([checkpoint, "--data", data, "--out", tmp_path / "out.txt"], "unknown format"),
        ([checkpoint, "--data", data, "--method", "letters"], "word-l2r"),
        ([classifier, "--data", data], "its head is classify; only a pre-trained model"),
    )
    for arguments, message in calls:
        assert run_score(*arguments) == 2
        assert message in capsys.readouterr().err
    assert (tmp_path / "old.csv").read_bytes() == b""
