"""Tests of the pre-training benchmark: same pairs, same evaluation, and a sweep for each side."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from albertine.bench import pretrain as pretrain_bench
from albertine.bench.peer_pretraining import PeerPretraining
from albertine.bench.pretrain import PretrainingComparison, SideResult
from albertine.bench.pretrain_runs import (
    PretrainBenchResult,
    PretrainBenchRun,
    Side,
    common_batches,
    train_side,
)
from albertine.bench.pretrain_table import check_plot_file, draw_pretraining
from albertine.bench.settings import PretrainBenchSettings
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.errors import Diverged, InputError
from albertine.settings import ModelSettings

MODEL = ModelSettings(vocab_size=220, embedding_size=16, hidden_size=32, layers=2, heads=2, max_length=64)


@pytest.fixture
def bench_settings(corpus: Corpus) -> PretrainBenchSettings:
    return PretrainBenchSettings(
        corpus=corpus.folder, model=MODEL, max_length=32, batch_tokens=256, precision="fp32", device="cpu"
    )


@pytest.mark.slow
@pytest.mark.parametrize("share", ["all", "none"])
def test_both_sides_train_and_are_evaluated_alike(bench_settings: PretrainBenchSettings, share: Any) -> None:
    embedding_size = 32 if share == "none" else 16
    model = replace(bench_settings.model, share=share, embedding_size=embedding_size)
    bench_settings = replace(bench_settings, model=model)
    ours, peer = (
        train_side(PretrainBenchRun(side, 2e-3, 24, bench_settings, 24)) for side in ("ours", "peer")
    )
    assert len(ours.curve) == len(peer.curve) == 25
    for result in (ours, peer):
        assert result.curve[0][0] == 0.0
        seconds = [elapsed for elapsed, _ in result.curve]
        assert seconds == sorted(seconds)
        assert 24 * 128 < result.tokens < 24 * 300
        assert result.tokens_per_second > 0
    assert peer.loss < peer.curve[0][1]


def test_the_peer_of_a_bert_is_a_bert(corpus: Corpus) -> None:
    settings = replace(MODEL, share="none", embedding_size=32, activation="gelu")
    peer = PeerPretraining(settings, corpus, torch.device("cpu"), torch.float32)
    assert type(peer.model).__name__ == "BertForPreTraining"
    assert peer.model.config.num_hidden_layers == 2
    assert peer.model.config.hidden_act == "gelu"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"norm_first": True}, "model.norm_first"),
        ({"share": "ffn"}, "model.share"),
        ({"max_length": 16}, "max_length"),
    ],
)
def test_a_model_that_the_peer_lacks_is_refused(
    bench_settings: PretrainBenchSettings, changes: dict[str, Any], key: str
) -> None:
    with pytest.raises(InputError, match=rf"^{key} = "):
        replace(bench_settings, model=replace(MODEL, **changes))


def test_common_samples_use_peer_masking(corpus: Corpus) -> None:
    batches = common_batches(corpus, 32)
    sampler = PretrainDataset(corpus, ObjectiveSettings(max_length=32), "dev")
    originals = [sample.original_tokens() for sample in sampler.draw(np.arange(min(400, len(sampler))))]
    tokens = np.concatenate([batch.strip.tokens.numpy() for batch in batches])
    labels = tokens.copy()
    start = 0
    for batch in batches:
        labels[start + batch.targets.masked.indices.numpy()] = batch.targets.masked.labels.numpy()
        start += len(batch.strip.tokens)
    expected = np.concatenate(originals)
    assert (labels == expected).all()
    num_masked = sum(len(batch.targets.masked.indices) for batch in batches)
    num_ordinary = (expected > 4).sum()
    assert num_masked / num_ordinary == pytest.approx(0.15, abs=0.02)
    assert (tokens == corpus.tokenizer.special_ids.mask).sum() / num_masked == pytest.approx(0.8, abs=0.05)
    again = common_batches(corpus, 32)
    assert all((a.strip.tokens == b.strip.tokens).all() for a, b in zip(batches, again, strict=True))


@pytest.mark.parametrize(
    ("best", "expected"), [(0, [-1, 0, 1]), (3, [-1, 0, 1, 2, 3, 4]), (-2, [-3, -2, -1, 0, 1])]
)
def test_sweep_continues_while_loss_improves(
    best: int, expected: list[int], bench_settings: PretrainBenchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(bench_run: PretrainBenchRun) -> PretrainBenchResult:
        power = np.log2(bench_run.lr / 1e-3)
        return PretrainBenchResult([(1.0, 5.0 + abs(power - best))], 1, 1.0)

    monkeypatch.setattr(pretrain_bench, "_run_in_process", run)
    runs = pretrain_bench._sweep_rates("ours", 1e-3, 5, bench_settings)
    assert sorted(runs) == pytest.approx([1e-3 * 2.0**power for power in expected])
    losses = {rate: run.loss for rate, run in runs.items() if run is not None}
    assert min(losses, key=losses.__getitem__) == pytest.approx(1e-3 * 2.0**best)


def test_a_rate_that_diverges_is_never_the_best(
    bench_settings: PretrainBenchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rate gives no number and higher ones fail; the best is the highest of the others."""

    def run(bench_run: PretrainBenchRun) -> PretrainBenchResult:
        if bench_run.lr > pretrain_bench._PEER_LR:
            raise Diverged("diverged")
        loss = 6.0 - bench_run.lr if bench_run.lr < pretrain_bench._PEER_LR else float("nan")
        return PretrainBenchResult([(0.0, 7.0), (5.0, 7.0), (10.0, loss)], 1, 1.0)

    monkeypatch.setattr(pretrain_bench, "_run_in_process", run)
    side = pretrain_bench._run_side("peer", pretrain_bench._PEER_LR, bench_settings)
    assert side.learning_rate == pretrain_bench._PEER_LR / 2
    assert side.sweep[pretrain_bench._PEER_LR] is side.sweep[2 * pretrain_bench._PEER_LR] is None
    json.dumps(asdict(side), allow_nan=False)


@pytest.mark.parametrize("diverging_steps", [{12}, {300}, {3000}], ids=["timing", "sweep", "final run"])
def test_a_side_that_diverges_with_every_rate_or_at_full_length_is_one_line(
    diverging_steps: set[int], bench_settings: PretrainBenchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(bench_run: PretrainBenchRun) -> PretrainBenchResult:
        if bench_run.steps in diverging_steps:
            raise Diverged("lower the rate")
        return PretrainBenchResult([(0.0, 7.0), (0.06, 7.0), (0.12, 6.0)], 1, 0.12)

    monkeypatch.setattr(pretrain_bench, "_run_in_process", run)
    settings = replace(bench_settings, minutes=0.5, sweep_fraction=0.1)
    with pytest.raises(Diverged, match=r"peer diverged at the learning rate .*; raise --batch-tokens"):
        pretrain_bench._run_side("peer", 1e-3, settings)


def make_comparison(
    ours: list[tuple[float, float]], peer: list[tuple[float, float]]
) -> PretrainingComparison:
    results: dict[Side, PretrainBenchResult] = {
        "ours": PretrainBenchResult(ours, 100, ours[-1][0]),
        "peer": PretrainBenchResult(peer, 100, peer[-1][0]),
    }
    sides = {side: SideResult(1.0, 1, result, {}) for side, result in results.items()}
    return PretrainingComparison(1.0, sides)


def test_time_fraction_to_match(tmp_path: Path) -> None:
    peer = [(0.0, 7.0), (50.0, 6.0), (100.0, 5.0)]
    assert make_comparison(
        [(0.0, 6.0), (20.0, 5.5), (60.0, 4.5)], peer
    ).time_fraction_to_match == pytest.approx(0.4)
    assert make_comparison([(0.0, 6.0), (100.0, 5.5)], peer).time_fraction_to_match is None
    assert make_comparison([(0.0, 4.9), (50.0, 7.0), (100.0, 4.5)], peer).time_fraction_to_match == 0
    draw_pretraining(make_comparison([(0.0, 6.0), (100.0, 5.5)], peer), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_corpus_without_held_out_documents_is_refused(
    text: Path, tokenizer: Path, tmp_path: Path, bench_settings: PretrainBenchSettings
) -> None:
    build_corpus([str(text)], tokenizer, tmp_path / "corpus", CorpusSettings(layout="lines", workers=1))
    with pytest.raises(InputError, match="no held-out documents"):
        pretrain_bench.measure_pretraining(replace(bench_settings, corpus=tmp_path / "corpus"))


def test_the_file_of_the_plot_is_checked_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--plot curves\.txt: give a file name that ends in \.svg or \.png"):
        check_plot_file(Path("curves.txt"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="file: not a folder; name another path"):
        check_plot_file(tmp_path / "file" / "curves.svg")
    check_plot_file(tmp_path / "curves.svg")
