"""Tests of `albertine embed`: formats, options, truncation, errors, nothing half-written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.task_fixtures import write_csv, write_jsonl

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.inference import embedding

TEXTS = ["Kalo mi ren.", "tas vu", "", "Kalo mi ren.", "mi " * 100]


@pytest.fixture
def expected(checkpoint: Path) -> Any:
    """The vectors of `TEXTS`."""
    return albertine.pipeline(checkpoint, task="embed", device="cpu")(TEXTS)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [{"key": f"row {index}", "sentence": text} for index, text in enumerate(TEXTS)]
    return write_csv(tmp_path / "texts.csv", rows)


def run_embed(*arguments: str | Path) -> int:
    return run_command(app, ["embed", *map(str, arguments), "--device", "cpu"])


@pytest.mark.parametrize("chunk_size", [2, 4096])
def test_npy_has_the_vectors_in_the_order_of_the_file(
    checkpoint: Path,
    data: Path,
    tmp_path: Path,
    expected: Any,
    chunk_size: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(embedding, "_CHUNK_SIZE", chunk_size)
    out = tmp_path / "new" / "vectors.npy"
    assert run_embed(checkpoint, "--data", data, "--text", "sentence", "--out", out) == 0
    error = capsys.readouterr().err
    assert f"{out}: 5 vectors of 32 values" in error
    assert f"{data}: 1 of 5 examples truncated; tokens cut off: 238 on average" in error
    vectors = np.load(out)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert np.load(out, mmap_mode="r").shape == (5, 32)


def test_json_lines_have_ids(
    checkpoint: Path, data: Path, tmp_path: Path, expected: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = ("--text", "sentence", "--id", "key")
    assert run_embed(checkpoint, "--data", data, *columns, "--out", tmp_path / "v.jsonl") == 0
    written = (tmp_path / "v.jsonl").read_text(encoding="utf-8")
    capsys.readouterr()
    assert run_embed(checkpoint, "--data", data, *columns) == 0
    assert capsys.readouterr().out == written
    rows = [json.loads(line) for line in written.splitlines()]
    assert [row["id"] for row in rows] == [f"row {index}" for index in range(5)]
    np.testing.assert_allclose([row["embedding"] for row in rows], expected, atol=1e-7)


def test_options_and_the_function(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "a.npy", tmp_path / "b.npy"
    options = ("--text", "sentence", "--pooling", "cls", "--no-normalize")
    assert run_embed(checkpoint, "--data", data, *options, "--out", out) == 0
    settings = albertine.EmbedSettings(
        data=str(data), text="sentence", pooling="cls", normalize=False, device="cpu"
    )
    assert albertine.embed(checkpoint, settings, other) == 5
    assert out.read_bytes() == other.read_bytes()
    pipeline = albertine.pipeline(checkpoint, task="embed", device="cpu")
    expected = pipeline(TEXTS, pooling="cls", normalize=False)
    np.testing.assert_allclose(np.load(out), expected, atol=1e-5)
    assert np.abs(np.linalg.norm(expected, axis=1) - 1).min() > 1e-3


def test_invalid_rows_stop_or_are_skipped(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = (
        write_jsonl(tmp_path / "texts.jsonl", [{"text": "mi"}, {"text": 1}, {"text": "ka"}]),
        tmp_path / "v.npy",
    )
    assert run_embed(checkpoint, "--data", data, "--out", out) == 2
    assert "holds int 1, not text" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["texts.jsonl"]
    assert run_embed(checkpoint, "--data", data, "--out", out, "--on-error", "skip") == 0
    assert np.load(out).shape == (2, 32)
    assert "skipped rows: 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{checkpoint}", "--data is missing"),
        ("{checkpoint} --data {tmp}/nothing.txt", "no such file"),
        ("{checkpoint} --data {tmp}/empty.txt --out {tmp}/v.npy", "no texts"),
        ("{checkpoint} --data {data}", "no column text"),
        ("{checkpoint} --data {data} --out {tmp}/old.npy", "exists already"),
        ("{checkpoint} --data {data} --out {tmp}/v.csv", "name a file that ends in .npy or .jsonl"),
        ("{checkpoint} --data {data} --out {tmp}", "unknown format"),
        ("{checkpoint} --data {data} --pooling max", "must be one of mean, cls"),
        ("{tmp}/export --data {data}", "export the model again, with albertine export"),
        ("albert-base --data {data}", "a preset, which has no trained weights"),
    ],
)
def test_wrong_calls_give_one_line(
    arguments: str,
    message: str,
    checkpoint: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "old.npy").touch()
    (tmp_path / "empty.txt").touch()
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "export.json").write_text("{}")
    paths = {"checkpoint": checkpoint, "data": data, "tmp": tmp_path}
    assert run_embed(*(argument.format(**paths) for argument in arguments.split())) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert (tmp_path / "old.npy").read_bytes() == b""
    assert not (tmp_path / "v.npy").exists()
