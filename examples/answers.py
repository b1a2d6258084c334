"""For an engineer: a tuned checkpoint as a function, asked in bulk, and handed on to `transformers`.

    python examples/answers.py MODEL texts.txt --out MODEL_FOR_OTHERS

MODEL is a run of `albertine finetune` for one text or two, or a checkpoint of `transformers`.
Lines of texts.txt are answered in order; two texts of a pair are parted by a tab.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import albertine
from albertine.interop.convert import convert


def main() -> None:
    """Answer every line, and say how fast."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("model")
    asked.add_argument("texts", type=Path)
    asked.add_argument("--out", type=Path, help="write the model as a folder of transformers")
    given = asked.parse_args()

    judge = albertine.pipeline(given.model)
    lines = [line for line in given.texts.read_text(encoding="utf-8").splitlines() if line]
    first, *second = zip(*(line.split("\t") for line in lines), strict=True)

    started = time.monotonic()
    answers = judge(list(first), *map(list, second))  # together, whatever the lengths
    seconds = time.monotonic() - started

    for line, answer in zip(lines, answers, strict=True):
        print(json.dumps({"text": line, **answer}, ensure_ascii=False))
    print(f"{len(lines) / seconds:,.0f} texts a second", file=sys.stderr)

    if given.out is not None:
        convert(given.model, given.out)  # the same weights, verified as they are written
        print(f"{given.out}: opens with transformers.pipeline", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except albertine.AlbertineError as error:
        sys.exit(str(error))
