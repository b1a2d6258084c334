"""Guesses are those of transformers on the same weights; what cannot be asked is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.pretrain.conftest import MODEL

import albertine
from albertine.command import run_command
from albertine.corpus.corpus import Corpus
from albertine.engines.torch_engine import TorchEngine
from albertine.errors import InputError
from albertine.inference.fill_mask import FillMaskPipeline
from albertine.interop.huggingface import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings


@pytest.fixture
def checkpoint(corpus: Corpus, tmp_path: Path) -> Path:
    """A model whose weights are large enough to prefer one piece to another."""
    network = Model(replace(MODEL, vocab_size=len(corpus.tokenizer)))
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.mul_(12)
    save_folder(network, tmp_path / "model", tokenizer=corpus.tokenizer)
    return tmp_path / "model"


def test_predictions_match_transformers(checkpoint: Path) -> None:
    text = "the [MASK] was here and [MASK] went"
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(checkpoint)
    theirs: Any = transformers.AlbertForPreTraining.from_pretrained(checkpoint)
    encoded = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        scores = theirs.eval()(**encoded).prediction_logits[0].softmax(1)
    rows = scores[encoded["input_ids"][0] == tokenizer.mask_token_id]
    found = albertine.fill_mask_pipeline(checkpoint, device="cpu").fill(text, top_k=3)
    assert len(found) == len(rows) == 2
    for guesses, row in zip(found, rows, strict=True):
        values, ids = row.topk(3)
        assert [one.token for one in guesses] == tokenizer.convert_ids_to_tokens(ids.tolist())
        assert [one.score for one in guesses] == pytest.approx(values.tolist(), rel=1e-4)


def test_order_probability_matches_transformers(checkpoint: Path) -> None:
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(checkpoint)
    theirs: Any = transformers.AlbertForPreTraining.from_pretrained(checkpoint)
    with torch.no_grad():
        out = theirs.eval()(**tokenizer("he took it", "and went", return_tensors="pt"))
    found = albertine.fill_mask_pipeline(checkpoint, device="cpu").order_probability("he took it", "and went")
    assert found == pytest.approx(float(out.sop_logits[0].softmax(0)[0]), rel=1e-4)


def test_mlm_only_model_fills_masks(corpus: Corpus, tmp_path: Path) -> None:
    network = Model(replace(MODEL, vocab_size=len(corpus.tokenizer)), HeadSettings(kind="mlm"))
    guess = FillMaskPipeline(TorchEngine(network.eval(), torch.device("cpu")), corpus.tokenizer)
    assert len(guess.fill("a [MASK]", top_k=7)[0]) == 7
    with pytest.raises(InputError, match="no pair head"):
        guess.order_probability("a", "b")


def test_padded_vocabulary_rows_are_never_predicted(corpus: Corpus) -> None:
    """Tables are rounded up for speed; the largest of what was never learned must not be guessed."""
    network = Model(replace(MODEL, vocab_size=len(corpus.tokenizer) + 24))
    with torch.no_grad():
        dict(network.named_parameters())["head.masked.bias"][-24:] = 100.0
    guess = FillMaskPipeline(TorchEngine(network.eval(), torch.device("cpu")), corpus.tokenizer)
    (guesses,) = guess.fill("a [MASK]", top_k=10_000)
    assert len(guesses) == len(corpus.tokenizer)
    assert sum(one.score for one in guesses) == pytest.approx(1)


def test_invalid_requests_raise(checkpoint: Path, corpus: Corpus, tmp_path: Path) -> None:
    guess = albertine.fill_mask_pipeline(checkpoint, device="cpu")
    with pytest.raises(InputError, match=r"has no \[MASK\]"):
        guess.fill("nothing hidden")
    with pytest.raises(InputError, match="tokens; the model takes"):
        guess.fill("[MASK] " + "word " * 500)
    with pytest.raises(InputError, match="half a character"):
        guess.fill("[MASK] \ud800")
    with pytest.raises(InputError, match="text: must be text, not int"):
        guess.order_probability(1, "b")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a preset"):
        albertine.fill_mask_pipeline("albert-base")
    tuned = Model(replace(MODEL, vocab_size=len(corpus.tokenizer)), HeadSettings(kind="classify"))
    save_folder(tuned, tmp_path / "tuned", tokenizer=corpus.tokenizer)
    with pytest.raises(InputError, match="its head is classify"):
        albertine.fill_mask_pipeline(tmp_path / "tuned")


def test_command_fills_texts_and_held_out_samples(
    checkpoint: Path, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    from albertine.cli import app

    def run_fill(*line: str) -> tuple[int, str, str]:
        status = run_command(app, ["fill-mask", str(checkpoint), *line, "--device", "cpu"])
        return status, *capsys.readouterr()

    status, out, _ = run_fill("one [MASK]", "and [MASK] [MASK]", "--top-k", "2", "--json")
    told = json.loads(out)["texts"]
    assert status == 0
    assert [[len(mask) for mask in one["masks"]] for one in told] == [[2], [2, 2]]
    status, out, _ = run_fill(
        "--corpus", str(corpus.folder), "--samples", "2", "--max-length", "32", "--json"
    )
    samples = json.loads(out)["samples"]
    assert [one["sample"] for one in samples] == [0, 1]
    assert all(len(mask["predictions"]) == 5 for one in samples for mask in one["masks"])
    status, out, _ = run_fill("--corpus", str(corpus.folder), "--samples", "1", "--max-length", "32")
    assert out.startswith("sample 0\n")
    assert "%" in out
    status, _, error = run_fill()
    assert status == 2
    assert "one of the two" in error
    status, _, error = run_fill("--corpus", str(corpus.folder), "--first", "1000000")
    assert status == 2
    assert "no sample 1,000,000" in error
