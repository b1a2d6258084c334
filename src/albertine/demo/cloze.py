"""A multiple choice out of any text: which of four words stood there? The text has the answers.

Every question is two segments of a sample, and four versions of the second one that differ in
one word. Wrong words are drawn as often as they occur, so how common a word is says next to nothing.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import Split
from albertine.corpus.samples import Sample, Sampler
from albertine.corpus.settings import Objective
from albertine.pretrain.unigram import Frequencies
from albertine.text.pieces import WholeWords
from albertine.whole import new_folder

_OPTIONS = 4
_LONGEST = 40  # pieces
_TRIES = 4  # samples looked at for a question: some have no word of one piece, some words come twice


def write_cloze(corpus: Corpus, out: Path, sizes: dict[Split, int], seed: int) -> dict[str, Any]:
    """Write questions into a folder, SPLIT.jsonl.

    Returns how many there are of each split, and how often the commonest word is the right one.
    """
    counts = Frequencies.of(corpus).counts
    found: dict[str, Any] = {}
    with new_folder(out) as folder:
        for split, size in sizes.items():
            rows = list(_questions(corpus, split, size, counts, seed))
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row, _ in rows)
            (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
            hits = [row["label"] == int(np.argmax(often)) for row, often in rows]
            found[split] = {"questions": len(rows), "commonest": float(np.mean(hits)) if hits else None}
    return found


def _questions(
    corpus: Corpus, split: Split, size: int, counts: NDArray[np.int64], seed: int
) -> Iterator[tuple[dict[str, Any], NDArray[np.int64]]]:
    """Yield questions, each with how often its words occur."""
    whole, tokenizer = WholeWords(corpus.tokenizer), corpus.tokenizer
    words = np.flatnonzero(whole.known & (counts > 0))
    if len(words) < 2 * _OPTIONS:
        return
    shares = counts[words] / counts[words].sum()
    draw = np.random.Generator(np.random.PCG64([seed, size]))
    sampler = Sampler(corpus, Objective("sop", _LONGEST, short=0.0, seed=seed), split)
    made = 0
    for number in range(min(_TRIES * size, len(sampler))):
        if made == size:
            return
        (sample,) = sampler.draw(np.array([number]))
        first, second = _in_order(sample)
        places = whole.of(second)
        if not len(places):
            continue
        at = int(draw.choice(places))
        right = int(second[at])
        options = draw.permutation([right, *draw.choice(words, _OPTIONS - 1, p=shares)])
        if (
            len(set(options.tolist())) < _OPTIONS
        ):  # all four drawn anew, or the right one would be the commonest
            continue
        made += 1
        row = {
            "context": tokenizer.text(first.tolist()),
            "question": "",
            "options": [_with(second, at, int(one), corpus) for one in options],
            "label": options.tolist().index(right),
        }
        yield row, counts[options]


def _in_order(sample: Sample) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return both segments as they followed each other, without the pieces between them."""
    ids = sample.original()
    first, second = ids[sample.types == 0][1:-1], ids[sample.types == 1][:-1]
    return (second, first) if sample.label else (first, second)


def _with(ids: NDArray[np.int32], at: int, word: int, corpus: Corpus) -> str:
    changed = ids.tolist()
    changed[at] = word
    return corpus.tokenizer.text(changed)
