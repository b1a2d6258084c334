"""Tests of the fill-mask pipeline: same predictions as transformers, errors, the command."""

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
from albertine.errors import InputError, WorkError
from albertine.inference.fill_mask import FillMaskPipeline
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings


@pytest.fixture
def checkpoint(corpus: Corpus, tmp_path: Path) -> Path:
    """A model whose weights are large enough to prefer some tokens clearly to others."""
    model = Model(replace(MODEL, vocab_size=len(corpus.tokenizer)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(12)
    save_folder(model, tmp_path / "model", tokenizer=corpus.tokenizer)
    return tmp_path / "model"


def test_predictions_match_transformers(checkpoint: Path) -> None:
    text = "the [MASK] was here and [MASK] went"
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(checkpoint)
    reference: Any = transformers.AlbertForPreTraining.from_pretrained(checkpoint)
    encoded = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        probabilities = reference.eval()(**encoded).prediction_logits[0].softmax(1)
    expected = probabilities[encoded["input_ids"][0] == tokenizer.mask_token_id]
    predictions = albertine.fill_mask_pipeline(checkpoint, device="cpu").fill(text, top_k=3)
    assert len(predictions) == len(expected) == 2
    for mask_predictions, mask_probabilities in zip(predictions, expected, strict=True):
        values, ids = mask_probabilities.topk(3)
        assert [prediction.token for prediction in mask_predictions] == tokenizer.convert_ids_to_tokens(
            ids.tolist()
        )
        assert [prediction.score for prediction in mask_predictions] == pytest.approx(
            values.tolist(), rel=1e-4
        )


def test_predictions_at_a_depth(checkpoint: Path) -> None:
    fill_mask = albertine.fill_mask_pipeline(checkpoint, device="cpu")
    ids, segments, (position,) = fill_mask.encode_masked_text("the [MASK] was here")
    strip = albertine.Strip.from_sequences([ids], [segments])
    with torch.no_grad():
        probabilities = albertine.load(checkpoint)(strip, depth=1).masked.logits[position].softmax(0)
    ((best, _),) = fill_mask.fill("the [MASK] was here", top_k=2, depth=1)
    assert best.score == pytest.approx(float(probabilities.max()), rel=1e-4)
    assert fill_mask.fill("the [MASK] was here", top_k=2)[0][0] != best


def test_order_probability_matches_transformers(checkpoint: Path) -> None:
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(checkpoint)
    reference: Any = transformers.AlbertForPreTraining.from_pretrained(checkpoint)
    with torch.no_grad():
        output = reference.eval()(**tokenizer("he took it", "and went", return_tensors="pt"))
    probability = albertine.fill_mask_pipeline(checkpoint, device="cpu").order_probability(
        "he took it", "and went"
    )
    assert probability == pytest.approx(float(output.sop_logits[0].softmax(0)[0]), rel=1e-4)


def test_mlm_only_model_fills_masks(corpus: Corpus, tmp_path: Path) -> None:
    model = Model(replace(MODEL, vocab_size=len(corpus.tokenizer)), HeadSettings(kind="mlm"))
    fill_mask = FillMaskPipeline(TorchEngine(model.eval(), torch.device("cpu")), corpus.tokenizer)
    assert len(fill_mask.fill("a [MASK]", top_k=7)[0]) == 7
    with pytest.raises(InputError, match="no pair head"):
        fill_mask.order_probability("a", "b")


def test_padded_vocabulary_rows_are_never_predicted(corpus: Corpus) -> None:
    """Some checkpoints round the vocabulary size up; the highest logits are those of the additional rows."""
    model = Model(replace(MODEL, vocab_size=len(corpus.tokenizer) + 24))
    with torch.no_grad():
        dict(model.named_parameters())["head.masked.bias"][-24:] = 100.0
    fill_mask = FillMaskPipeline(TorchEngine(model.eval(), torch.device("cpu")), corpus.tokenizer)
    (predictions,) = fill_mask.fill("a [MASK]", top_k=10_000)
    assert len(predictions) == len(corpus.tokenizer)
    assert sum(prediction.score for prediction in predictions) == pytest.approx(1)


def test_invalid_requests_raise(checkpoint: Path, corpus: Corpus, tmp_path: Path) -> None:
    fill_mask = albertine.fill_mask_pipeline(checkpoint, device="cpu")
    with pytest.raises(InputError, match=r"has no \[MASK\]"):
        fill_mask.fill("nothing hidden")
    with pytest.raises(InputError, match="tokens; the model takes"):
        fill_mask.fill("[MASK] " + "word " * 500)
    with pytest.raises(InputError, match="an unpaired surrogate"):
        fill_mask.fill("[MASK] \ud800")
    with pytest.raises(InputError, match="text: must be text, not int"):
        fill_mask.order_probability(1, "b")  # type: ignore[arg-type]
    for arguments in ({"depth": 0}, {"depth": 1.5}, {"top_k": 0}, {"top_k": -1}):
        with pytest.raises(InputError, match=r"must be (an integer|between)"):
            fill_mask.fill("a [MASK]", **arguments)
    for call in (
        lambda: fill_mask.score(["a"], depth=0),
        lambda: fill_mask.score(None),  # type: ignore[arg-type]
        lambda: fill_mask.fill(None),  # type: ignore[arg-type]
        lambda: fill_mask.order_probability("a", None),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match="must be"):
            call()
    with pytest.raises(InputError, match="a preset"):
        albertine.fill_mask_pipeline("albert-base")
    classifier = Model(replace(MODEL, vocab_size=len(corpus.tokenizer)), HeadSettings(kind="classify"))
    save_folder(classifier, tmp_path / "classifier", tokenizer=corpus.tokenizer)
    with pytest.raises(InputError, match="its head is classify"):
        albertine.fill_mask_pipeline(tmp_path / "classifier")


def test_output_that_is_not_finite_is_refused(corpus: Corpus) -> None:
    model = Model(replace(MODEL, vocab_size=len(corpus.tokenizer)))
    with torch.no_grad():
        model.encoder.embedding.norm.weight.fill_(3e38)
    fill_mask = FillMaskPipeline(TorchEngine(model.eval(), torch.device("cpu")), corpus.tokenizer)
    with pytest.raises(WorkError, match="not finite"):
        fill_mask.fill("the [MASK]")
    with pytest.raises(WorkError, match="not finite"):
        fill_mask.order_probability("he took it", "and went")


def test_command_fills_texts_and_held_out_samples(
    checkpoint: Path, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    from albertine.cli import app

    def run_fill_mask(*arguments: str) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        status = run_command(app, ["fill-mask", str(checkpoint), *arguments, "--device", "cpu"])
        return status, *capsys.readouterr()

    status, out, _ = run_fill_mask("one [MASK]", "and [MASK] [MASK]", "--top-k", "2", "--json")
    texts = json.loads(out)["texts"]
    assert status == 0
    assert [[len(mask) for mask in text["masks"]] for text in texts] == [[2], [2, 2]]
    status, out, _ = run_fill_mask(
        "--corpus", str(corpus.folder), "--samples", "2", "--max-length", "32", "--json"
    )
    samples = json.loads(out)["samples"]
    assert [sample["sample"] for sample in samples] == [0, 1]
    assert all(len(mask["predictions"]) == 5 for sample in samples for mask in sample["masks"])
    status, out, _ = run_fill_mask("--corpus", str(corpus.folder), "--samples", "1", "--max-length", "32")
    assert out.startswith("sample 0\n")
    assert "%" in out
    status, _, error = run_fill_mask()
    assert status == 2
    assert "one of the two" in error
    status, _, error = run_fill_mask("--corpus", str(corpus.folder), "--first", "1000000")
    assert status == 2
    assert "no sample 1,000,000" in error
