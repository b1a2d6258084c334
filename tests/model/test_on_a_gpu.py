"""What would run on a GPU, on tensors that have a shape, a type and a device but no values.

They refuse much of what a GPU would, as a tensor that was left on the CPU among others. So
this finds wrong calls of a forward pass where there is no GPU; it finds no wrong value, and
says nothing of backward passes.
"""

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from albertine.model.encoder import Computation
from albertine.model.heads import MaskedTargets, PretrainTargets
from albertine.model.network import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.train.optimizers import Optimizers
from albertine.train.settings import OptimizerName, TrainSettings

SMALL = ModelSettings(vocab_size=61, embedding_size=16, hidden_size=32, layers=3, heads=4, max_length=16)
LENGTHS = (5, 2, 5, 1)
SEQUENCES, TOKENS = len(LENGTHS), sum(LENGTHS)


class Called(TorchDispatchMode):
    """Remember which operations were called, and what the kernel for strips was given."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.names: list[str] = []
        self.strips: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        if "varlen_attn" in str(func):
            self.strips.append(args)
        return func(*args, **(kwargs or {}))


def on_gpu(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="cuda")


def numbers(*shape: int) -> Tensor:
    return on_gpu(*shape, dtype=torch.long)


def a_strip() -> Strip:
    offsets = torch.tensor([0, *LENGTHS]).cumsum(0)
    strip = Strip(torch.zeros(TOKENS, dtype=torch.long), torch.zeros(TOKENS, dtype=torch.long), offsets)
    assert strip.lengths == list(LENGTHS)  # read once, while there are values
    return strip


def on_the_gpu(strip: Strip) -> Strip:
    """Move a strip; what it works out from its offsets takes values, so it has that already."""
    moved = object.__new__(Strip)
    ids = numbers(TOKENS)
    moved.__dict__.update(tokens=ids, types=ids, offsets=strip.offsets, lengths=strip.lengths)
    moved.__dict__.update(positions=ids, first=numbers(SEQUENCES))
    return moved


def weights_of(network: Model) -> dict[str, Tensor]:
    return {name: on_gpu(*one.shape) for name, one in network.named_parameters()}


def run(model: ModelSettings, head: HeadSettings, dtype: torch.dtype, targets: Any = None) -> tuple[Any, int]:
    """Run a network; return what it says and how often it called the kernel for strips."""
    network = Model(model, head).eval()
    network.encoder.computation = Computation(dtype=dtype)
    strip = a_strip()
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), Called() as called:
        given = () if targets is None else (targets(),)
        output = functional_call(network, weights_of(network), (on_the_gpu(strip), *given))
    assert not any("mkldnn" in name for name in called.names)
    for query, key, value, *offsets in (arguments[:5] for arguments in called.strips):
        assert {one.device.type for one in (query, key, value, *offsets)} == {"cuda"}
        assert {one.dtype for one in offsets} == {torch.int32}
    return output, len(called.strips)


TARGETS: dict[str, Any] = {
    "pretrain": lambda: PretrainTargets(MaskedTargets(numbers(3), numbers(3)), numbers(SEQUENCES)),
    "mlm": lambda: MaskedTargets(numbers(3), numbers(3)),
    "classify": lambda: numbers(SEQUENCES),
    "regress": lambda: on_gpu(SEQUENCES),
    "choice": lambda: numbers(SEQUENCES // 2),
    "token": lambda: numbers(TOKENS),
}
LABELS = {"regress": 1, "choice": 1}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_head_has_its_loss_there(kind: Any, dtype: torch.dtype) -> None:
    head = HeadSettings(kind=kind, labels=LABELS.get(kind, 2), options=2)
    output, calls = run(SMALL, head, dtype, TARGETS[kind])
    assert output.loss.device.type == "cuda"
    assert output.loss.dtype == torch.float32
    assert calls == (SMALL.layers if dtype == torch.bfloat16 else 0)


def test_spans_are_scored_there() -> None:
    output, _ = run(SMALL, HeadSettings(kind="span", answerable=True), torch.bfloat16)
    assert output.start_logits.shape == (TOKENS,)
    assert {one.device.type for one in (output.end_logits, output.answerable_logits)} == {"cuda"}


def test_heads_that_the_kernel_does_not_take_go_without() -> None:
    output, calls = run(replace(SMALL, hidden_size=40), HeadSettings(kind="mlm"), torch.bfloat16)
    assert output.logits.shape == (TOKENS, SMALL.vocab_size)
    assert calls == 0


@pytest.mark.parametrize("name", get_args(OptimizerName))
def test_optimizers_move_weights_there(name: OptimizerName) -> None:
    network = Model(SMALL)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        for module in network.modules():
            for key, weight in list(module.named_parameters(recurse=False)):
                moved = torch.nn.Parameter(on_gpu(*weight.shape))
                moved.grad = on_gpu(*weight.shape)
                setattr(module, key, moved)
        optimizers = Optimizers(network, TrainSettings(optimizer=name), torch.bfloat16)
        optimizers.step(0.1)
        optimizers.step(0.1)
        assert {one.device.type for one in network.parameters()} == {"cuda"}
