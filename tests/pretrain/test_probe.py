"""Tests of the probe: its values equal those of `transformers`, and its intervals are right."""

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
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.errors import InputError
from albertine.pretrain import probe as probing
from albertine.pretrain.probe import ProbeResult, probe, show_probe
from albertine.pretrain.scores import SUM_COLUMNS, ratio_estimate, wilson_estimate
from albertine.pretrain.settings import ProbeSettings

from .conftest import MODEL


@pytest.fixture
def asked(corpus: Corpus) -> ProbeSettings:
    return ProbeSettings(corpus=corpus.folder, device="cpu", tokens=2000, max_length=32)


@pytest.fixture
def checkpoint(corpus: Corpus, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=130, embedding_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.5,
    )  # fmt: skip
    transformers.AlbertForPreTraining(config).save_pretrained(tmp_path / "theirs")
    return tmp_path / "theirs"


@pytest.mark.parametrize("pair", ["sop", "nsp"])
def test_probe_matches_transformers(
    pair: Literal["sop", "nsp"],
    asked: ProbeSettings,
    corpus: Corpus,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compute the losses sample by sample with `transformers`."""
    monkeypatch.setattr(probing, "choose_precision", lambda *_: torch.float32)
    found = probe(str(checkpoint), asked)
    network: Any = transformers.AlbertForPreTraining.from_pretrained(checkpoint)
    network.eval()
    objective = ObjectiveSettings(max_length=32)
    sampler = PretrainDataset(corpus, replace(objective, pair=pair), "dev")
    losses, right, hidden, pair_losses, pair_right = [], [], [], [], []
    mask = corpus.tokenizer.special_ids.mask
    for sample in sampler.draw(np.arange(found.sequences)):
        with torch.no_grad():
            out = network(
                input_ids=torch.from_numpy(sample.tokens)[None].long(),
                token_type_ids=torch.from_numpy(sample.segments)[None].long(),
            )
        scores = out.prediction_logits[0, sample.masked_positions].double().log_softmax(1)
        losses += [-float(row[label]) for row, label in zip(scores, sample.labels, strict=True)]
        right += [int(row.argmax()) == label for row, label in zip(scores, sample.labels, strict=True)]
        hidden += [int(sample.tokens[at]) == mask for at in sample.masked_positions]
        pairs = out.sop_logits[0].double().log_softmax(0)
        pair_losses.append(-float(pairs[sample.pair_label]))
        pair_right.append(int(pairs.argmax()) == sample.pair_label)
    loss, accuracy = (
        (found.sop_loss, found.sop_accuracy) if pair == "sop" else (found.nsp_loss, found.nsp_accuracy)
    )
    assert loss.value == pytest.approx(np.mean(pair_losses), rel=1e-4)
    assert accuracy.value == pytest.approx(np.mean(pair_right))
    if pair == "sop":
        assert found.masked_tokens == len(losses)
        assert found.mlm_loss.value == pytest.approx(np.mean(losses), rel=1e-4)
        assert found.mlm_accuracy.value == pytest.approx(np.mean(right))
        assert 0 < sum(hidden) < len(hidden)
        assert found.mask_token_loss.value == pytest.approx(np.mean(np.array(losses)[hidden]), rel=1e-4)
        assert found.mask_token_accuracy.value == pytest.approx(np.mean(np.array(right)[hidden]))


def test_confidence_intervals_have_their_coverage() -> None:
    """Clusters of unequal sizes with similar members."""
    draw = np.random.default_rng(0)
    covered = shares = 0
    for _ in range(400):
        sizes = draw.integers(1, 20, 150)
        levels = draw.normal(3.0, 0.5, 150)
        sums = [draw.normal(level, 1.0, size).sum() for level, size in zip(levels, sizes, strict=True)]
        table = np.zeros((150, len(SUM_COLUMNS)))
        table[:, 0], table[:, 1] = sizes, sums
        table[:, SUM_COLUMNS.index("pair_correct")] = draw.random(150) < 0.9
        estimate = ratio_estimate(table, "mlm_loss", "masked")
        covered += estimate.low < 3.0 < estimate.high
        share = wilson_estimate(table, "pair_correct")
        shares += share.low < 0.9 < share.high
    assert 0.92 < covered / 400 < 0.98
    assert 0.92 < shares / 400 < 0.99


def test_estimates_of_no_samples_are_nan() -> None:
    empty = np.zeros((0, len(SUM_COLUMNS)))
    assert math.isnan(ratio_estimate(empty, "mlm_loss", "masked").value)
    assert math.isnan(wilson_estimate(empty, "pair_correct").value)


def test_invalid_probes_raise(asked: ProbeSettings, corpus: Corpus, tmp_path: Path) -> None:
    albertine.save(albertine.Model(replace(MODEL, vocab_size=100)), tmp_path / "small")
    with pytest.raises(InputError, match="has 100 tokens"):
        probe(str(tmp_path / "small"), asked)
    with pytest.raises(InputError, match="a preset, which has no trained weights"):
        probe("albert-base", asked)
    albertine.save(albertine.Model(MODEL), tmp_path / "fits", tokenizer=corpus.tokenizer)
    with pytest.raises(InputError, match="the model takes 64"):
        probe(str(tmp_path / "fits"), replace(asked, max_length=65))
    with pytest.raises(InputError, match="--corpus is missing"):
        probe(str(tmp_path / "fits"), replace(asked, corpus=None))


def test_nsp_of_a_single_document_is_unknown(
    asked: ProbeSettings, corpus: Corpus, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for name in ("a", "b"):
        (text / f"{name}.txt").write_text("\n".join(f"{name} ka lo mi {n} ren tas vu." for n in range(80)))
    build_corpus(
        [str(text)], corpus.folder / "tokenizer", tmp_path / "two", CorpusSettings(held_out=0.5, workers=1)
    )
    found = probe(str(checkpoint), replace(asked, corpus=tmp_path / "two"))
    assert math.isnan(found.nsp_accuracy.value)
    assert found.sop_accuracy.value >= 0
    show_probe("here", found, as_json=False)
    assert "unknown" in capsys.readouterr().out
    show_probe("here", found, as_json=True)
    assert json.loads(capsys.readouterr().out)["nsp_loss"]["value"] is None


def test_show_probe_prints_a_table_or_json(
    asked: ProbeSettings, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = probe(str(checkpoint), asked)
    show_probe("here", found, as_json=False)
    assert "order (SOP)" in capsys.readouterr().out
    show_probe("here", found, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["mlm_loss"]["value"] == found.mlm_loss.value
    assert set(told) == {"source", *ProbeResult.__dataclass_fields__}
