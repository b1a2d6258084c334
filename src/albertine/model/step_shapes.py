"""Names and shapes of the parameters of a layer, from the settings alone.

Layers that share their weights can differ in these parameters; see `step_differences.py`.
"""

from albertine.settings import ModelSettings

STEP_DIFFERENCES_PREFIX = "encoder.step_differences."


def matrix_shapes(settings: ModelSettings) -> dict[str, tuple[int, int]]:
    """Return the shape [out, in] of each matrix of a layer, by its name."""
    h, f = settings.hidden_size, settings.effective_ffn_size
    return {"qkv": (3 * h, h), "out": (h, h), "up": (f, h), "down": (h, f)}


def vector_sizes(settings: ModelSettings) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes of the biases and norms of an attention and of an FFN block, by their names."""
    h, f = settings.hidden_size, settings.effective_ffn_size
    attention = {"qkv_bias": 3 * h, "out_bias": h, "norm": h, "norm_bias": h}
    return attention, {"up_bias": f, "down_bias": h, "norm": h, "norm_bias": h}


def starts_at_zero(name: str) -> bool:
    """Return whether a parameter is 0 in a new model: then all differences between its layers are 0."""
    return name.startswith(STEP_DIFFERENCES_PREFIX) and not name.endswith(".inner")
