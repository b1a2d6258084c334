"""Forward passes and optimizer steps on fake GPU tensors, which have a shape, a dtype and a device only.

Operations on fake tensors raise many of the errors that a GPU would raise, for example for a
tensor left on the CPU. So these tests find wrong calls on a machine without a GPU. They check no
values and no backward pass.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from albertine.model.attention import AttentionLayout
from albertine.model.encoder import ComputeOptions
from albertine.model.kernels.flash_attention import flash_attention
from albertine.model.model import Model
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.train.optimizers import Optimizers
from albertine.train.settings import OptimizerName, PretrainTrainSettings

SMALL = ModelSettings(vocab_size=61, embedding_size=16, hidden_size=32, layers=3, heads=4, max_length=16)
LENGTHS = (5, 2, 5, 1)
SEQUENCES, TOKENS = len(LENGTHS), sum(LENGTHS)


class CallRecorder(TorchDispatchMode):
    """Records the names of all called operations, and the arguments of flash attention."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.names: list[str] = []
        self.varlen_calls: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        if "varlen_attn" in str(func):
            self.varlen_calls.append(args)
        return func(*args, **(kwargs or {}))


def gpu_tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="cuda")


def gpu_ids(*shape: int) -> Tensor:
    return gpu_tensor(*shape, dtype=torch.long)


def make_strip() -> Strip:
    offsets = torch.tensor([0, *LENGTHS]).cumsum(0)
    strip = Strip(torch.zeros(TOKENS, dtype=torch.long), torch.zeros(TOKENS, dtype=torch.long), offsets)
    assert strip.lengths == list(LENGTHS)  # caches the lengths, which need the values of the offsets
    return strip


def strip_on_gpu(strip: Strip) -> Strip:
    """Return the strip on the fake GPU, with its cached properties set, since they need real values."""
    gpu_strip = object.__new__(Strip)
    ids = gpu_ids(TOKENS)
    gpu_strip.__dict__.update(tokens=ids, segments=ids, offsets=strip.offsets, lengths=strip.lengths)
    gpu_strip.__dict__.update(positions=ids, cls_indices=gpu_ids(SEQUENCES))
    return gpu_strip


def gpu_weights(model: Model) -> dict[str, Tensor]:
    return {name: gpu_tensor(*parameter.shape) for name, parameter in model.named_parameters()}


def run_on_fake_gpu(
    settings: ModelSettings,
    head: HeadSettings,
    dtype: torch.dtype,
    make_targets: Callable[[], Any] | None = None,
    *,
    kernels: bool = True,
) -> tuple[Any, int]:
    """Run a model; return its output and the number of calls of flash attention."""
    model = Model(settings, head).eval()
    model.configure(ComputeOptions(dtype=dtype, kernels=kernels))
    strip = make_strip()
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), CallRecorder() as calls:
        targets = None if make_targets is None else make_targets()
        output = functional_call(model, gpu_weights(model), (strip_on_gpu(strip), targets))
    assert not any("mkldnn" in name for name in calls.names)
    for query, key, value, *offsets in (arguments[:5] for arguments in calls.varlen_calls):
        assert {tensor.device.type for tensor in (query, key, value, *offsets)} == {"cuda"}
        assert {tensor.dtype for tensor in offsets} == {torch.int32}
    return output, len(calls.varlen_calls)


TARGET_FACTORIES: dict[str, Callable[[], Any]] = {
    "pretrain": lambda: PretrainingTargets(MaskedLMTargets(gpu_ids(3), gpu_ids(3)), gpu_ids(SEQUENCES)),
    "mlm": lambda: MaskedLMTargets(gpu_ids(3), gpu_ids(3)),
    "classify": lambda: gpu_ids(SEQUENCES),
    "regress": lambda: gpu_tensor(SEQUENCES),
    "choice": lambda: gpu_ids(SEQUENCES // 2),
    "token": lambda: gpu_ids(TOKENS),
}
LABELS = {"regress": 1, "choice": 1}


@pytest.mark.parametrize("kind", [*TARGET_FACTORIES, "matching"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_head_has_a_loss_on_gpu(kind: Any, dtype: torch.dtype) -> None:
    is_matching = kind == "matching"
    kind = "classify" if is_matching else kind
    head = HeadSettings(kind=kind, labels=LABELS.get(kind, 2), options=2, matching=is_matching)
    output, flash_calls = run_on_fake_gpu(SMALL, head, dtype, TARGET_FACTORIES[kind])
    assert output.loss.device.type == "cuda"
    assert output.loss.dtype == torch.float32
    assert flash_calls == (SMALL.layers if dtype == torch.bfloat16 else 0)


def test_span_head_on_gpu() -> None:
    output, _ = run_on_fake_gpu(SMALL, HeadSettings(kind="span", answerable=True), torch.bfloat16)
    assert output.start_logits.shape == (TOKENS,)
    assert output.end_logits.device.type == output.answerable_logits.device.type == "cuda"


def test_unsupported_head_size_skips_flash_attention() -> None:
    settings = replace(SMALL, hidden_size=40)
    output, flash_calls = run_on_fake_gpu(settings, HeadSettings(kind="mlm"), torch.bfloat16)
    assert output.logits.shape == (TOKENS, SMALL.vocab_size)
    assert flash_calls == 0


def test_without_kernels_flash_attention_is_not_called() -> None:
    head = HeadSettings(kind="mlm")
    output, flash_calls = run_on_fake_gpu(SMALL, head, torch.bfloat16, kernels=False)
    assert output.logits.shape == (TOKENS, SMALL.vocab_size)
    assert flash_calls == 0


@pytest.mark.parametrize("name", get_args(OptimizerName))
def test_optimizers_step_on_gpu(name: OptimizerName) -> None:
    model = Model(SMALL)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        for module in model.modules():
            for key, parameter in list(module.named_parameters(recurse=False)):
                gpu_parameter = torch.nn.Parameter(gpu_tensor(*parameter.shape))
                gpu_parameter.grad = gpu_tensor(*parameter.shape)
                setattr(module, key, gpu_parameter)
        optimizers = Optimizers(model, PretrainTrainSettings(optimizer=name), torch.bfloat16)
        optimizers.step(0.1)
        optimizers.step(0.1)
        assert {parameter.device.type for parameter in model.parameters()} == {"cuda"}


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_of_causal_samples_sees_nothing_to_the_right(*, causal: bool) -> None:
    layout = AttentionLayout.from_strip(replace(make_strip(), causal=causal))
    with FakeTensorMode(allow_non_fake_inputs=True), CallRecorder() as calls:
        flash_attention(gpu_tensor(TOKENS, 96, dtype=torch.bfloat16), layout, 4)
    ((*_, window),) = calls.varlen_calls
    assert list(window) == ([-1, 0] if causal else [-1, -1])


def test_flash_attention_of_no_sequences() -> None:
    """A process without samples in a micro-batch computes nothing, with gradients of zero."""
    qkv = torch.zeros(0, 96, dtype=torch.bfloat16, requires_grad=True)
    strip = Strip(
        torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    )
    context = flash_attention(qkv, AttentionLayout.from_strip(strip), 4)
    assert context.shape == (0, 32)
    context.sum().backward()
    assert qkv.grad is not None
