"""Tests of the local start: heads attend to neighbours in models of any shape, and runs learn faster."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import ObjectiveSettings
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.pretrain.local_start import apply_local_start
from albertine.pretrain.plateau import PlateauDetector
from albertine.pretrain.probe import probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.pretrain.unigram_baseline import no_context_baseline
from albertine.settings import MODEL_PRESETS, ModelSettings
from albertine.train.step_metrics import StepMetrics

from .conftest import MODEL, read_untimed_metrics, weight_bytes, with_train

SHAPES = {
    "albert": ModelSettings(vocab_size=500, embedding_size=64, hidden_size=128, layers=4, heads=4),
    "bert": ModelSettings(
        vocab_size=500, embedding_size=128, hidden_size=128, layers=3, heads=2, share="none"
    ),
    "wide": ModelSettings(vocab_size=500, embedding_size=128, hidden_size=512, layers=12, heads=8),
    "shared attention": ModelSettings(
        vocab_size=500, embedding_size=64, hidden_size=192, layers=4, heads=6, share="attention"
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [40, 500])
def test_heads_attend_to_neighbouring_tokens(shape: str, length: int) -> None:
    model = SHAPES[shape]
    network = Model(model)
    apply_local_start(network, 0, model.layers)
    tokens = torch.randint(10, 500, (length,), generator=torch.Generator().manual_seed(1)).tolist()
    block: Any = network.encoder.attention[0]
    size = model.hidden_size // model.heads
    with torch.no_grad():
        state = next(iter(network.encoder.hidden_states(Strip.from_sequences([tokens]))))
        queries, keys, _ = block.qkv(state).chunk(3, dim=1)
    assert float(state.pow(2).mean()) == pytest.approx(1, abs=0.2)
    middle = torch.arange(8, length - 8)
    for head, offset in zip(range(model.heads), (-1, 1, -2, 2, -3, 3, -4, 4), strict=False):
        columns = slice(head * size, (head + 1) * size)
        seen = (queries[:, columns] @ keys[:, columns].T / math.sqrt(size)).softmax(1)
        there = float(seen[middle, middle + offset].mean())
        assert there > (0.5 if length < 100 else 0.25), head  # each other place gets a hundredth at most
        others = [other for other in range(-8, 9) if other != offset]
        assert max(float(seen[middle, middle + other].mean()) for other in others) < there / 2, head


def test_local_start_sets_only_its_parameters_from_its_seed() -> None:
    drawn, looking, other = Model(MODEL), Model(MODEL), Model(MODEL)
    apply_local_start(looking, 0, 2)
    apply_local_start(other, 1, 2)
    again = Model(MODEL)
    apply_local_start(again, 0, 2)
    for (name, before), after, elsewhere, same in zip(
        drawn.named_parameters(), looking.parameters(), other.parameters(), again.parameters(), strict=True
    ):
        moved = name.endswith(
            (".qkv.weight", "attention.0.out.weight", "projection.weight", "positions.weight")
        )
        assert torch.equal(before, after) is not moved, name
        assert torch.equal(after, same), name
        assert torch.equal(after, elsewhere) is (not moved or name.endswith("positions.weight")), name
        assert torch.isfinite(after).all()


@pytest.mark.parametrize("model", [
    replace(MODEL, embedding_size=48), replace(MODEL, embedding_size=2), replace(MODEL, heads=32),
])  # fmt: skip
def test_local_start_of_unusual_shapes(model: ModelSettings) -> None:
    """Embeddings wider than hidden states; no room for a sinusoid; heads of width 1."""
    network = Model(model)
    apply_local_start(network, 0, model.layers)
    strip = Strip.from_sequences([[2, 5, 6, 7, 3]])
    network(strip).masked.logits.sum().backward()
    assert all(torch.isfinite(one).all() for one in network.parameters())


def test_attention_output_scale_falls_with_depth() -> None:
    sizes = []
    for layers in (2, 4, 12):
        network = Model(replace(MODEL, layers=layers))
        apply_local_start(network, 0, layers)
        block: Any = network.encoder.attention[0]
        sizes.append(float(torch.linalg.matrix_norm(block.out.weight.detach(), 2)))
    assert sizes == pytest.approx([1, 1, 1 / 3], rel=1e-4)


def test_local_start_learns_context_earlier_than_the_published_start(
    settings: PretrainSettings, tales: Corpus, tmp_path: Path
) -> None:
    """With the same batches and steps, by more than seeds differ; also on longer texts."""
    settings = with_train(
        settings,
        steps=100,
        batch_tokens=2048,
        save_every=None,
        lr=None,
        evaluate_every=100,
        evaluate_tokens=9999,
    )
    model = replace(MODEL_PRESETS["demo"], max_length=256, vocab_size=len(tales.tokenizer))
    objective = ObjectiveSettings(max_length=64)
    settings = replace(settings, corpus=tales.folder, model=model, objective=objective)
    found = {
        local: pretrain(tmp_path / str(local), replace(settings, local_start=local))["mlm_loss"]
        for local in (True, False)
    }
    level = read_untimed_metrics(tmp_path / "True")[0]["mlm_unigram_loss"]
    assert found[True] < no_context_baseline(level) - 0.2 < found[False] - 0.2
    near, far = (
        probe(str(tmp_path / "True"), ProbeSettings(corpus=tales.folder, tokens=20_000, max_length=length))
        for length in (64, 256)
    )
    gained_near, gained_far = (one.unigram_loss - one.mask_token_loss.value for one in (near, far))
    assert gained_far > 0.8 * gained_near > 0.6


def test_init_checkpoint_keeps_its_weights(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "first", replace(settings, local_start=False))
    still = with_train(settings, lr=0.0)
    started = replace(still, init_from=str(tmp_path / "first"))
    pretrain(tmp_path / "second", started)
    assert weight_bytes(tmp_path / "first") == weight_bytes(tmp_path / "second")


def test_no_context_baseline_is_the_optimal_loss() -> None:
    """For equally frequent tokens: the smallest loss of a model that sees only the masked position."""
    count = 40
    level = math.log(count)
    # Behind [MASK] all tokens are equally likely. Another token is the label with probability one half.
    hidden, kept = level, -math.log(0.5 + 0.5 / count)
    replaced = -math.log(0.5 / count)
    assert no_context_baseline(level) == pytest.approx(0.8 * hidden + 0.1 * kept + 0.1 * replaced, abs=0.01)


def step_metrics(step: int, loss: float) -> StepMetrics:
    return StepMetrics(
        step=step, tokens=0, seconds=0.0, loss=loss, losses={"mlm": loss}, accuracies={"mlm": 0.1}, lr=1e-3,
        gradient_norm=1.0, tokens_per_second=1.0, utilization=0.1, peak_memory=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "said"),
    [(6.45, "at the unigram baseline (6.400)"), (5.85, "at the no-context baseline (5.899)"), (5.7, None)],
)
def test_plateau_names_the_baseline(loss: float, said: str | None, settings: PretrainSettings) -> None:
    blind = replace(with_train(settings, steps=1000, lr=None), local_start=False)
    plateau = PlateauDetector(blind, 6.4, 0.0)
    remarks = [plateau.diagnose(step_metrics(step, loss)) for step in range(1, 1001)]
    found = [one for one in remarks if one]
    assert len(found) == (3 if said else 0)
    assert all(said in one and "--no-local-start" in one for one in found if said)
