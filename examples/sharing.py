"""For a student: what sharing saves, and what it does to the states, in one table for any shape.

    python examples/sharing.py --hidden 768 --layers 12

Parameters are exact, from the settings alone. The last columns are measured on fresh weights:
how far a layer moves a state, in degrees, the first layer and the last.
"""

import argparse
import sys
from dataclasses import replace
from typing import Any

import torch

import albertine
from albertine.model.cost import count_flops
from albertine.model.parameters import count_parameters
from albertine.settings import MODELS
from albertine.study.transitions import transitions

PLANS: dict[str, dict[str, Any]] = {
    "BERT": {"share": "none"},
    "shared feed-forward": {"share": "ffn"},
    "shared attention": {"share": "attention"},
    "two groups": {"share": "all", "groups": 2},
    "ALBERT": {"share": "all"},
}


def main() -> None:
    """Print a row for each plan of sharing."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--hidden", type=int, default=256)
    asked.add_argument("--layers", type=int, default=6)
    given = asked.parse_args()
    shape = replace(
        MODELS["albert-base"], hidden_size=given.hidden, layers=given.layers, heads=max(1, given.hidden // 64)
    )
    draw = torch.Generator().manual_seed(0)
    strip = albertine.Strip.from_sequences([torch.randint(5, 30_000, (64,), generator=draw).tolist()])

    print(f"{'plan':<20}{'parameters':>14}{'MFLOP/piece':>13}{'first':>8}{'last':>8}")
    for name, sharing in PLANS.items():
        model = replace(shape, **sharing)
        moves = transitions(albertine.Model(model).eval(), [strip])
        flops = count_flops(model, 128).forward_per_token / 1e6
        row = f"{name:<20}{count_parameters(model).encoder:>14,}{flops:>13,.1f}"
        print(f"{row}{moves[0].angle:>7.1f}°{moves[-1].angle:>7.1f}°")


if __name__ == "__main__":
    try:
        main()
    except albertine.AlbertineError as error:
        sys.exit(str(error))
