"""Samples: pure functions of their index, made of the text, with the probabilities of the paper."""

import itertools
import math
import pickle
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albertine.bench import reference_masking
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.masking import choose_masked_positions, mask_tokens, prediction_count
from albertine.corpus.segment_pairs import Segment, truncate_pair
from albertine.corpus.settings import ObjectiveSettings
from albertine.corpus.windows import SampleWindows
from albertine.errors import InputError
from albertine.pretrain.unigram_baseline import TokenFrequencies
from albertine.randomness import Permutation, RandomStream, integers, random_bits, uniform
from albertine.text.word_encoder import WordBoundaries

DEVIATIONS = 5.0  # standard deviations; exceeded by chance once in two million tests


def is_within_binomial(hits: int, trials: int, probability: float) -> bool:
    """Return whether a number of hits is within `DEVIATIONS` of the binomial mean."""
    return (
        abs(hits - trials * probability)
        <= DEVIATIONS * math.sqrt(trials * probability * (1 - probability)) + 1
    )


def document_tokens(corpus: Corpus, split: Any = "train") -> list[list[int]]:
    shards = corpus.shards(split)
    return [
        shard.tokens[shard.document_offsets[one] : shard.document_offsets[one + 1]].tolist()
        for shard in shards
        for one in range(len(shard.document_offsets) - 1)
    ]


def original_segments(sample: PretrainSample) -> list[list[int]]:
    """Return the token ids of each segment before masking."""
    original, is_ordinary = sample.original_tokens(), sample.original_tokens() > 4
    return [
        original[is_ordinary & (sample.segments == segment)].tolist()
        for segment in range(int(sample.segments.max()) + 1)
    ]


def is_inside(part: list[int], whole: list[int]) -> bool:
    joined, sought = (" " + " ".join(map(str, one)) + " " for one in (whole, part))
    return sought in joined


@pytest.fixture(scope="module", params=["sop", "nsp", "none"])
def dataset(request: pytest.FixtureRequest, corpus: Corpus) -> PretrainDataset:
    return PretrainDataset(corpus, ObjectiveSettings(pair=request.param, max_length=64, seed=3))


@pytest.fixture(scope="module")
def many_samples(corpus: Corpus) -> list[PretrainSample]:
    drawn = PretrainDataset(corpus, ObjectiveSettings(max_length=64, seed=11))
    return drawn.draw(np.arange(40 * len(drawn)))


def test_sample_depends_only_on_its_index(dataset: PretrainDataset) -> None:
    indices = np.arange(2 * len(dataset))
    together = dataset.draw(indices)
    reopened = pickle.loads(pickle.dumps(dataset))
    for index in (0, 1, 17, len(dataset), 2 * len(dataset) - 1):
        for other in (dataset.draw(np.array([index]))[0], reopened.draw(np.array([index]))[0]):
            for name, value in vars(together[index]).items():
                assert np.array_equal(value, getattr(other, name)), name


def test_epochs_and_seeds_differ(dataset: PretrainDataset, corpus: Corpus) -> None:
    size = len(dataset)
    other = PretrainDataset(corpus, replace(dataset.objective, seed=4))
    first, second, third = (
        dataset.draw(np.arange(size)),
        dataset.draw(np.arange(size, 2 * size)),
        other.draw(np.arange(size)),
    )
    for one in (second, third):
        same = sum(a.tokens.tolist() == b.tokens.tolist() for a, b in zip(first, one, strict=True))
        assert same < 0.1 * size


def test_max_lengths_bound_the_drawn_lengths(dataset: PretrainDataset) -> None:
    indices = np.arange(3 * len(dataset))
    lengths = dataset.max_lengths(indices)
    drawn = np.array([len(sample) for sample in dataset.draw(indices)])
    assert (drawn <= lengths).all()
    assert drawn.max() <= 64
    if dataset.objective.pair != "nsp":
        assert np.array_equal(drawn, lengths)


def test_special_tokens_are_placed_and_never_masked(dataset: PretrainDataset) -> None:
    for sample in dataset.draw(np.arange(2 * len(dataset))):
        segments = 1 if dataset.objective.pair == "none" else 2
        assert sample.tokens[0] == 2
        assert sample.tokens[-1] == 3
        assert (sample.tokens == 3).sum() == segments
        assert (sample.tokens == 2).sum() == 1
        ends = np.flatnonzero(sample.tokens == 3)
        assert sample.segments.tolist() == [0] * (ends[0] + 1) + [1] * (len(sample) - ends[0] - 1)
        assert not set(sample.masked_positions.tolist()) & {0, *ends.tolist()}
        assert (np.diff(sample.masked_positions) > 0).all()
        assert len(sample.masked_positions) == len(sample.labels)
        assert (sample.labels > 4).all()
        assert not np.isin(sample.tokens[1:-1], [0, 2]).any()


def test_labels_restore_the_text(dataset: PretrainDataset, corpus: Corpus) -> None:
    texts = document_tokens(corpus)
    labels = Counter()  # type: Counter[int]
    for sample in dataset.draw(np.arange(len(dataset))):
        parts = original_segments(sample)
        documents = [{at for at, text in enumerate(texts) if is_inside(part, text)} for part in parts]
        assert all(documents)
        assert all(parts)
        labels[sample.pair_label] += 1
        if dataset.objective.pair == "nsp" and sample.pair_label:
            continue  # the segment of another document may occur elsewhere by chance
        assert set.intersection(*documents)
    if dataset.objective.pair == "none":
        assert set(labels) == {0}


def test_unswapped_pair_is_the_text(corpus: Corpus) -> None:
    # max_length exceeds every document, so nothing is truncated and the segments are adjacent.
    drawn = PretrainDataset(corpus, ObjectiveSettings(max_length=20_000, short_seq_prob=0))
    texts = document_tokens(corpus)
    labels = set()
    for sample in drawn.draw(np.arange(4 * len(drawn))):
        a, b = original_segments(sample)
        labels.add(sample.pair_label)
        assert any(is_inside(b + a if sample.pair_label else a + b, text) for text in texts)
    assert labels == {0, 1}


def test_nsp_takes_its_second_segment_from_another_document(corpus: Corpus) -> None:
    drawn = PretrainDataset(corpus, ObjectiveSettings(pair="nsp", max_length=64))
    texts = document_tokens(corpus)
    negatives = 0
    for sample in drawn.draw(np.arange(4 * len(drawn))):
        a, b = original_segments(sample)
        together = any(
            is_inside(a, text) and is_inside(b, text) for text in texts if len(a) > 15 and len(b) > 15
        )
        if sample.pair_label and len(a) > 15 and len(b) > 15:
            assert not together
            negatives += 1
    assert negatives > 50


def test_half_of_the_pairs_are_swapped(many_samples: list[PretrainSample]) -> None:
    assert is_within_binomial(sum(sample.pair_label for sample in many_samples), len(many_samples), 0.5)


def test_short_targets_have_the_expected_distribution(corpus: Corpus) -> None:
    windows = SampleWindows(corpus.shards("train"), ObjectiveSettings(max_length=64))
    epochs = [windows.lookup(epoch, np.arange(len(windows))) for epoch in range(60)]
    targets = np.concatenate([one.target_length for one in epochs])
    short = targets[targets < 61]
    # A short target is drawn from 2 to 61, so one in sixty has the full length.
    assert is_within_binomial(len(short), len(targets), 0.1 * 59 / 60)
    assert short.min() == 2
    counts = np.bincount(short, minlength=61)[2:]
    assert all(is_within_binomial(int(count), len(short), 1 / 59) for count in counts)
    lengths = np.concatenate([one.stop - one.start for one in epochs])
    shard = corpus.shards("train")[0]
    ends = np.concatenate([shard.document_offsets[one.document + 1] - one.start for one in epochs])
    assert (lengths >= np.minimum(targets, ends)).all()


def test_pair_none_fills_max_length_with_consecutive_text(corpus: Corpus) -> None:
    drawn = PretrainDataset(corpus, ObjectiveSettings(pair="none", max_length=48))
    texts = document_tokens(corpus)
    lengths = [len(sample) for sample in drawn.draw(np.arange(len(drawn)))]
    assert len(lengths) >= sum(-(-len(text) // 46) for text in texts if len(text) >= 8)
    assert sum(length == 48 for length in lengths) >= sum((len(text) // 46) for text in texts) * 0.7


def test_chosen_tokens_are_masked_kept_and_replaced_80_10_10(many_samples: list[PretrainSample]) -> None:
    masked = kept = total = 0
    replaced: Counter[int] = Counter()
    for sample in many_samples:
        seen = sample.tokens[sample.masked_positions]
        total += len(seen)
        masked += int((seen == 4).sum())
        kept += int((seen == sample.labels).sum())
        replaced.update(seen[(seen != 4) & (seen != sample.labels)].tolist())
    ordinary = 130 - 5
    assert is_within_binomial(masked, total, 0.8)
    assert is_within_binomial(kept, total, 0.1 + 0.1 / ordinary)
    assert is_within_binomial(replaced.total(), total, 0.1 * (1 - 1 / ordinary))
    assert min(replaced) >= 5
    assert len(replaced) == ordinary
    expected = replaced.total() / ordinary
    spread = sum((replaced[piece] - expected) ** 2 / expected for piece in range(5, 130))
    assert spread < ordinary + DEVIATIONS * math.sqrt(2 * ordinary)  # chi-squared


def test_masked_positions_are_uniform_over_the_sequence(many_samples: list[PretrainSample]) -> None:
    full = [sample.masked_positions for sample in many_samples if len(sample) == 64]
    early = sum(int((positions < 32).sum()) for positions in full)
    assert abs(early / sum(map(len, full)) - 0.5) < 0.01


@pytest.mark.parametrize(
    ("length", "max_predictions", "expected"),
    [(64, 77, 10), (512, 77, 77), (513, 77, 77), (8, 77, 1), (10, 20, 2), (512, 20, 20), (4, 20, 1)],
)
def test_prediction_count(length: int, max_predictions: int, expected: int) -> None:
    assert prediction_count(length, ObjectiveSettings(max_predictions=max_predictions)) == expected


def test_ngram_lengths_follow_the_paper() -> None:
    # Words of one token, far more words than predictions: runs are hardly ever shortened.
    count, trials = 3000, 300
    starts = np.arange(1, count + 1)
    lengths: Counter[int] = Counter()
    for trial in range(trials):
        positions = choose_masked_positions(
            starts, starts + 1, np.full(count, count), 60, 3, RandomStream(trial, 2 * count)
        )
        runs = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)
        lengths.update(map(len, runs))
    total = sum(lengths.values())
    for n in (1, 2, 3):
        # The budget may shorten the last run, and two runs may touch: 0.012 is allowed for both.
        probability = (1 / n) / (1 + 1 / 2 + 1 / 3)
        assert abs(lengths[n] / total - probability) < 0.012 + DEVIATIONS * math.sqrt(
            probability * (1 - probability) / total
        )


@given(
    sizes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=30), min_size=1, max_size=2),
    max_predictions=st.integers(1, 30),
    ngram=st.integers(1, 5),
    key=st.integers(0, 2**64 - 1),
)
def test_masked_runs_are_whole_words_within_budget_and_segment(
    sizes: list[list[int]], max_predictions: int, ngram: int, key: int
) -> None:
    word_starts, word_ends, segment_ends = [], [], []
    at = 1
    for segment in sizes:
        for size in segment:
            word_starts.append(at)
            at += size
            word_ends.append(at)
        segment_ends += [len(word_starts)] * len(segment)
        at += 1
    stream = RandomStream(key, 2 * len(word_starts))
    positions = choose_masked_positions(
        np.array(word_starts), np.array(word_ends), np.array(segment_ends), max_predictions, ngram, stream
    )
    assert len(positions) <= max_predictions
    assert len(set(positions.tolist())) == len(positions)
    chosen = set(positions.tolist())
    for start, end in zip(word_starts, word_ends, strict=True):
        assert len(chosen & set(range(start, end))) in (0, end - start)
    assert not chosen - {
        position for start, end in zip(word_starts, word_ends, strict=True) for position in range(start, end)
    }
    if min(end - start for start, end in zip(word_starts, word_ends, strict=True)) <= max_predictions:
        assert chosen
    # With single words, every word that was not chosen exceeds the remaining budget.
    left = max_predictions - len(chosen)
    outside = [end - start for start, end in zip(word_starts, word_ends, strict=True) if start not in chosen]
    assert ngram > 1 or not outside or min(outside) > left


def test_masked_tokens_are_whole_words(many_samples: list[PretrainSample], corpus: Corpus) -> None:
    boundaries = WordBoundaries(corpus.tokenizer)
    for sample in many_samples[:400]:
        chosen = set(sample.masked_positions.tolist())
        base = 1
        for segment in original_segments(sample):
            starts = [*np.flatnonzero(boundaries.starts(np.array(segment))).tolist(), len(segment)]
            for begin, end in itertools.pairwise(starts):
                word = set(range(base + begin, base + end))
                assert len(chosen & word) in (0, len(word))
            base += len(segment) + 1


@given(a=st.integers(1, 60), b=st.integers(1, 60), max_tokens=st.integers(2, 60), seed=st.integers(0, 1000))
def test_truncation_matches_the_reference_lengths(a: int, b: int, max_tokens: int, seed: int) -> None:
    shard: Any = None
    rng = RandomStream(seed, 8)
    ours = truncate_pair(Segment(shard, 0, a), Segment(shard, 100, 100 + b), max_tokens, rng)

    def theirs(size: int) -> list[tuple[int, bool]]:
        return [(0, True)] * size

    one, other = theirs(a), theirs(b)
    reference_masking.truncate_pair(one, other, max_tokens, random.Random(seed))
    assert (len(ours[0]), len(ours[1])) == (len(one), len(other))
    assert 0 <= ours[0].start <= ours[0].stop <= a
    assert 100 <= ours[1].start <= ours[1].stop <= 100 + b


def test_truncation_removes_from_both_ends_equally() -> None:
    shard: Any = None
    front = 0
    for seed in range(2000):
        clipped, _ = truncate_pair(Segment(shard, 0, 60), Segment(shard, 0, 20), 50, RandomStream(seed, 8))
        front += clipped.start
    assert is_within_binomial(front, 2000 * 30, 0.5)


def test_distributions_match_the_reference_algorithm(corpus: Corpus) -> None:
    shard = corpus.shards("train")[0]
    draw = random.Random(5)
    theirs: list[reference_masking.ReferenceInstance] = []
    for one in range(len(shard.document_offsets) - 1):
        first, last = int(shard.document_offsets[one]), int(shard.document_offsets[one + 1])
        cuts = [int(s) for s in shard.sentence_starts if first <= s < last] + [last]
        starts = shard.word_starts(0, len(shard.tokens))
        document = [
            [(int(shard.tokens[at]), bool(starts[at])) for at in range(begin, end)]
            for begin, end in itertools.pairwise(cuts)
        ]
        for _ in range(20):
            theirs += reference_masking.reference_instances(
                document, max_length=200, short_fraction=0.1, max_masked=77, vocab_size=130, rng=draw
            )
    dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=200))
    ours = list(dataset.draw(np.arange(20 * len(dataset))))

    def shape(lengths: list[int], first: list[int], masked: list[int]) -> list[float]:
        full = [n for n in range(len(lengths)) if lengths[n] == 200]
        return [
            float(np.mean([masked[n] / lengths[n] for n in range(len(lengths))])),
            float(np.mean([first[n] / 197 for n in full])),
            float(np.std([first[n] / 197 for n in full])),
            float(np.mean([masked[n] for n in full])),
        ]

    mine = shape(
        [len(s) for s in ours],
        [int((s.segments == 0).sum()) - 2 for s in ours],
        [len(s.masked_positions) for s in ours],
    )
    other = shape(
        [len(s.tokens) for s in theirs],
        [s.segments.count(0) - 2 for s in theirs],
        [len(s.masked_positions) for s in theirs],
    )
    assert mine == pytest.approx(other, abs=0.03)


@given(count=st.integers(1, 3000), key=st.integers(0, 2**63))
def test_permutation_contains_every_index(count: int, key: int) -> None:
    permutation = Permutation(count, key)
    indices = np.arange(count)
    assert np.array_equal(np.sort(permutation[indices]), indices)
    assert permutation[np.array([count - 1])][0] == permutation[indices][-1]


def test_permutation_is_well_shuffled() -> None:
    found = Permutation(10_000, 1)[np.arange(10_000)]
    assert abs(np.corrcoef(found, np.arange(10_000))[0, 1]) < 5 / 100
    assert (np.abs(np.diff(found)) == 1).sum() < 12  # 2 expected
    assert (found == np.arange(10_000)).sum() < 10
    assert (Permutation(10_000, 2)[np.arange(10_000)] == found).sum() < 10


def test_random_bits_are_uniform_and_stable() -> None:
    drawn = uniform(random_bits(1, 2, np.arange(100_000)))
    assert abs(drawn.mean() - 0.5) < DEVIATIONS * math.sqrt(1 / 12 / 100_000)
    faces = np.bincount(integers(random_bits(9, np.arange(60_000)), 6))
    assert all(is_within_binomial(int(face), 60_000, 1 / 6) for face in faces)
    assert sum(RandomStream(key, 1).binomial(64) for key in range(2000)) in range(63_000, 65_000)
    # Fixed values: a run resumed with a later version must see the same samples.
    assert random_bits(1, 2, 3).tolist() == [EXPECTED_BITS]
    assert RandomStream(5, 2).next_bits(2).tolist() == EXPECTED_STREAM


EXPECTED_BITS = 7041752555471512236
EXPECTED_STREAM = [7134611160154358618, 13877614986023876344]


def test_mask_tokens_changes_only_given_positions() -> None:
    tokens, positions = np.arange(5, 105).astype(np.int32), np.arange(0, 100, 2)
    masked = tokens.copy()
    mask_tokens(masked, positions, 4, np.arange(200, 300), RandomStream(0, 200))
    assert np.array_equal(masked[1::2], tokens[1::2])
    assert set(masked[positions].tolist()) <= {4, *tokens[positions].tolist(), *range(200, 300)}


def test_invalid_objective_settings_are_refused(corpus: Corpus) -> None:
    with pytest.raises(InputError, match="must be at least 8"):
        ObjectiveSettings(max_length=7)
    with pytest.raises(InputError, match="must be at most"):
        ObjectiveSettings(seed=2**63)


@pytest.mark.parametrize("pair", ["sop", "none"])
@pytest.mark.parametrize("length", [16, 40, 64])
def test_all_text_is_seen_within_some_epochs(corpus: Corpus, pair: Any, length: int) -> None:
    shards = corpus.shards("train")
    windows = SampleWindows(shards, ObjectiveSettings(pair=pair, max_length=length))
    seen = [np.zeros(len(shard.tokens), np.int64) for shard in shards]
    layouts = set()
    for epoch in range(60):
        window = windows.lookup(epoch, np.arange(len(windows)))
        for shard, start, stop in zip(window.shard, window.start, window.stop, strict=True):
            seen[shard][start:stop] += 1
        layouts.add(tuple(sorted(window.start.tolist())))
    assert len(layouts) == 60  # no two epochs place their windows alike
    for shard, times in zip(shards, seen, strict=True):
        lengths = np.diff(shard.document_offsets)
        long = np.repeat(lengths >= 8, lengths)
        assert times[long].min() > 0
        assert not times[~long].any()
        assert 0.8 < times[long].mean() / 60 < 3


def test_nsp_segment_length_does_not_reveal_the_label(corpus: Corpus) -> None:
    drawn = PretrainDataset(corpus, ObjectiveSettings(pair="nsp", max_length=64))
    samples = drawn.draw(np.arange(20 * len(drawn)))
    second = [[int((s.segments == 1).sum()) for s in samples if s.pair_label == label] for label in (0, 1)]
    spread = math.sqrt(sum(np.var(one) / len(one) for one in second))
    # The other document may end early, so its segment may be shorter, but never longer.
    assert np.mean(second[1]) - np.mean(second[0]) < DEVIATIONS * spread
    assert np.mean(second[1]) > 0.75 * np.mean(second[0])


def test_ids_outside_the_vocabulary_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    shutil.copytree(corpus.folder, tmp_path / "copy")
    file = tmp_path / "copy" / "train-00000.arrow"
    changed = Corpus(tmp_path / "copy")
    shard = changed.shards("train")[0]
    offset = file.read_bytes().index(shard.tokens[:200].tobytes())
    damaged = bytearray(file.read_bytes())
    damaged[offset : offset + 400] = b"\xff" * 400
    file.write_bytes(damaged)
    with pytest.raises(InputError, match="token ids outside the vocabulary; run `albertine corpus check"):
        TokenFrequencies.from_corpus(Corpus(tmp_path / "copy"))
    dataset = PretrainDataset(Corpus(tmp_path / "copy"), ObjectiveSettings(max_length=32))
    with pytest.raises(InputError, match="damaged"):
        dataset.draw(np.arange(len(dataset)))
