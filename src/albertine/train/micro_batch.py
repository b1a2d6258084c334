"""The default size of a micro-batch in training."""

import torch

from albertine.device import choose_precision, default_micro_batch_tokens
from albertine.model.cost import MASKED_FRACTION, Precision, activation_bytes
from albertine.settings import ModelSettings
from albertine.train.settings import TrainerSettings

_MAX_TOKENS, _MIN_TOKENS = 131_072, 512
# Of the memory of a GPU. The rest is for weights, optimizer, heads of tasks and libraries.
_ACTIVATION_FRACTION = 0.4


def training_micro_batch_tokens(
    settings: TrainerSettings,
    model: ModelSettings,
    device: torch.device,
    predicted_fraction: float = MASKED_FRACTION,
) -> int:
    """Return the maximum tokens per micro-batch: the setting, or a default for the device and the model.

    Args:
        settings: settings of the training.
        model: settings of the model.
        device: device of the training.
        predicted_fraction: fraction of the tokens that are predicted in pre-training.
    """
    if settings.micro_batch_tokens:
        return settings.micro_batch_tokens
    if device.type != "cuda":
        return default_micro_batch_tokens(device)
    # Runs side by side have a fraction each.
    fraction = torch.cuda.get_per_process_memory_fraction()
    memory = fraction * torch.cuda.get_device_properties(device).total_memory
    is_bf16 = choose_precision(settings.precision, device) == torch.bfloat16
    precision: Precision = "bf16" if is_bf16 else "fp32"
    return fitting_micro_batch_tokens(
        model, memory, precision, recompute=settings.recompute, predicted_fraction=predicted_fraction
    )


def fitting_micro_batch_tokens(
    model: ModelSettings,
    memory: float,
    precision: Precision,
    *,
    recompute: bool,
    predicted_fraction: float = MASKED_FRACTION,
) -> int:
    """Return the largest power of two of tokens whose activations fit into 40% of the memory.

    Large micro-batches keep a GPU busy: to start an operation takes Python as long for few tokens as for many
    (docs/records/first-gpu.md). The estimate is for a head that predicts a fraction of the tokens once; other
    heads may need more.
    """

    def needed(tokens: int) -> int:
        return activation_bytes(
            model, tokens, precision, recompute=recompute, masked_fraction=predicted_fraction
        )

    tokens = _MAX_TOKENS
    while tokens > _MIN_TOKENS and needed(tokens) > _ACTIVATION_FRACTION * memory:
        tokens //= 2
    return tokens
