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

from albertine.atomic import atomic_folder
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.manifest import CorpusSplit
from albertine.corpus.settings import ObjectiveSettings
from albertine.pretrain.unigram_baseline import TokenFrequencies
from albertine.text.token_text import WholeWordTokens

_NUM_OPTIONS = 4
_MAX_LENGTH = 40  # pieces
_SAMPLES_PER_QUESTION = (
    4  # samples looked at for a question: some have no word of one piece, some words come twice
)


def write_cloze_questions(
    corpus: Corpus, out: Path, sizes: dict[CorpusSplit, int], seed: int
) -> dict[str, Any]:
    """Write questions into a folder, SPLIT.jsonl.

    Returns how many there are of each split, and how often the commonest word is the right one.
    """
    counts = TokenFrequencies.from_corpus(corpus).counts
    summary: dict[str, Any] = {}
    with atomic_folder(out) as folder:
        for split, size in sizes.items():
            rows = list(_questions(corpus, split, size, counts, seed))
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row, _ in rows)
            (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
            is_most_common = [row["label"] == int(np.argmax(option_counts)) for row, option_counts in rows]
            summary[split] = {
                "questions": len(rows),
                "commonest": float(np.mean(is_most_common)) if is_most_common else None,
            }
    return summary


def _questions(
    corpus: Corpus, split: CorpusSplit, size: int, counts: NDArray[np.int64], seed: int
) -> Iterator[tuple[dict[str, Any], NDArray[np.int64]]]:
    """Yield questions, each with how often its words occur."""
    whole_words, tokenizer = WholeWordTokens(corpus.tokenizer), corpus.tokenizer
    word_ids = np.flatnonzero(whole_words.is_word & (counts > 0))
    if len(word_ids) < 2 * _NUM_OPTIONS:
        return
    probabilities = counts[word_ids] / counts[word_ids].sum()
    rng = np.random.Generator(np.random.PCG64([seed, size]))
    sampler = PretrainDataset(
        corpus, ObjectiveSettings("sop", _MAX_LENGTH, short_seq_prob=0.0, seed=seed), split
    )
    num_questions = 0
    for sample_index in range(min(_SAMPLES_PER_QUESTION * size, len(sampler))):
        if num_questions == size:
            return
        (sample,) = sampler.draw(np.array([sample_index]))
        first, second = _segments_in_text_order(sample)
        positions = whole_words.positions(second)
        if not len(positions):
            continue
        position = int(rng.choice(positions))
        answer = int(second[position])
        options = rng.permutation([answer, *rng.choice(word_ids, _NUM_OPTIONS - 1, p=probabilities)])
        if (
            len(set(options.tolist())) < _NUM_OPTIONS
        ):  # all four drawn anew, or the right one would be the commonest
            continue
        num_questions += 1
        row = {
            "context": tokenizer.decode(first.tolist()),
            "question": "",
            "options": [_text_with_word(second, position, int(one), corpus) for one in options],
            "label": options.tolist().index(answer),
        }
        yield row, counts[options]


def _segments_in_text_order(sample: PretrainSample) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return both segments as they followed each other, without the pieces between them."""
    ids = sample.original_tokens()
    first, second = ids[sample.segments == 0][1:-1], ids[sample.segments == 1][:-1]
    return (second, first) if sample.pair_label else (first, second)


def _text_with_word(ids: NDArray[np.int32], position: int, token_id: int, corpus: Corpus) -> str:
    changed_ids = ids.tolist()
    changed_ids[position] = token_id
    return corpus.tokenizer.decode(changed_ids)
