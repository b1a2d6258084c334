"""Predict many texts with a fine-tuned model, and convert the model for `transformers`.

    python examples/batch_prediction.py MODEL texts.txt --out MODEL_FOR_TRANSFORMERS

MODEL is a run of `albertine finetune` on texts or pairs, or a checkpoint of `transformers`.
Each line of texts.txt is one input; the two texts of a pair are separated by a tab.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import albertine
from albertine.interop.convert import convert_checkpoint


def main() -> None:
    """Print a prediction for every line, and the throughput."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("texts", type=Path)
    parser.add_argument("--out", type=Path, help="new folder for the model in the layout of transformers")
    args = parser.parse_args()

    classifier = albertine.pipeline(args.model)
    lines = [line for line in args.texts.read_text(encoding="utf-8").splitlines() if line]
    first, *second = zip(*(line.split("\t") for line in lines), strict=True)

    started = time.monotonic()
    predictions = classifier(list(first), *map(list, second))  # batched, with any mix of lengths
    seconds = time.monotonic() - started

    for line, prediction in zip(lines, predictions, strict=True):
        print(json.dumps({"text": line, **prediction}, ensure_ascii=False))
    print(f"{len(lines) / seconds:,.0f} texts per second", file=sys.stderr)

    if args.out is not None:
        convert_checkpoint(args.model, args.out)  # verifies the written weights
        print(f"{args.out}: load it with transformers.pipeline", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except albertine.AlbertineError as error:
        sys.exit(str(error))
