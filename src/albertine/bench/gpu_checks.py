"""Checks of the GPU benchmark: a random model gives the same results, by the code that is meant to run.

Both sides of a comparison get the same random weights, tokens and gradients. So they differ only in device,
precision and code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from albertine.errors import WorkError
from albertine.model.model import Model
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.train.optimizers import Optimizers
from albertine.train.settings import OptimizerName, PretrainTrainSettings

_FIRST_TOKEN = 5  # tokens 0 to 4 are special


def random_model(settings: ModelSettings) -> Model:
    """Return a model with the same random weights at each call."""
    torch.manual_seed(0)
    return Model(settings, HeadSettings(kind="pretrain"))


def random_batch(
    settings: ModelSettings, lengths: tuple[int, ...], device: str = "cpu"
) -> tuple[Strip, PretrainingTargets]:
    """Return a strip of random tokens, every seventh of which is to be predicted."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(_FIRST_TOKEN, settings.vocab_size, (sum(lengths),), generator=generator)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    strip = Strip(tokens, torch.zeros_like(tokens), offsets)
    indices = torch.arange(0, len(tokens), 7)
    order_labels = torch.arange(len(lengths)) % 2
    targets = MaskedLMTargets(indices.to(device), tokens[indices].to(device))
    return strip.to(device), PretrainingTargets(targets, order_labels.to(device))


def hidden_states(model: Model, strip: Strip) -> list[Tensor]:
    """Return the hidden states."""
    with torch.inference_mode():
        return [model.encoder(strip)]


def gradients(model: Model, strip: Strip, targets: PretrainingTargets) -> list[Tensor]:
    """Return the gradient of each parameter that has one, in order."""
    model.zero_grad()
    model(strip, targets).loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def optimizer_updates(settings: ModelSettings, optimizer: OptimizerName, device: str) -> list[Tensor]:
    """Return the change of each parameter by two steps of an optimizer, with random gradients."""
    model = random_model(settings).to(device)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizers = Optimizers(model, PretrainTrainSettings(optimizer=optimizer), torch.float32)
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(device)
        optimizers.step(1e-2)
    return [parameter.detach() - old for old, parameter in zip(before, model.parameters(), strict=True)]


def relative_error(actual: list[Tensor], expected: list[Tensor]) -> float:
    """Return the norm of the difference of all values, divided by that of the expected ones."""
    pairs = [(a.double().cpu(), e.double().cpu()) for a, e in zip(actual, expected, strict=True)]
    difference = sum(float((a - e).square().sum()) for a, e in pairs)
    return float((difference / sum(float(e.square().sum()) for _, e in pairs)) ** 0.5)


@contextmanager
def checked_compilation() -> Iterator[None]:
    """Raise `WorkError` if the body compiles nothing."""
    torch.compiler.reset()  # a graph of an earlier path would be used again
    graphs_before = _compiled_graphs()
    yield
    if _compiled_graphs() == graphs_before:
        raise WorkError("nothing was compiled")


def _compiled_graphs() -> int:
    """Return how many graphs torch has compiled in this process."""
    from torch._dynamo.utils import counters  # imports much

    return int(counters["stats"]["unique_graphs"])


@contextmanager
def checked_attention(*, is_required: bool) -> Iterator[None]:
    """Raise `WorkError` if variable-length attention is required and the body does not call it.

    Not for compiled code: a dispatch mode keeps torch from compiling, also in later calls of the same code.
    """
    with _CalledOperations() as operations:
        yield
    if is_required and not any("varlen_attn" in name for name in operations.names):
        raise WorkError("variable-length attention was not called")


class _CalledOperations(TorchDispatchMode):
    """Records the names of the called operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))
