"""Parameter counts as published in the ALBERT paper, and a function that reproduces them.

The paper rounds to millions and does not say which parameters it counts. One rule, found
by trial, gives every row of its tables: count the encoder without the pre-training heads,
position embeddings of width H (the released models have width E), and the pooler only in
models that share parameters. The exception is ALBERT-xxlarge: Table 1 says 235M and the
text 233M, but Table 12 says 225M for the same model (width 4096, all shared), as the rule does.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import get_args

from albertine.model.parameter_counts import count_parameters
from albertine.settings import MODEL_PRESETS, ModelSettings
from albertine.settings.model import Sharing

# Millions, as printed in Table 1.
TABLE_1: Mapping[str, int] = MappingProxyType(
    {
        "bert-base": 108,
        "bert-large": 334,
        "bert-xlarge": 1270,
        "albert-base": 12,
        "albert-large": 18,
        "albert-xlarge": 60,
        "albert-xxlarge": 235,
    }
)


def _albert_base(embedding_size: int, share: Sharing) -> ModelSettings:
    return replace(MODEL_PRESETS["albert-base"], embedding_size=embedding_size, share=share)


_TABLE_3_SHARING: tuple[Sharing, ...] = ("all", "none")

# Rows of the ablation tables: table, row, model, millions as printed.
ABLATIONS: tuple[tuple[str, str, ModelSettings, int], ...] = (
    *(
        ("Table 3", f"E={size}, {share}", _albert_base(size, share), millions)
        for size, column in ((64, (10, 87)), (128, (12, 89)), (256, (16, 93)), (768, (31, 108)))
        for share, millions in zip(_TABLE_3_SHARING, column, strict=True)
    ),
    *(
        ("Table 4", f"E={size}, {share}", _albert_base(size, share), millions)
        for size, column in ((768, (31, 83, 57, 108)), (128, (12, 64, 38, 89)))
        for share, millions in zip(get_args(Sharing), column, strict=True)
    ),
    *(
        ("Table 11", f"{layers} layers", replace(MODEL_PRESETS["albert-large"], layers=layers), 18)
        for layers in (1, 3, 6, 12, 24, 48)
    ),
    *(
        (
            "Table 12",
            f"H={size}",
            replace(MODEL_PRESETS["albert-large"], layers=3, hidden_size=size, heads=size // 64),
            millions,
        )
        for size, millions in ((1024, 18), (2048, 60), (4096, 225), (6144, 499))
    ),
)


def paper_parameter_count(model: ModelSettings) -> int:
    """Return the number of parameters of a model as the paper counts them."""
    parts = count_parameters(model)
    wider_positions = model.max_length * (model.hidden_size - model.embedding_size)
    nothing_shared = model.share == "none" or model.groups == model.layers > 1
    uncounted_pooler = parts.pooler if nothing_shared else 0
    return parts.encoder + wider_positions - uncounted_pooler
