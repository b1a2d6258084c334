"""Gives a fine-tuned model activations with outliers, which spoil it in int8 and change nothing in fp32.

    python -m experiments.outliers MODEL OUT --factor 200

In every layer, one value of both normalizations is multiplied by the factor, and the weights that read it are
divided by it. In int8, the other values of these activations then have few levels. The model must have
pre-norm, because otherwise the normalized states are also added to the next ones.
"""

import argparse
from pathlib import Path

import torch

from albertine.interop.load import load_checkpoint
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.tasks.checkpoint_card import read_card
from albertine.text.tokenizer import load_tokenizer

_INDEX = 7  # of the value; the scores depend on it


@torch.no_grad()
def add_outliers(model: Model, factor: float) -> None:
    """Multiply one normalized value by a factor in all layers, and divide the weights that read it."""
    if not model.settings.norm_first:
        raise ValueError("the model must have pre-norm (--model.norm-first)")
    if model.settings.has_step_differences:
        raise ValueError("the model must have no differences by step (step_rank, step_vectors)")
    weights = dict(model.named_parameters())
    for name in weights:
        block, _, rest = name.rpartition(".norm.weight")
        if not rest and block.startswith(("encoder.attention.", "encoder.ffn.")):
            reader = "qkv" if block.startswith("encoder.attention.") else "up"
            weights[f"{block}.norm.weight"][_INDEX] *= factor
            weights[f"{block}.norm.bias"][_INDEX] *= factor
            weights[f"{block}.{reader}.weight"][:, _INDEX] /= factor


def main() -> None:
    """Read the options and write the model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--factor", type=float, default=200.0)
    options = parser.parse_args()
    model = load_checkpoint(options.model)
    card = read_card(options.model, model.settings, model.head_settings, model.label_names)
    add_outliers(model, options.factor)
    save_folder(model, options.out, tokenizer=load_tokenizer(options.model))
    card.write(options.out)


if __name__ == "__main__":
    main()
