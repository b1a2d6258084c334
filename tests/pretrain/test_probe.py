"""Tests of the probe: its values equal those of `transformers`, and its intervals have their coverage."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
import transformers

import albertine
from albertine import device
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.errors import InputError
from albertine.pretrain import probe as probe_module
from albertine.pretrain.kept_gain import measure_kept_gain
from albertine.pretrain.probe import ProbeResult, probe, show_probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.scores import SUM_COLUMNS, ratio_estimate, wilson_estimate
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.settings import HeadSettings, settings_to_toml

from .conftest import MODEL, with_train


@pytest.fixture
def probe_settings(corpus: Corpus) -> ProbeSettings:
    return ProbeSettings(corpus=corpus.folder, device="cpu", tokens=2000, max_length=32)


def write_checkpoint(folder: Path, segments: int = 2) -> Path:
    """Write a model of `transformers` with random weights."""
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=220, embedding_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.5, type_vocab_size=segments,
    )  # fmt: skip
    transformers.AlbertForPreTraining(config).save_pretrained(folder)
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "transformers")


@pytest.mark.parametrize("pair", ["sop", "nsp"])
def test_probe_matches_transformers(
    pair: Literal["sop", "nsp"],
    probe_settings: ProbeSettings,
    corpus: Corpus,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compute the losses sample by sample with `transformers`; the probe is in fp32 on all machines."""
    monkeypatch.setattr(device, "has_fast_bf16", lambda _: True)
    result = probe(str(checkpoint), probe_settings)
    reference: Any = transformers.AlbertForPreTraining.from_pretrained(checkpoint)
    reference.eval()
    objective = ObjectiveSettings(max_length=32)
    dataset = PretrainDataset(corpus, replace(objective, pair=pair), "dev")
    losses, is_correct, became_mask, pair_losses, is_pair_correct = [], [], [], [], []
    mask_id = corpus.tokenizer.special_ids.mask
    for sample in dataset.draw(np.arange(result.sequences)):
        with torch.no_grad():
            out = reference(
                input_ids=torch.from_numpy(sample.tokens)[None].long(),
                token_type_ids=torch.from_numpy(sample.segments)[None].long(),
            )
        log_probabilities = out.prediction_logits[0, sample.masked_positions].double().log_softmax(1)
        for row, label in zip(log_probabilities, sample.labels, strict=True):
            losses.append(-float(row[label]))
            is_correct.append(int(row.argmax()) == label)
        became_mask += [int(sample.tokens[position]) == mask_id for position in sample.masked_positions]
        pair_log_probabilities = out.sop_logits[0].double().log_softmax(0)
        pair_losses.append(-float(pair_log_probabilities[sample.pair_label]))
        is_pair_correct.append(int(pair_log_probabilities.argmax()) == sample.pair_label)
    loss, accuracy = (
        (result.sop_loss, result.sop_accuracy) if pair == "sop" else (result.nsp_loss, result.nsp_accuracy)
    )
    assert loss.value == pytest.approx(np.mean(pair_losses), rel=1e-4)
    assert accuracy.value == pytest.approx(np.mean(is_pair_correct))
    if pair == "sop":
        assert result.masked_tokens == len(losses)
        assert result.mlm_loss.value == pytest.approx(np.mean(losses), rel=1e-4)
        assert result.mlm_accuracy.value == pytest.approx(np.mean(is_correct))
        assert 0 < sum(became_mask) < len(became_mask)
        assert result.mask_token_loss.value == pytest.approx(np.mean(np.array(losses)[became_mask]), rel=1e-4)
        assert result.mask_token_accuracy.value == pytest.approx(np.mean(np.array(is_correct)[became_mask]))


def test_a_model_with_one_segment_is_evaluated_on_masked_tokens_alone(
    probe_settings: ProbeSettings,
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpoint = write_checkpoint(tmp_path / "one", segments=1)
    result = probe(str(checkpoint), probe_settings)
    reference: Any = transformers.AlbertForPreTraining.from_pretrained(checkpoint)
    reference.eval()
    losses = []
    for sample in PretrainDataset(corpus, ObjectiveSettings("none", 32), "dev").draw(
        np.arange(result.sequences)
    ):
        with torch.no_grad():
            logits = reference(torch.from_numpy(sample.tokens)[None].long()).prediction_logits[0]
        labels = torch.from_numpy(sample.labels).long()
        losses += torch.nn.functional.cross_entropy(
            logits[sample.masked_positions], labels, reduction="none"
        ).tolist()
    assert result.masked_tokens == len(losses) > 50
    assert result.mlm_loss.value == pytest.approx(np.mean(losses), rel=1e-4)
    assert math.isnan(result.sop_accuracy.value)
    assert math.isnan(result.nsp_loss.value)
    show_probe("one", result, as_json=False)
    assert "they need a model with two segments" in capsys.readouterr().out
    two_segments = write_checkpoint(tmp_path / "two")
    compared = probe(str(two_segments), replace(probe_settings, original=str(checkpoint)))
    assert math.isnan(compared.sop_accuracy.value)
    assert compared.kept is not None


# With 6 samples, the ratio of two sums is not normal, and only seven shares are possible.
@pytest.mark.parametrize(("samples", "least_ratio", "least_wilson"), [(6, 0.9, 0.87), (150, 0.92, 0.92)])
def test_confidence_intervals_have_their_coverage(
    samples: int, least_ratio: float, least_wilson: float
) -> None:
    """For samples with different numbers of tokens, whose losses are similar within a sample."""
    rng = np.random.default_rng(0)
    ratio_hits = wilson_hits = 0
    for _ in range(400):
        token_counts = rng.integers(1, 20, samples)
        mean_losses = rng.normal(3.0, 0.5, samples)
        losses = [
            rng.normal(mean, 1.0, count).sum() for mean, count in zip(mean_losses, token_counts, strict=True)
        ]
        sums = np.zeros((samples, len(SUM_COLUMNS)))
        sums[:, SUM_COLUMNS.index("num_targets")] = token_counts
        sums[:, SUM_COLUMNS.index("mlm_loss")] = losses
        sums[:, SUM_COLUMNS.index("pair_correct")] = rng.random(samples) < 0.9
        loss = ratio_estimate(sums, "mlm_loss", "num_targets")
        ratio_hits += loss.low < 3.0 < loss.high
        accuracy = wilson_estimate(sums, "pair_correct")
        wilson_hits += accuracy.low < 0.9 < accuracy.high
    assert least_ratio < ratio_hits / 400 < 0.98
    assert least_wilson < wilson_hits / 400 < 0.99


def test_intervals_of_few_samples_end_where_values_do() -> None:
    sums = np.zeros((2, len(SUM_COLUMNS)))
    sums[:, SUM_COLUMNS.index("num_targets")] = 4
    sums[:, SUM_COLUMNS.index("mlm_loss")] = (1, 20)
    sums[:, SUM_COLUMNS.index("mlm_correct")] = (4, 1)
    loss, share = (ratio_estimate(sums, column, "num_targets") for column in ("mlm_loss", "mlm_correct"))
    assert (loss.low, share.low, share.high) == (0.0, 0.0, 1.0)
    assert loss.high > loss.value


def test_estimates_of_no_samples_are_nan() -> None:
    empty = np.zeros((0, len(SUM_COLUMNS)))
    assert math.isnan(ratio_estimate(empty, "mlm_loss", "num_targets").value)
    assert math.isnan(wilson_estimate(empty, "pair_correct").value)


def test_invalid_probes_raise(probe_settings: ProbeSettings, corpus: Corpus, tmp_path: Path) -> None:
    albertine.save(albertine.Model(replace(MODEL, vocab_size=100)), tmp_path / "small")
    with pytest.raises(InputError, match="has 100 tokens"):
        probe(str(tmp_path / "small"), probe_settings)
    with pytest.raises(InputError, match="a preset, which has no trained weights"):
        probe("albert-base", probe_settings)
    albertine.save(albertine.Model(MODEL), tmp_path / "fits", tokenizer=corpus.tokenizer)
    with pytest.raises(InputError, match="the model takes 64"):
        probe(str(tmp_path / "fits"), replace(probe_settings, max_length=65))
    with pytest.raises(InputError, match="--corpus is missing"):
        probe(str(tmp_path / "fits"), replace(probe_settings, corpus=None))
    classifier = albertine.Model(MODEL, HeadSettings("classify"))
    albertine.save(classifier, tmp_path / "judge", tokenizer=corpus.tokenizer)
    with pytest.raises(InputError, match="judge: its head is classify; only a pre-trained model predicts"):
        probe(str(tmp_path / "judge"), probe_settings)


def test_a_run_is_probed_at_the_length_of_its_samples(
    settings: PretrainSettings, probe_settings: ProbeSettings, tmp_path: Path
) -> None:
    assert settings.objective.max_length < settings.model.max_length
    pretrain(tmp_path / "run", with_train(settings, steps=2))
    default = probe(str(tmp_path / "run"), replace(probe_settings, max_length=None))
    as_trained = replace(probe_settings, max_length=settings.objective.max_length)
    assert default == probe(str(tmp_path / "run"), as_trained)
    longest = replace(probe_settings, max_length=settings.model.max_length)
    assert default.sequences > probe(str(tmp_path / "run"), longest).sequences


def test_probe_of_a_model_without_a_pair_head(
    probe_settings: ProbeSettings, corpus: Corpus, tmp_path: Path
) -> None:
    model = albertine.Model(MODEL, HeadSettings("mlm"))
    albertine.save(model, tmp_path / "model", tokenizer=corpus.tokenizer)
    assert probe(str(tmp_path / "model"), probe_settings).mlm_loss.value > 0


def test_a_model_is_compared_with_its_original(
    probe_settings: ProbeSettings, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = albertine.Model(replace(MODEL, share="none"))
    albertine.save(model, tmp_path / "bert", tokenizer=corpus.tokenizer)
    alone = probe(str(tmp_path / "bert"), probe_settings)
    assert alone.kept is None
    shared = albertine.Model(MODEL)
    albertine.save(shared, tmp_path / "albert", tokenizer=corpus.tokenizer)
    result = probe(str(tmp_path / "albert"), replace(probe_settings, original=str(tmp_path / "bert")))
    assert result.kept is not None
    assert result.kept.original_loss == alone.mask_token_loss
    assert result.kept.megabytes < result.kept.original_megabytes
    show_probe("here", result, as_json=False)
    assert "bert on [MASK] is" in " ".join(capsys.readouterr().out.split())


def test_the_share_is_that_of_the_gains() -> None:
    counts = np.array([10.0, 20.0, 30.0])
    sums = [np.zeros((3, len(SUM_COLUMNS))) for _ in range(2)]
    for one, loss in zip(sums, (4.0, 2.0), strict=True):
        one[:, SUM_COLUMNS.index("num_mask_tokens")] = counts
        one[:, SUM_COLUMNS.index("mask_token_loss")] = loss * counts
    small, large = albertine.Model(MODEL), albertine.Model(replace(MODEL, share="none"))
    kept = measure_kept_gain("bert", (small, large), (sums[0], sums[1]), unigram_loss=6.0)
    assert kept.share.value == pytest.approx(0.5)  # 2 of 4 nats
    size = sum(parameter.numel() for parameter in small.parameters())
    larger = sum(parameter.numel() for parameter in large.parameters())
    assert kept.share_per_byte == pytest.approx(0.5 * larger / size)
    assert "keeps 50.0% (50.0 to 50.0) of the gain of bert" in kept.text
    nothing = measure_kept_gain("bert", (small, large), (sums[0], sums[1]), unigram_loss=1.0)
    assert "no better than token frequencies" in nothing.text


def test_nsp_of_a_single_document_is_unknown(
    probe_settings: ProbeSettings,
    corpus: Corpus,
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for name in ("a", "b"):
        (text / f"{name}.txt").write_text("\n".join(f"{name} ka lo mi {n} ren tas vu." for n in range(80)))
    build_corpus(
        [str(text)], corpus.folder / "tokenizer", tmp_path / "two", CorpusSettings(held_out=0.5, workers=1)
    )
    result = probe(str(checkpoint), replace(probe_settings, corpus=tmp_path / "two"))
    assert math.isnan(result.nsp_accuracy.value)
    assert result.sop_accuracy.value >= 0
    show_probe("here", result, as_json=False)
    output = capsys.readouterr().out
    assert "NSP is unknown: it needs held-out text of two documents, and the corpus has one" in " ".join(
        output.split()
    )
    show_probe("here", result, as_json=True)
    assert json.loads(capsys.readouterr().out)["nsp_loss"]["value"] is None


def test_show_probe_prints_a_table_or_json(
    probe_settings: ProbeSettings, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = probe(str(checkpoint), probe_settings)
    show_probe("here", result, as_json=False)
    assert "order (SOP)" in capsys.readouterr().out
    show_probe("here", result, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["mlm_loss"]["value"] == result.mlm_loss.value
    assert set(document) == {"source", *ProbeResult.__dataclass_fields__}


def test_a_run_without_its_checkpoints_keeps_the_length_of_its_samples(tmp_path: Path) -> None:
    settings = PretrainSettings(objective=ObjectiveSettings(max_length=32))
    (tmp_path / "settings.toml").write_text(settings_to_toml(settings))
    assert probe_module._trained_length(str(tmp_path)) == 32
    checkpoint = tmp_path / "checkpoints" / "step-00000001"
    (tmp_path / "other").mkdir()
    checkpoint.mkdir(parents=True)
    assert probe_module._trained_length(str(checkpoint)) == 32
    assert probe_module._trained_length(str(tmp_path / "other")) == 512
