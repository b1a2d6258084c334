"""Tests of `albertine convert` and `albertine info` on checkpoints, through the command line."""

import json
import shutil
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import example, given
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL
from tests.sentencepiece_fixture import KOREAN, STORY, reference_ids, sentencepiece_model

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import WorkError
from albertine.interop.convert import verify_copy
from albertine.interop.load_checkpoint import load_folder
from albertine.interop.verify_tokenizer import _sentencepiece_ids, hard_texts, verify_tokenizer
from albertine.model.model import Model
from albertine.settings import HeadSettings


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
        "tokenizer_config.json",
        "vocab.txt",
    ]
    hf_model = transformers.AlbertForPreTraining.from_pretrained(tmp_path / "new")
    text = "the [MASK] cat"
    assert albertine.load_tokenizer(tmp_path / "new").encode(text, add_special_tokens=False) == [5, 4, 1]
    expected = torch.load(checkpoint / "pytorch_model.bin")
    for name, tensor in hf_model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["new", "source"]


def test_a_lost_tokenizer_is_said(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkpoint / "vocab.txt").unlink()
    assert run_command(app, ["convert", str(checkpoint), str(tmp_path / "new")]) == 0
    message = "has none (tokenizer.json, spiece.model or vocab.txt)"
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new" / "vocab.txt").exists()


@pytest.mark.parametrize(
    ("name", "dropout"), [("AlbertModel", 0.2), ("BertModel", None), ("BertForPreTraining", None)]
)
def test_a_model_without_a_task_keeps_the_dropout_of_a_future_head(
    name: str, dropout: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    family = name.removesuffix("Model").removesuffix("ForPreTraining")
    key = "classifier_dropout_prob" if family == "Albert" else "classifier_dropout"
    sizes = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = getattr(transformers, f"{family}Config")(**sizes, intermediate_size=40, **{key: dropout})
    getattr(transformers, name)(config).save_pretrained(tmp_path / "source")
    assert run_command(app, ["convert", str(tmp_path / "source"), str(tmp_path / "new")]) == 0
    assert "newly initialized" not in capsys.readouterr().err
    assert getattr(transformers.AutoConfig.from_pretrained(tmp_path / "new"), key) == dropout


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


def test_a_copy_of_a_model_with_one_segment_is_verified(tmp_path: Path) -> None:
    model = Model(replace(SMALL, segments=1), HeadSettings("classify")).eval()
    verify_copy(model, model, tmp_path)


def test_differing_copy_is_refused(checkpoint: Path) -> None:
    model, copy = load_folder(checkpoint).eval(), load_folder(checkpoint).eval()
    verify_copy(model, copy, checkpoint)
    with torch.no_grad():
        copy.encoder.embedding.tokens.weight += 1e-3
    with pytest.raises(WorkError, match="the outputs differ"):
        verify_copy(model, copy, checkpoint)


@pytest.fixture(scope="module")
def google_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of Google's ALBERT with a SentencePiece file that has Google's symbols."""
    folder = Path(shutil.copytree(Path(__file__).parent / "google", tmp_path_factory.mktemp("google") / "a"))
    (folder / "30k-clean.model").write_bytes(sentencepiece_model())
    return folder


@pytest.fixture(scope="module")
def tokenizers(google_folder: Path) -> tuple[Any, Any, Any]:
    """The tokenizers of a Google folder, of its converted copy, and of the copy in `transformers`."""
    copy = google_folder.parent / "b"
    assert run_command(app, ["convert", str(google_folder), str(copy), "--quiet"]) == 0
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(copy)
    return albertine.load_tokenizer(google_folder), albertine.load_tokenizer(copy), hf_tokenizer


WORDS = st.sampled_from(
    [*STORY.split(), *KOREAN.split(), "1,000", "2,500,", "(b)", "x-(y)", "a£b\u2013c€", "हिन्दी"]
)


@given(text=st.lists(st.text(max_size=12) | WORDS, max_size=8).map(" ".join), pair=st.none() | WORDS)
@example(text="[CLS] a [MASK]b <pad>", pair="é")
@example(text="1,000,000 and 2,000, 3,5 in 1899, and 12,", pair="12,")
@example(text="ภาษาไทย ❤️ ガギグ \u200b x\u2028y", pair=unicodedata.normalize("NFD", KOREAN))
def test_transformers_gives_the_same_ids_for_a_converted_google_folder(
    text: str, pair: str | None, tokenizers: tuple[Any, Any, Any]
) -> None:
    original, converted, hf_tokenizer = tokenizers
    expected = hf_tokenizer(text, pair)
    for tokenizer in (original, converted):
        ids, segments = tokenizer.encode_with_special_tokens(text, pair)
        assert (ids, segments) == (expected["input_ids"], expected["token_type_ids"])
        assert tokenizer.decode(ids) == hf_tokenizer.decode(ids, skip_special_tokens=True)
    assert original.fingerprint == converted.fingerprint


def test_convert_reports_where_googles_code_gives_other_ids(
    google_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run_command(app, ["convert", str(google_folder), str(tmp_path / "new")]) == 0
    messages = " ".join(capsys.readouterr().err.split())
    assert "its tokenizer gives the same ids for 2,007 hard texts; for " in messages
    assert "of them Google's code gives other ids (for example '1,000,000 and 2,000, " in messages


def test_reported_ids_are_those_of_googles_code(google_folder: Path) -> None:
    tokenizer = albertine.load_tokenizer(google_folder)
    texts = hard_texts(tokenizer.vocabulary)[:200]
    expected = [reference_ids(sentencepiece_model(), text) for text in texts]
    assert _sentencepiece_ids(tokenizer, texts) == expected


def test_sentencepiece_file_beside_a_tokenizer_without_options(google_folder: Path, tmp_path: Path) -> None:
    """A folder of the hub may have `tokenizer.json` and `spiece.model`, and no `tokenizer_config.json`."""
    albertine.load_tokenizer(google_folder).save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    tokenizer = albertine.load_tokenizer(tmp_path)
    assert "hard texts; for " in verify_tokenizer(tokenizer, tokenizer, "source")


def test_differing_tokenizer_is_refused(google_folder: Path, checkpoint: Path) -> None:
    tokenizer, other = (albertine.load_tokenizer(folder) for folder in (google_folder, checkpoint))
    with pytest.raises(WorkError, match="the ids of the written tokenizer differ"):
        verify_tokenizer(tokenizer, other, "source")


def test_info_reads_a_checkpoint(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run_command(app, ["info", str(checkpoint), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["name"] == "source"
    num_parameters = sum(parameter.numel() for parameter in load_folder(checkpoint).parameters())
    assert info["parameters"]["total"] == num_parameters
    assert info["flops"]["length"] == 16
    assert run_command(app, ["info", str(checkpoint), "--compare", "albert-base", "--length", "8"]) == 0
    assert run_command(app, ["info", str(checkpoint), "--length", "200"]) == 2
    assert "takes at most 16 tokens" in capsys.readouterr().err
    assert run_command(app, ["info", str(checkpoint), "--model.layers", "3"]) == 2
    assert "cannot be changed" in capsys.readouterr().err
