"""Tests of `albertine convert` and `albertine info` on checkpoints, through the command line."""

import json
from pathlib import Path

import pytest
import torch
import transformers

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import WorkError
from albertine.interop.convert import verify_copy
from albertine.interop.huggingface import load_folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Folder of a checkpoint of `transformers` with its weights in a pickle."""
    config = transformers.AlbertConfig(
        vocab_size=61,
        embedding_size=10,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=16,
    )
    model = transformers.AlbertForPreTraining(config)
    folder = tmp_path / "source"
    folder.mkdir()
    config.architectures = ["AlbertForPreTraining"]
    config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    return folder


def test_pickle_is_converted_to_safetensors(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, ["convert", str(checkpoint), str(tmp_path / "new")]) == 0
    assert "written and verified" in capsys.readouterr().err
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "config.json",
        "model.safetensors",
        "vocab.txt",
    ]
    hf_model = transformers.AlbertForPreTraining.from_pretrained(tmp_path / "new")
    text = "the [MASK] cat"
    assert albertine.load_tokenizer(tmp_path / "new").encode(text, add_special_tokens=False) == [5, 4, 1]
    expected = torch.load(checkpoint / "pytorch_model.bin")
    for name, tensor in hf_model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["new", "source"]


@pytest.mark.parametrize(
    "problem", ["missing source", "existing destination", "missing weights", "unknown setting"]
)
def test_input_error_is_one_line(
    problem: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["convert", str(checkpoint), str(tmp_path / "new")]
    if problem == "missing source":
        arguments[1] = str(tmp_path / "nothing")
    elif problem == "existing destination":
        arguments[2] = str(checkpoint)
    elif problem == "missing weights":
        (checkpoint / "pytorch_model.bin").unlink()
    else:
        (tmp_path / "x.toml").write_text("length = 3")
        arguments += ["--config", str(tmp_path / "x.toml")]
    capsys.readouterr()
    assert run_command(app, arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_differing_copy_is_refused(checkpoint: Path) -> None:
    model, copy = load_folder(checkpoint).eval(), load_folder(checkpoint).eval()
    verify_copy(model, copy, checkpoint)
    with torch.no_grad():
        copy.encoder.embedding.tokens.weight += 1e-3
    with pytest.raises(WorkError, match="the outputs differ"):
        verify_copy(model, copy, checkpoint)


def test_info_reads_a_checkpoint(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run_command(app, ["info", str(checkpoint), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["name"] == "source"
    num_parameters = sum(parameter.numel() for parameter in load_folder(checkpoint).parameters())
    assert info["parameters"]["total"] == num_parameters
    assert info["flops"]["length"] == 16
    assert run_command(app, ["info", str(checkpoint), "--compare", "albert-base", "--length", "8"]) == 0
    assert run_command(app, ["info", str(checkpoint), "--model.layers", "3"]) == 2
    assert "cannot be changed" in capsys.readouterr().err
