"""Multiple-choice questions made from any text: one of four words is the original.

Each question holds two segments of a sample, and four versions of the second one that differ in
one word. Wrong words are drawn by their frequency in the text, so frequency alone hardly helps.
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
_MAX_LENGTH = 40  # tokens
# Samples drawn per question: some have no word of a single token, and some draws repeat a word.
_SAMPLES_PER_QUESTION = 4


def write_cloze_questions(
    corpus: Corpus, out: Path, sizes: dict[CorpusSplit, int], seed: int
) -> dict[str, Any]:
    """Write questions to a folder, one file SPLIT.jsonl per split; return counts and a baseline.

    The result has, for each split, the number of questions and the accuracy of choosing the most common word.

    Args:
        corpus: the corpus of whose text the questions are made.
        out: the folder, new or empty.
        sizes: maximum number of questions of each split.
        seed: seed of the samples and of the words.
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
                "most_common_accuracy": float(np.mean(is_most_common)) if is_most_common else None,
            }
    return summary


def _questions(
    corpus: Corpus, split: CorpusSplit, size: int, counts: NDArray[np.int64], seed: int
) -> Iterator[tuple[dict[str, Any], NDArray[np.int64]]]:
    """Yield up to `size` questions, each with the frequencies of its four words."""
    whole_words = WholeWordTokens(corpus.tokenizer)
    word_ids = np.flatnonzero(whole_words.is_word & (counts > 0))
    if len(word_ids) < 2 * _NUM_OPTIONS:
        return
    probabilities = counts[word_ids] / counts[word_ids].sum()
    rng = np.random.Generator(np.random.PCG64([seed, size]))
    objective = ObjectiveSettings(pair="sop", max_length=_MAX_LENGTH, short_seq_prob=0.0, seed=seed)
    dataset = PretrainDataset(corpus, objective, split)
    num_questions = 0
    for sample_index in range(min(_SAMPLES_PER_QUESTION * size, len(dataset))):
        if num_questions == size:
            return
        (sample,) = dataset.draw(np.array([sample_index]))
        first, second = _segments_in_text_order(sample)
        positions = whole_words.positions(second)
        if not len(positions):
            continue
        position = int(rng.choice(positions))
        answer = int(second[position])
        options = rng.permutation([answer, *rng.choice(word_ids, _NUM_OPTIONS - 1, p=probabilities)])
        # Skip samples with a repeated word. If only the wrong words were drawn again until they differ, they
        # would be rarer on average than the answers, and the frequency would tell them apart.
        if len(set(options.tolist())) < _NUM_OPTIONS:
            continue
        num_questions += 1
        row = {
            "context": corpus.tokenizer.decode(first.tolist()),
            "question": "",
            "options": [_text_with_word(second, position, int(token_id), corpus) for token_id in options],
            "label": options.tolist().index(answer),
        }
        yield row, counts[options]


def _segments_in_text_order(sample: PretrainSample) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return both segments in the order of the text, without special tokens."""
    ids = sample.original_tokens()
    first, second = ids[sample.segments == 0][1:-1], ids[sample.segments == 1][:-1]
    return (second, first) if sample.pair_label else (first, second)


def _text_with_word(ids: NDArray[np.int32], position: int, token_id: int, corpus: Corpus) -> str:
    changed_ids = ids.tolist()
    changed_ids[position] = token_id
    return corpus.tokenizer.decode(changed_ids)
