"""Log-likelihoods from left to right: those of transformers' decoders, each text once, and refusals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.inference.test_pseudo_likelihood import TEXTS, counting_scorer, saved_bert, with_large_weights
from tests.task_fixtures import MODEL

import albertine
from albertine.errors import InputError
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.inference import pseudo_likelihood
from albertine.inference.masked_copies import ScoringMethod
from albertine.inference.minimal_pairs import evaluate_minimal_pairs
from albertine.inference.settings import EvaluateSettings
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.text.tokenizer import load_tokenizer

METHOD: ScoringMethod = "left-to-right"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT, which `transformers` can run as a decoder."""
    return saved_bert(HeadSettings(kind="mlm", next_tokens=True), tmp_path_factory)


@pytest.fixture(scope="module")
def albertine_model(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("causal") / "model"
    model = Model(replace(MODEL, norm_first=True, rotary=True), HeadSettings(next_tokens=True))
    save_folder(with_large_weights(model), folder, tokenizer=load_tokenizer(tokenizer))
    return folder


def test_scores_match_a_decoder_of_transformers(bert: Path) -> None:
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(bert)
    decoder_class: Any = transformers.BertLMHeadModel
    decoder = decoder_class.from_pretrained(bert, is_decoder=True).eval()
    scores = albertine.fill_mask_pipeline(bert, device="cpu").score(TEXTS, method=METHOD)
    for text, score in zip(TEXTS, scores, strict=True):
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            log_probabilities = decoder(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        expected = [float(log_probabilities[i - 1, ids[i]]) for i in range(1, len(ids) - 1)]
        assert score.log_likelihoods == pytest.approx(expected, abs=1e-4)


def test_scores_are_those_of_prefixes(albertine_model: Path) -> None:
    """With the norms and positions of the presets, for which there is no decoder to compare with."""
    _, scorer = counting_scorer(albertine_model)
    (text,) = scorer.encode(["Kalo, mi (ren) - tas's"])
    ((actual,),) = scorer.log_likelihoods([text], (METHOD,))
    for position in range(len(text)):
        prefix = text.ids[: position + 1]
        strip = replace(albertine.Strip.from_sequences([prefix.tolist()]), causal=True)
        logits = scorer.engine.masked_lm_logits(strip, torch.tensor([position]))
        expected = logits[0].log_softmax(0)[int(text.ids[position + 1])]
        assert actual[position] == pytest.approx(float(expected), abs=1e-4)


def test_each_text_is_one_sequence_in_strips_of_bounded_size(
    albertine_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, scorer = counting_scorer(albertine_model)
    expected = [score.log_likelihoods for score in scorer.score(TEXTS, METHOD)]
    assert engine.num_sequences == len(set(TEXTS))
    monkeypatch.setattr(pseudo_likelihood, "_MAX_LOGITS", 30 * MODEL.vocab_size)
    engine, scorer = counting_scorer(albertine_model, micro_batch_tokens=40)
    for values, expected_values in zip(scorer.score(TEXTS, METHOD), expected, strict=True):
        assert values.log_likelihoods == pytest.approx(expected_values, abs=1e-5)
    assert engine.largest_strip <= max(30, max(len(text.ids) for text in scorer.encode(TEXTS)))


def test_methods_together_give_what_each_gives(albertine_model: Path) -> None:
    methods: tuple[ScoringMethod, ...] = ("token", METHOD, "word-l2r")
    _, scorer = counting_scorer(albertine_model)
    together = scorer.log_likelihoods(scorer.encode(TEXTS), methods)
    for index, method in enumerate(methods):
        _, alone = counting_scorer(albertine_model)
        of_method = alone.log_likelihoods(alone.encode(TEXTS), (method,))
        for several, (values,) in zip(together, of_method, strict=True):
            np.testing.assert_allclose(several[index], values, atol=1e-5)


def test_a_model_that_has_not_learned_it_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    save_folder(Model(MODEL), tmp_path / "model", tokenizer=load_tokenizer(tokenizer))
    with pytest.raises(InputError, match="has not learned to predict next tokens"):
        albertine.fill_mask_pipeline(tmp_path / "model", device="cpu").score(["kalo"], method=METHOD)


def test_an_exported_model_is_refused(albertine_model: Path, tmp_path: Path) -> None:
    export(albertine_model, tmp_path / "onnx", ExportSettings(to="onnx"))
    pipeline = albertine.fill_mask_pipeline(tmp_path / "onnx")
    assert pipeline.score(["kalo mi"])[0].pll < 0
    with pytest.raises(InputError, match="an exported model reads all tokens at once"):
        pipeline.score(["kalo mi"], method=METHOD)


def test_minimal_pairs_take_the_engine_that_reads_from_left_to_right(
    albertine_model: Path, tmp_path: Path
) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"sentence_good": "kalo mi ren", "sentence_bad": "ren kalo mi"}\n')
    settings = EvaluateSettings(task="blimp", data=str(pairs), method=METHOD)
    (expected,) = evaluate_minimal_pairs(albertine_model, settings)
    (actual,) = evaluate_minimal_pairs(albertine_model, replace(settings, engine="auto"))
    assert (actual.overall, actual.method) == (expected.overall, METHOD)
    with pytest.raises(InputError, match="--engine onnxruntime: not for --method left-to-right"):
        evaluate_minimal_pairs(albertine_model, replace(settings, engine="onnxruntime"))
