"""The default size of a micro-batch in training."""

import torch

from albertine.device import choose_precision, default_micro_batch_tokens
from albertine.model.cost import Precision, activation_bytes
from albertine.settings import ModelSettings
from albertine.train.settings import TrainerSettings

_LARGEST, _SMALLEST = 131_072, 512
# Of the memory of a GPU. The rest is for weights, optimizer, heads of tasks and libraries.
_ACTIVATION_FRACTION = 0.4


def training_micro_batch_tokens(settings: TrainerSettings, model: ModelSettings, device: torch.device) -> int:
    """Return the maximum of tokens per micro-batch: that of the settings, or the default of the device."""
    if settings.micro_batch_tokens:
        return settings.micro_batch_tokens
    if device.type != "cuda":
        return default_micro_batch_tokens(device)
    memory = torch.cuda.get_device_properties(device).total_memory
    is_bf16 = choose_precision(settings.precision, device) == torch.bfloat16
    precision: Precision = "bf16" if is_bf16 else "fp32"
    return fitting_micro_batch_tokens(model, memory, precision, recompute=settings.recompute)


def fitting_micro_batch_tokens(
    model: ModelSettings, memory: float, precision: Precision, *, recompute: bool
) -> int:
    """Return the largest power of two of tokens whose activations leave a GPU enough of its memory.

    Large micro-batches keep a GPU busy: Python starts an operation in the same time for few tokens as for
    many (docs/records/first-gpu.md). The estimate has 15% of the tokens predicted, once; a head that reads
    several depths or more tokens takes more.
    """
    tokens = _LARGEST
    while (
        tokens > _SMALLEST
        and activation_bytes(model, tokens, precision, recompute=recompute) > _ACTIVATION_FRACTION * memory
    ):
        tokens //= 2
    return tokens
