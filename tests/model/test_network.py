"""The network: counts, seeds, depth, precision, and what must not change a result."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from albertine.errors import InputError
from albertine.model.cost import activation_bytes
from albertine.model.encoder import Computation, Encoder
from albertine.model.heads import MaskedTargets, PretrainTargets, SpanTargets, make_head
from albertine.model.layers import FfnWeights, _known_at_once, widened
from albertine.model.network import Model
from albertine.model.parameters import count_parameters
from albertine.model.strip import Strip
from albertine.settings import MODELS, HeadSettings, ModelSettings
from albertine.train.machine import fast_at_bf16

SMALL = ModelSettings(vocab_size=61, embedding_size=10, hidden_size=24, layers=3, heads=4, max_length=16)
STRIP = Strip.from_sequences([[3, 5, 8, 2, 9], [7, 1], [4, 4, 4, 4, 4], [6]])


def variants() -> list[Any]:
    plans = [
        replace(MODELS["albert-base"], share=share, groups=groups, embedding_size=size)
        for share in ("all", "attention", "ffn", "none")
        for groups in ((1,) if share == "none" else (1, 4))
        for size in (64, 128, 256, 768)
    ]
    return [
        *MODELS.values(),
        *plans,
        replace(SMALL, inner_groups=2),
        replace(SMALL, embedding_size=24, always_project=True),
    ]


@pytest.mark.parametrize("model", variants(), ids=str)
def test_counts_equal_the_sum_over_the_real_tensors(model: ModelSettings) -> None:
    with torch.device("meta"):
        encoder = Encoder(model)
        head = make_head(model, HeadSettings(), encoder.embedding.tokens)
    parts = count_parameters(model)
    pooler = sum(one.numel() for name, one in head.named_parameters() if name.startswith("pooler."))
    norms = sum(one.numel() for name, one in encoder.named_parameters() if "norm." in name)
    assert sum(one.numel() for one in encoder.parameters()) + pooler == parts.encoder
    assert sum(one.numel() for one in head.parameters()) - pooler == parts.heads
    assert norms == parts.norms


def test_the_same_seed_gives_the_same_weights_under_any_head() -> None:
    one, same, other = (
        Model(SMALL, seed=1),
        Model(SMALL, HeadSettings(kind="span"), seed=1),
        Model(SMALL, seed=2),
    )
    for name, parameter in one.encoder.named_parameters():
        assert torch.equal(parameter, dict(same.encoder.named_parameters())[name])
        if parameter.dim() > 1:
            assert not torch.equal(parameter, dict(other.encoder.named_parameters())[name])


def test_weights_are_those_of_any_machine() -> None:
    weights = Model(SMALL, seed=7).encoder.embedding.tokens.weight.detach()
    drawn = [round(float(one), 7) for one in weights.flatten()[:4]]
    assert drawn == [-0.0097343, 0.0152202, 0.0128267, -0.0179519]


def test_weights_are_drawn_as_published() -> None:
    model = Model(replace(SMALL, vocab_size=20_000), seed=0)
    table = model.encoder.embedding.tokens.weight.detach()
    assert table.abs().max() <= 0.04
    # A normal cut at two deviations has 0.8796 of its deviation; the bounds are five standard errors.
    assert abs(float(table.mean())) < 5 * 0.0176 / len(table.flatten()) ** 0.5
    assert float(table.std()) == pytest.approx(0.02 * 0.8796, rel=5 / (2 * len(table.flatten())) ** 0.5)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (1.0 if name.endswith("norm.weight") else 0.0)).all(), name


@settings(max_examples=25)
@given(st.lists(st.integers(1, 16), min_size=1, max_size=8))
def test_a_sequence_does_not_see_its_neighbours(lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(sum(lengths))
    rows = [torch.randint(0, 61, (length,), generator=generator).tolist() for length in lengths]
    encoder = Model(SMALL, seed=1).encoder.eval()
    with torch.no_grad():
        together = encoder(Strip.from_sequences(rows))
        alone = torch.cat([encoder(Strip.from_sequences([row])) for row in rows])
    assert (together - alone).abs().max() < 1e-5


def test_an_empty_strip_has_no_hidden_states() -> None:
    assert Model(SMALL).encoder(Strip.from_sequences([])).shape == (0, 24)
    assert Model(SMALL).encoder(Strip.from_sequences([[], [1, 2], []])).shape == (2, 24)


def test_depth_at_call_time_is_a_model_of_that_depth() -> None:
    shallow, deep = (
        Model(replace(SMALL, layers=2), seed=1).eval(),
        Model(replace(SMALL, layers=5), seed=1).eval(),
    )
    assert torch.equal(deep.encoder(STRIP, depth=2), shallow.encoder(STRIP))
    assert torch.equal(shallow.encoder(STRIP, depth=5), deep.encoder(STRIP))


def test_states_are_those_that_depth_goes_through() -> None:
    encoder = Model(SMALL, seed=1).eval().encoder
    states = list(encoder.states(STRIP))
    assert len(states) == SMALL.steps + 1
    for depth, state in enumerate(states):
        if depth:
            assert torch.equal(state, encoder(STRIP, depth=depth))


def loss_and_gradients(model: Model) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    targets = PretrainTargets(
        MaskedTargets(torch.tensor([1, 6, 9]), torch.tensor([5, 2, 60])), torch.tensor([0, 1, 1, 0])
    )
    loss: Tensor = model(STRIP, targets).loss
    loss.backward()
    return loss.detach(), {
        name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None
    }


# Tracing touches deprecated corners of torch itself.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("how", [Computation(recompute=True), Computation(compile=True)], ids=str)
def test_how_it_is_computed_does_not_change_what(how: Computation) -> None:
    model = Model(SMALL, seed=1)
    loss, gradients = loss_and_gradients(model)
    model.encoder.computation = how
    other_loss, other_gradients = loss_and_gradients(model)
    assert float(other_loss) == pytest.approx(float(loss), rel=1e-6)
    for name, gradient in gradients.items():
        assert torch.allclose(other_gradients[name], gradient, rtol=1e-4, atol=1e-7), name


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_compiling_takes_no_longer_for_more_depth() -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    model = Model(SMALL, seed=1)
    model.encoder.computation = Computation(compile=True)
    model.encoder(STRIP, depth=1)
    counters.clear()
    model.encoder(STRIP, depth=12)
    assert not counters["stats"]["unique_graphs"]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_many_models_are_compiled_in_one_process() -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    for tenths in range(1, 11):
        model = Model(replace(SMALL, layers=1, norm_epsilon=tenths / 10), seed=1)
        model.encoder.computation = Computation(compile=True)
        model.encoder(STRIP)
    assert counters["stats"]["unique_graphs"] == 10


def test_recomputation_draws_the_same_dropout_again() -> None:
    model = Model(replace(SMALL, dropout=0.3, attention_dropout=0.3), seed=1).train()
    torch.manual_seed(0)
    loss, gradients = loss_and_gradients(model)
    model.encoder.computation = Computation(recompute=True)
    torch.manual_seed(0)
    other_loss, other_gradients = loss_and_gradients(model)
    assert torch.equal(loss, other_loss)
    for name, gradient in gradients.items():
        assert torch.allclose(other_gradients[name], gradient, atol=1e-7), name


def test_dropout_is_for_training_only() -> None:
    model = Model(replace(SMALL, dropout=0.3, attention_dropout=0.3), seed=1)
    assert not torch.equal(model.train().encoder(STRIP), model.encoder(STRIP))
    assert torch.equal(model.eval().encoder(STRIP), model.encoder(STRIP))


def test_bf16_stays_near_fp32_and_weights_stay_fp32() -> None:
    model = Model(SMALL, seed=1)
    loss, gradients = loss_and_gradients(model)
    model.encoder.computation = Computation(dtype=torch.bfloat16)
    other_loss, other_gradients = loss_and_gradients(model)
    assert other_loss.dtype == torch.float32
    assert float(other_loss) == pytest.approx(float(loss), rel=0.01)
    for name, gradient in gradients.items():
        assert other_gradients[name].dtype == torch.float32
        assert (other_gradients[name] - gradient).norm() <= 0.05 * gradient.norm() + 1e-3, name
    assert model.encoder(STRIP).dtype == torch.bfloat16


class AtOnce(TorchDispatchMode):
    """Count the products that activate what they compute."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += "_linear_pointwise" in str(func)
        return func(*args, **(kwargs or {}))


def scored(model: Model, grad: bool) -> tuple[Tensor, int]:
    with torch.set_grad_enabled(grad), AtOnce() as called:
        return model.encoder(STRIP).detach(), called.count


@pytest.mark.skipif(not _known_at_once(), reason="this CPU has no such product")
@pytest.mark.parametrize("form", ["gelu_tanh", "gelu"])
def test_without_a_backward_pass_bf16_takes_fewer_calls_and_is_no_less_exact(form: Any) -> None:
    model = Model(replace(SMALL, activation=form), seed=1).eval()
    for parameter in model.encoder.ffn.parameters():
        parameter.data.mul_(5)  # or the activation hardly bends
    exact, none = scored(model, False)
    model.encoder.computation = Computation(dtype=torch.bfloat16)
    learning, still_none = scored(model, True)
    scoring, calls = scored(model, False)
    assert (none, still_none, calls) == (0, 0, SMALL.layers)
    off, usual = ((one - exact).square().mean().sqrt() for one in (scoring, learning))
    assert 0 < float(off) < 1.2 * float(usual)
    torch._C._set_mkldnn_enabled(False)
    try:
        assert scored(model, False)[1] == 0
    finally:
        torch._C._set_mkldnn_enabled(True)


@pytest.mark.parametrize(
    "learns", ["up.bias", "up.weight", "down.", "ffn.0.", "norm.bias", "attention.0.qkv"]
)
def test_gradients_are_the_same_whatever_else_is_frozen(learns: str) -> None:
    model = Model(SMALL, seed=1)
    model.encoder.computation = Computation(dtype=torch.bfloat16)
    _, expected = loss_and_gradients(model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(learns in name)
        parameter.grad = None
    _, found = loss_and_gradients(model)
    assert found
    for name, gradient in found.items():
        assert (gradient - expected[name]).norm() <= 0.03 * expected[name].norm() + 1e-6, name


def test_autocast_of_a_network_in_fp32_is_left_to_torch() -> None:
    model = Model(SMALL, seed=1).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = model.encoder(STRIP)
    assert torch.allclose(found.float(), model.encoder(STRIP), atol=0.1)


@pytest.mark.parametrize("isa", ["AVX2", "AVX2_VNNI_2", "AVX512_CORE"])
def test_what_the_library_of_products_must_not_use_is_not_asked_for(isa: str) -> None:
    code = (
        "import torch, tests.model.test_network as here\n"
        "model = here.Model(here.SMALL).eval()\n"
        "model.encoder.computation = here.Computation(dtype=torch.bfloat16)\n"
        "print(here.scored(model, False)[0].shape)"
    )
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("form", ["tanh", "none"])
def test_both_forms_of_gelu_are_told_apart_without_a_backward_pass(form: str) -> None:
    bent = torch.linspace(-3.5, 3.5, 64)  # at its lower end the forms differ by a quarter
    matrix, nothing = torch.zeros(64, 32).bfloat16(), torch.zeros(32)
    weights = FfnWeights(matrix, bent.bfloat16(), matrix.T, nothing, nothing, nothing)
    with torch.no_grad():
        found = widened(torch.ones(3, 32).bfloat16(), weights, form)
        spread = torch.stack([weights.up_bias, weights.up_bias.neg()], 1)[:, 0]  # does not lie close
        apart = weights._replace(up_bias=spread)
        assert torch.equal(found, widened(torch.ones(3, 32).bfloat16(), apart, form))
    expected = torch.nn.functional.gelu(bent.bfloat16().float(), approximate=form)
    assert torch.allclose(found.float(), expected.expand(3, -1), rtol=2**-8, atol=0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1], [1] * 17], "sequence 1 has 17 tokens, the position table holds 16"),
        ([[61]], "token id 61 is outside the table of 61 rows"),
        ([[-1, 3]], "token id -1 is outside the table of 61 rows"),
    ],
)
def test_what_the_tables_have_no_rows_for_is_refused(rows: list[list[int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Model(SMALL).encoder(Strip.from_sequences(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("recompute", [False, True])
def test_the_estimate_of_activations_is_what_the_network_keeps(dtype: torch.dtype, recompute: bool) -> None:
    model = replace(MODELS["demo"], layers=8)
    network = Model(model)
    network.encoder.computation = Computation(dtype=dtype, recompute=recompute)
    tokens, length = 512, 64
    strip = Strip.from_sequences([[1] * length] * (tokens // length))
    masked = torch.arange(0, tokens, 7)[: round(0.15 * tokens)]
    targets = PretrainTargets(
        MaskedTargets(masked, torch.ones_like(masked)), torch.zeros(len(strip), dtype=torch.long)
    )
    weights = {one.untyped_storage().data_ptr() for one in network.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tensor.shape[:1] != (model.vocab_size,):
            kept[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    alive: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        network(strip, targets)
    precision: Any = "fp32" if dtype == torch.float32 else "bf16"
    estimate = activation_bytes(model, tokens, precision, recompute=recompute)
    if not recompute:
        # On a CPU the probabilities of short sequences are kept, where the kernel keeps a number a row.
        estimate += model.layers * tokens * model.heads * (dtype.itemsize * length - 4)
    if recompute:
        # The inside of one step is alive only while it runs again, in the backward pass; its input is kept.
        deep, shallower = (
            activation_bytes(replace(model, layers=layers), tokens, precision, recompute=False)
            for layers in (model.layers, model.layers - 1)
        )
        estimate -= deep - shallower - tokens * model.hidden_size * dtype.itemsize
    assert sum(kept.values()) == pytest.approx(estimate, rel=0.05)


def test_a_strip_that_was_evaluated_can_be_trained_on() -> None:
    strip = Strip.from_sequences([[5, 6], [1, 2, 3, 4]])
    model = Model(SMALL, seed=1)
    with torch.inference_mode():
        model(strip)
    targets = PretrainTargets(MaskedTargets(torch.tensor([1]), torch.tensor([5])), torch.tensor([0, 1]))
    model(strip, targets).loss.backward()


def test_no_masked_piece_is_no_loss_and_not_a_number_never() -> None:
    none = torch.tensor([], dtype=torch.long)
    targets = PretrainTargets(MaskedTargets(none, none), torch.tensor([0, 1, 1, 0]))
    output = Model(SMALL, seed=1)(STRIP, targets)
    assert output.masked.loss == 0
    assert torch.isfinite(output.loss)
    tokens = Model(SMALL, HeadSettings(kind="token"))(STRIP, torch.full((len(STRIP.tokens),), -100))
    assert tokens.loss == 0


def test_an_answer_outside_its_own_sequence_is_refused() -> None:
    targets = SpanTargets(torch.tensor([0, 3, 0, 0]), torch.tensor([0, 1, 0, 0]))
    with pytest.raises(InputError, match="the answer of sequence 1 is at token 3, it has 2"):
        Model(SMALL, HeadSettings(kind="span"))(STRIP, targets)


def test_recomputation_does_not_mind_a_change_of_mode_before_the_backward_pass() -> None:
    model = Model(replace(SMALL, dropout=0.3), seed=1).train()
    model.encoder.computation = Computation(recompute=True)
    hidden = model.encoder(STRIP)
    model.eval()
    hidden.sum().backward()


@pytest.mark.skipif(not fast_at_bf16(torch.device("cpu")), reason="takes a CPU with bf16")
def test_strips_of_ever_new_lengths_take_no_more_memory() -> None:
    """In a process of its own: the peak is the process's, and what products prepare is read once."""
    script = """
import resource, torch
from albertine.model.encoder import Computation
from albertine.model.network import Model
from albertine.model.strip import Strip
from albertine.settings import MODELS

network = Model(MODELS["demo"])
network.encoder.computation = Computation(torch.bfloat16)
for length in range(100, 300):
    network.encoder(Strip.from_sequences([[5] * (length % 113 + 7)] * (length // 50))).sum().backward()
    if length == 120:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 200e6
