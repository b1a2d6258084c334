"""For an engineer: a tuned checkpoint as a function, asked in bulk, and handed on to `transformers`.

    python examples/batch_prediction.py MODEL texts.txt --out MODEL_FOR_OTHERS

MODEL is a run of `albertine finetune` for one text or two, or a checkpoint of `transformers`.
Lines of texts.txt are answered in order; two texts of a pair are parted by a tab.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import albertine
from albertine.interop.convert import convert_checkpoint


def main() -> None:
    """Answer every line, and say how fast."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("texts", type=Path)
    parser.add_argument("--out", type=Path, help="write the model as a folder of transformers")
    args = parser.parse_args()

    classifier = albertine.pipeline(args.model)
    lines = [line for line in args.texts.read_text(encoding="utf-8").splitlines() if line]
    first, *second = zip(*(line.split("\t") for line in lines), strict=True)

    started = time.monotonic()
    predictions = classifier(list(first), *map(list, second))  # together, whatever the lengths
    seconds = time.monotonic() - started

    for line, answer in zip(lines, predictions, strict=True):
        print(json.dumps({"text": line, **answer}, ensure_ascii=False))
    print(f"{len(lines) / seconds:,.0f} texts a second", file=sys.stderr)

    if args.out is not None:
        convert_checkpoint(args.model, args.out)  # the same weights, verified as they are written
        print(f"{args.out}: opens with transformers.pipeline", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except albertine.AlbertineError as error:
        sys.exit(str(error))
