"""Compare schemes of parameter sharing: parameters, operations and changes from layer to layer.

    python examples/compare_sharing.py --hidden 768 --layers 12

Parameters and operations are computed from the settings. The last two columns are measured with
random weights: the angle in degrees between input and output of the first and of the last layer.
"""

import argparse
import sys
from dataclasses import replace
from typing import Any

import torch

import albertine
from albertine.info.transitions import layer_transitions
from albertine.model.cost import count_flops
from albertine.model.parameter_counts import count_parameters
from albertine.settings import MODEL_PRESETS

SHARING_SCHEMES: dict[str, dict[str, Any]] = {
    "BERT": {"share": "none"},
    "shared feed-forward": {"share": "ffn"},
    "shared attention": {"share": "attention"},
    "two groups": {"share": "all", "groups": 2},
    "ALBERT": {"share": "all"},
}


def main() -> None:
    """Print a row for each sharing scheme."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    args = parser.parse_args()
    shape = replace(
        MODEL_PRESETS["albert-base"],
        hidden_size=args.hidden,
        layers=args.layers,
        heads=max(1, args.hidden // 64),
    )
    generator = torch.Generator().manual_seed(0)
    strip = albertine.Strip.from_sequences([torch.randint(5, 30_000, (64,), generator=generator).tolist()])

    print(f"{'sharing':<20}{'parameters':>14}{'MFLOP/token':>13}{'first':>8}{'last':>8}")
    for name, scheme in SHARING_SCHEMES.items():
        settings = replace(shape, **scheme)
        transitions = layer_transitions(albertine.Model(settings).eval(), [strip])
        flops = count_flops(settings, 128).forward_per_token / 1e6
        row = f"{name:<20}{count_parameters(settings).encoder:>14,}{flops:>13,.1f}"
        print(f"{row}{transitions[0].angle:>7.1f}°{transitions[-1].angle:>7.1f}°")


if __name__ == "__main__":
    try:
        main()
    except albertine.AlbertineError as error:
        sys.exit(str(error))
