"""Tests of the local start and of the plateau detector."""

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
from albertine.pretrain.setup import PRETRAIN_HEAD, untrained_model
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


def test_an_untrained_model_with_rotary_positions_has_no_local_start() -> None:
    settings = replace(SHAPES["albert"], rotary=True)
    weights = untrained_model(settings, PretrainSettings()).state_dict()
    plain_weights = Model(settings, PRETRAIN_HEAD).state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in plain_weights.items())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [40, 500])
def test_heads_attend_to_neighbouring_tokens(shape: str, length: int) -> None:
    settings = SHAPES[shape]
    model = Model(settings)
    apply_local_start(model, 0, settings.layers)
    tokens = torch.randint(10, 500, (length,), generator=torch.Generator().manual_seed(1)).tolist()
    block: Any = model.encoder.attention[0]
    head_size = settings.hidden_size // settings.heads
    with torch.no_grad():
        hidden_state = next(iter(model.encoder.hidden_states(Strip.from_sequences([tokens]))))
        queries, keys, _ = block.qkv(hidden_state).chunk(3, dim=1)
    assert float(hidden_state.pow(2).mean()) == pytest.approx(1, abs=0.2)
    middle = torch.arange(8, length - 8)
    for head, offset in zip(range(settings.heads), (-1, 1, -2, 2, -3, 3, -4, 4), strict=False):
        columns = slice(head * head_size, (head + 1) * head_size)
        attention = (queries[:, columns] @ keys[:, columns].T / math.sqrt(head_size)).softmax(1)
        at_offset = float(attention[middle, middle + offset].mean())
        assert at_offset > (0.5 if length < 100 else 0.25), head
        other_offsets = [other for other in range(-8, 9) if other != offset]
        at_others = max(float(attention[middle, middle + other].mean()) for other in other_offsets)
        assert at_others < at_offset / 2, head


def model_with_local_start(seed: int) -> Model:
    model = Model(MODEL)
    apply_local_start(model, seed, 2)
    return model


def test_local_start_sets_only_its_parameters_from_its_seed() -> None:
    models = (Model(MODEL), *(model_with_local_start(seed) for seed in (0, 0, 1)))
    for (name, published), first, repeated, other_seed in zip(
        models[0].named_parameters(), *(model.parameters() for model in models[1:]), strict=True
    ):
        is_set = name.endswith(
            (".qkv.weight", "attention.0.out.weight", "projection.weight", "positions.weight")
        )
        assert torch.equal(published, first) is not is_set, name
        assert torch.equal(first, repeated), name
        assert torch.equal(first, other_seed) is (not is_set or name.endswith("positions.weight")), name
        assert torch.isfinite(first).all()


@pytest.mark.parametrize("settings", [
    replace(MODEL, embedding_size=48), replace(MODEL, embedding_size=2), replace(MODEL, heads=32),
])  # fmt: skip
def test_local_start_of_unusual_shapes(settings: ModelSettings) -> None:
    """Embeddings wider than hidden states; embeddings too narrow for a sinusoid; heads of width 1."""
    model = Model(settings)
    apply_local_start(model, 0, settings.layers)
    strip = Strip.from_sequences([[2, 5, 6, 7, 3]])
    model(strip).masked.logits.sum().backward()
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_attention_output_scale_falls_with_depth() -> None:
    scales = []
    for layers in (2, 4, 12):
        model = Model(replace(MODEL, layers=layers))
        apply_local_start(model, 0, layers)
        block: Any = model.encoder.attention[0]
        scales.append(float(torch.linalg.matrix_norm(block.out.weight.detach(), 2)))
    assert scales == pytest.approx([1, 1, 1 / 3], rel=1e-4)


@pytest.mark.long
@pytest.mark.slow
def test_local_start_learns_context_earlier_than_the_published_start(
    settings: PretrainSettings, world_corpus: Corpus, tmp_path: Path
) -> None:
    """By more than seeds differ; on samples of the length in training, and on longer ones."""
    settings = with_train(
        settings,
        steps=100,
        batch_tokens=2048,
        save_every=None,
        lr=None,
        evaluate_every=100,
        evaluate_tokens=9999,
    )
    model = replace(MODEL_PRESETS["demo"], max_length=256, vocab_size=len(world_corpus.tokenizer))
    objective = ObjectiveSettings(max_length=64)
    settings = replace(settings, corpus=world_corpus.folder, model=model, objective=objective)
    local_loss = pretrain(tmp_path / "local", settings)["mlm_loss"]
    published_loss = pretrain(tmp_path / "published", replace(settings, local_start=False))["mlm_loss"]
    unigram_baseline = read_untimed_metrics(tmp_path / "local")[0]["mlm_unigram_loss"]
    assert local_loss < no_context_baseline(unigram_baseline) - 0.2 < published_loss - 0.2
    probe_settings = ProbeSettings(corpus=world_corpus.folder, tokens=20_000)
    short_result, long_result = (
        probe(str(tmp_path / "local"), replace(probe_settings, max_length=length)) for length in (64, 256)
    )
    short_gain, long_gain = (
        result.unigram_loss - result.mask_token_loss.value for result in (short_result, long_result)
    )
    assert long_gain > 0.8 * short_gain > 0.6


def test_init_checkpoint_keeps_its_weights(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "first", replace(settings, local_start=False))
    second = replace(with_train(settings, lr=0.0), init_from=str(tmp_path / "first"))
    pretrain(tmp_path / "second", second)
    assert weight_bytes(tmp_path / "first") == weight_bytes(tmp_path / "second")


def test_no_context_baseline_is_the_optimal_loss() -> None:
    """For equally frequent tokens: the smallest loss of a model that sees only the masked position."""
    vocab_size = 40
    unigram_baseline = math.log(vocab_size)
    # If the model sees [MASK], all tokens are equally likely. It is the label of any other token that it
    # sees with probability one half, or else a random token.
    hidden, kept = unigram_baseline, -math.log(0.5 + 0.5 / vocab_size)
    replaced = -math.log(0.5 / vocab_size)
    expected = 0.8 * hidden + 0.1 * kept + 0.1 * replaced
    assert no_context_baseline(unigram_baseline) == pytest.approx(expected, abs=0.01)


def step_metrics(step: int, loss: float) -> StepMetrics:
    return StepMetrics(
        step=step, tokens=0, seconds=0.0, loss=loss, losses={"mlm": loss}, accuracies={"mlm": 0.1}, lr=1e-3,
        gradient_norm=1.0, tokens_per_second=1.0, utilization=0.1, peak_memory=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "baseline"),
    [(6.45, "at the unigram baseline (6.400)"), (5.85, "at the no-context baseline (5.899)"), (5.7, None)],
)
def test_plateau_message_names_the_baseline(
    loss: float, baseline: str | None, settings: PretrainSettings
) -> None:
    settings = replace(with_train(settings, steps=1000, lr=None), local_start=False)
    detector = PlateauDetector(settings, 6.4, 0.0)
    diagnoses = [detector.diagnose(step_metrics(step, loss)) for step in range(1, 1001)]
    messages = [message for message in diagnoses if message]
    assert len(messages) == (3 if baseline else 0)
    assert all(baseline in message and "--no-local-start" in message for message in messages if baseline)
