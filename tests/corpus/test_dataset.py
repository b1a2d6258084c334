"""Samples: pure functions of their index, taken from the text, with the probabilities of the paper."""

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
from albertine.corpus import segment_pairs
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import NO_LABEL, PretrainDataset, PretrainSample
from albertine.corpus.masking import (
    choose_masked_positions,
    mask_tokens,
    prediction_count,
    split_long_words,
)
from albertine.corpus.segment_pairs import Segment, truncate_pair
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.corpus.windows import SampleWindows
from albertine.errors import InputError
from albertine.pretrain import unigram_baseline
from albertine.pretrain.unigram_baseline import TokenFrequencies
from albertine.randomness import Permutation, RandomStream, integers, random_bits, uniform
from albertine.settings.schema import SettingError
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.text.word_encoder import WordBoundaries
from tests.conftest import made_up_sentences

DEVIATIONS = 5.0  # standard deviations; exceeded by chance once in two million tests


def is_plausible_count(hits: int, trials: int, probability: float) -> bool:
    """Return whether a number of hits is within `DEVIATIONS` of the expected one."""
    return (
        abs(hits - trials * probability)
        <= DEVIATIONS * math.sqrt(trials * probability * (1 - probability)) + 1
    )


def document_tokens(corpus: Corpus, split: Any = "train") -> list[list[int]]:
    return [
        shard.tokens[start:stop].tolist()
        for shard in corpus.shards(split)
        for start, stop in itertools.pairwise(shard.document_offsets)
    ]


def original_segments(sample: PretrainSample) -> list[list[int]]:
    """Return the token ids of each segment before masking."""
    original, is_ordinary = sample.original_tokens(), sample.original_tokens() > 4
    return [
        original[is_ordinary & (sample.segments == segment)].tolist()
        for segment in range(int(sample.segments.max()) + 1)
    ]


def ids_as_text(ids: list[int]) -> str:
    """Return ids as a string in which a sublist is a substring."""
    return " " + " ".join(map(str, ids)) + " "


@pytest.fixture(scope="module", params=["sop", "nsp", "none"])
def dataset(request: pytest.FixtureRequest, corpus: Corpus) -> PretrainDataset:
    return PretrainDataset(corpus, ObjectiveSettings(pair=request.param, max_length=64, seed=3))


@pytest.fixture(scope="module")
def many_samples(corpus: Corpus) -> list[PretrainSample]:
    dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=64, seed=11))
    return dataset.draw(np.arange(20 * len(dataset)))


def test_sample_depends_only_on_its_index(dataset: PretrainDataset) -> None:
    indices = np.arange(2 * len(dataset))
    samples = dataset.draw(indices)
    reopened = pickle.loads(pickle.dumps(dataset))
    for index in (0, 1, 17, len(dataset), 2 * len(dataset) - 1):
        for sample in (dataset.draw(np.array([index]))[0], reopened.draw(np.array([index]))[0]):
            for name, expected in vars(samples[index]).items():
                assert np.array_equal(getattr(sample, name), expected), name


def test_epochs_and_seeds_differ(dataset: PretrainDataset, corpus: Corpus) -> None:
    size = len(dataset)
    other_dataset = PretrainDataset(corpus, replace(dataset.objective, seed=4))
    samples = dataset.draw(np.arange(size))
    next_epoch = dataset.draw(np.arange(size, 2 * size))
    other_seed = other_dataset.draw(np.arange(size))
    for others in (next_epoch, other_seed):
        equal = sum(a.tokens.tolist() == b.tokens.tolist() for a, b in zip(samples, others, strict=True))
        assert equal < 0.1 * size


def test_max_lengths_bound_the_drawn_lengths(dataset: PretrainDataset) -> None:
    indices = np.arange(3 * len(dataset))
    max_lengths = dataset.max_lengths(indices)
    lengths = np.array([len(sample) for sample in dataset.draw(indices)])
    assert (lengths <= max_lengths).all()
    assert lengths.max() <= 64
    if dataset.objective.pair != "nsp":
        assert np.array_equal(lengths, max_lengths)


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
    documents = [ids_as_text(ids) for ids in document_tokens(corpus)]
    pair_labels = set()
    for sample in dataset.draw(np.arange(len(dataset))):
        segments = [ids_as_text(ids) for ids in original_segments(sample)]
        documents_with_segment = [
            {number for number, document in enumerate(documents) if segment in document}
            for segment in segments
        ]
        assert all(documents_with_segment)
        assert all(text.strip() for text in segments)
        pair_labels.add(sample.pair_label)
        if dataset.objective.pair == "nsp" and sample.pair_label:
            continue  # the segments are from two documents
        assert set.intersection(*documents_with_segment)
    if dataset.objective.pair == "none":
        assert pair_labels == {0}


def test_pair_label_says_whether_the_segments_are_swapped(corpus: Corpus) -> None:
    # max_length exceeds every document, so nothing is truncated and the segments are adjacent.
    dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=20_000, short_seq_prob=0))
    documents = [ids_as_text(ids) for ids in document_tokens(corpus)]
    pair_labels = set()
    for sample in dataset.draw(np.arange(4 * len(dataset))):
        a, b = original_segments(sample)
        pair_labels.add(sample.pair_label)
        in_order = ids_as_text(b + a if sample.pair_label else a + b)
        assert any(in_order in document for document in documents)
    assert pair_labels == {0, 1}


def test_nsp_takes_its_second_segment_from_another_document(corpus: Corpus) -> None:
    dataset = PretrainDataset(corpus, ObjectiveSettings(pair="nsp", max_length=64))
    documents = [ids_as_text(ids) for ids in document_tokens(corpus)]
    checked = 0
    for sample in dataset.draw(np.arange(4 * len(dataset))):
        a, b = original_segments(sample)
        if sample.pair_label and len(a) > 15 and len(b) > 15:  # shorter ones can be in both by chance
            texts = ids_as_text(a), ids_as_text(b)
            assert not any(texts[0] in document and texts[1] in document for document in documents)
            checked += 1
    assert checked > 50


@pytest.mark.slow
def test_half_of_the_pairs_are_swapped(many_samples: list[PretrainSample]) -> None:
    assert is_plausible_count(sum(sample.pair_label for sample in many_samples), len(many_samples), 0.5)


def test_short_targets_have_the_expected_distribution(corpus: Corpus) -> None:
    windows = SampleWindows(corpus.shards("train"), ObjectiveSettings(max_length=64))
    epochs = [windows.lookup(epoch, np.arange(len(windows))) for epoch in range(60)]
    targets = np.concatenate([epoch.target_length for epoch in epochs])
    short = targets[targets < 61]
    # A short target is drawn from 2 to 61, so one in sixty has the full length.
    assert is_plausible_count(len(short), len(targets), 0.1 * 59 / 60)
    assert short.min() == 2
    counts = np.bincount(short, minlength=61)[2:]
    assert all(is_plausible_count(int(count), len(short), 1 / 59) for count in counts)
    lengths = np.concatenate([epoch.stop - epoch.start for epoch in epochs])
    (shard,) = corpus.shards("train")
    available = np.concatenate([shard.document_offsets[epoch.document + 1] - epoch.start for epoch in epochs])
    assert (lengths >= np.minimum(targets, available)).all()


def test_pair_none_fills_max_length_with_consecutive_text(corpus: Corpus) -> None:
    dataset = PretrainDataset(corpus, ObjectiveSettings(pair="none", max_length=48))
    documents = document_tokens(corpus)
    lengths = [len(sample) for sample in dataset.draw(np.arange(len(dataset)))]
    assert len(lengths) >= sum(-(-len(document) // 46) for document in documents if len(document) >= 8)
    assert lengths.count(48) >= 0.7 * sum(len(document) // 46 for document in documents)


def test_chosen_tokens_are_masked_kept_and_replaced_80_10_10(many_samples: list[PretrainSample]) -> None:
    masked = kept = total = 0
    replaced: Counter[int] = Counter()
    for sample in many_samples:
        input_ids = sample.tokens[sample.masked_positions]
        total += len(input_ids)
        masked += int((input_ids == 4).sum())
        kept += int((input_ids == sample.labels).sum())
        replaced.update(input_ids[(input_ids != 4) & (input_ids != sample.labels)].tolist())
    ordinary = 220 - 5
    assert is_plausible_count(masked, total, 0.8)
    assert is_plausible_count(kept, total, 0.1 + 0.1 / ordinary)
    assert is_plausible_count(replaced.total(), total, 0.1 * (1 - 1 / ordinary))
    assert min(replaced) >= 5
    assert len(replaced) == ordinary
    expected = replaced.total() / ordinary
    chi_squared = sum((replaced[token_id] - expected) ** 2 / expected for token_id in range(5, 220))
    assert chi_squared < ordinary + DEVIATIONS * math.sqrt(2 * ordinary)


def test_masked_positions_are_uniform_over_the_sequence(many_samples: list[PretrainSample]) -> None:
    positions = np.concatenate([sample.masked_positions for sample in many_samples if len(sample) == 64])
    assert abs((positions < 32).mean() - 0.5) < 0.01


@pytest.mark.parametrize(
    ("length", "max_predictions", "expected"),
    [(64, None, 10), (512, None, 77), (514, None, 77), (8, 77, 1), (10, 20, 2), (512, 20, 20), (4, 20, 1)],
)
def test_prediction_count(length: int, max_predictions: int | None, expected: int) -> None:
    assert prediction_count(length, ObjectiveSettings(max_predictions=max_predictions)) == expected


def test_ngram_lengths_follow_the_paper() -> None:
    # Words of one token, and far more words than predictions, so n-grams are hardly ever shortened.
    count, trials = 3000, 300
    starts = np.arange(1, count + 1)
    lengths: Counter[int] = Counter()
    for trial in range(trials):
        positions = choose_masked_positions(
            starts, starts + 1, np.full(count, count), 60, 3, RandomStream(trial, 2 * count)
        )
        ngrams = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)
        lengths.update(map(len, ngrams))
    total = sum(lengths.values())
    for n in (1, 2, 3):
        # The budget may shorten the last n-gram, and two n-grams may be adjacent: 0.012 allows for both.
        probability = (1 / n) / (1 + 1 / 2 + 1 / 3)
        assert abs(lengths[n] / total - probability) < 0.012 + DEVIATIONS * math.sqrt(
            probability * (1 - probability) / total
        )


@given(
    sizes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=30), min_size=1, max_size=2),
    max_predictions=st.integers(1, 30),
    max_ngram=st.integers(1, 5),
    key=st.integers(0, 2**64 - 1),
)
def test_masked_ngrams_are_whole_words_within_budget_and_segment(
    sizes: list[list[int]], max_predictions: int, max_ngram: int, key: int
) -> None:
    word_starts, word_ends, segment_ends = [], [], []
    position = 1
    for segment in sizes:
        for size in segment:
            word_starts.append(position)
            position += size
            word_ends.append(position)
        segment_ends += [len(word_starts)] * len(segment)
        position += 1
    rng = RandomStream(key, 2 * len(word_starts))
    positions = choose_masked_positions(
        np.array(word_starts), np.array(word_ends), np.array(segment_ends), max_predictions, max_ngram, rng
    )
    assert len(positions) <= max_predictions
    chosen = set(positions.tolist())
    assert len(chosen) == len(positions)
    words = [set(range(start, end)) for start, end in zip(word_starts, word_ends, strict=True)]
    if min(map(len, words)) > max_predictions:
        assert chosen in [set(range(start, start + max_predictions)) for start in word_starts]
        return
    assert chosen
    assert all(chosen >= word or not chosen & word for word in words)
    assert chosen <= set().union(*words)
    # With single words, every word that was not chosen exceeds the remaining budget.
    remaining = max_predictions - len(chosen)
    not_chosen = [len(word) for word in words if not chosen & word]
    assert max_ngram > 1 or not not_chosen or min(not_chosen) > remaining


def test_masked_tokens_are_whole_words(many_samples: list[PretrainSample], corpus: Corpus) -> None:
    boundaries = WordBoundaries(corpus.tokenizer)
    for sample in many_samples[:400]:
        chosen = set(sample.masked_positions.tolist())
        segment_start = 1
        for segment in original_segments(sample):
            starts = [*np.flatnonzero(boundaries.starts(np.array(segment))).tolist(), len(segment)]
            for begin, end in itertools.pairwise(starts):
                word = set(range(segment_start + begin, segment_start + end))
                assert len(chosen & word) in (0, len(word))
            segment_start += len(segment) + 1


@given(
    a_length=st.integers(1, 60),
    b_length=st.integers(1, 60),
    max_tokens=st.integers(2, 60),
    seed=st.integers(0, 1000),
)
def test_truncation_gives_the_lengths_of_the_reference(
    a_length: int, b_length: int, max_tokens: int, seed: int
) -> None:
    shard: Any = None  # unused
    a, b = truncate_pair(
        Segment(shard, 0, a_length),
        Segment(shard, 100, 100 + b_length),
        max_tokens,
        RandomStream(seed, 8),
    )
    expected_a, expected_b = [(0, True)] * a_length, [(0, True)] * b_length
    reference_masking.truncate_pair(expected_a, expected_b, max_tokens, random.Random(seed))
    assert (len(a), len(b)) == (len(expected_a), len(expected_b))
    assert 0 <= a.start <= a.stop <= a_length
    assert 100 <= b.start <= b.stop <= 100 + b_length


def test_truncation_removes_from_both_ends_equally() -> None:
    shard: Any = None  # unused
    removed_in_front = 0
    for seed in range(2000):
        a, _ = truncate_pair(Segment(shard, 0, 60), Segment(shard, 0, 20), 50, RandomStream(seed, 8))
        removed_in_front += a.start
    assert is_plausible_count(removed_in_front, 2000 * 30, 0.5)


@pytest.mark.slow
def test_distributions_match_the_reference_algorithm(corpus: Corpus) -> None:
    (shard,) = corpus.shards("train")
    rng = random.Random(5)
    tokens, word_starts = shard.tokens.tolist(), shard.word_starts(0, len(shard.tokens)).tolist()
    reference_samples: list[reference_masking.ReferenceInstance] = []
    for start, stop in itertools.pairwise(shard.document_offsets.tolist()):
        sentence_starts = [int(position) for position in shard.sentence_starts if start <= position < stop]
        document = [
            list(zip(tokens[begin:end], word_starts[begin:end], strict=True))
            for begin, end in itertools.pairwise([*sentence_starts, stop])
        ]
        for _ in range(20):
            reference_samples += reference_masking.reference_instances(
                document, max_length=200, short_fraction=0.1, max_masked=77, vocab_size=220, rng=rng
            )
    dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=200))
    samples = dataset.draw(np.arange(20 * len(dataset)))

    def statistics(lengths: list[int], a_lengths: list[int], masked: list[int]) -> list[float]:
        is_full = np.array(lengths) == 200
        a_shares = np.array(a_lengths)[is_full] / 197  # of the tokens that are not special
        return [
            float(np.mean(np.array(masked) / lengths)),
            float(np.mean(a_shares)),
            float(np.std(a_shares)),
            float(np.mean(np.array(masked)[is_full])),
        ]

    actual = statistics(
        [len(sample) for sample in samples],
        [int((sample.segments == 0).sum()) - 2 for sample in samples],
        [len(sample.masked_positions) for sample in samples],
    )
    expected = statistics(
        [len(sample.tokens) for sample in reference_samples],
        [sample.segments.count(0) - 2 for sample in reference_samples],
        [len(sample.masked_positions) for sample in reference_samples],
    )
    assert actual == pytest.approx(expected, abs=0.03)


@given(count=st.integers(1, 3000), key=st.integers(0, 2**63))
def test_permutation_contains_every_index(count: int, key: int) -> None:
    permutation = Permutation(count, key)
    indices = np.arange(count)
    assert np.array_equal(np.sort(permutation[indices]), indices)
    assert permutation[np.array([count - 1])][0] == permutation[indices][-1]


def test_permutation_is_well_shuffled() -> None:
    indices = np.arange(10_000)
    permuted = Permutation(10_000, 1)[indices]
    assert abs(np.corrcoef(permuted, indices)[0, 1]) < 5 / 100
    assert (np.abs(np.diff(permuted)) == 1).sum() < 12  # 2 expected
    assert (permuted == indices).sum() < 10
    assert (Permutation(10_000, 2)[indices] == permuted).sum() < 10


def test_random_bits_are_uniform_and_stable() -> None:
    numbers = uniform(random_bits(1, 2, np.arange(100_000)))
    assert abs(numbers.mean() - 0.5) < DEVIATIONS * math.sqrt(1 / 12 / 100_000)
    counts = np.bincount(integers(random_bits(9, np.arange(60_000)), 6))
    assert all(is_plausible_count(int(count), 60_000, 1 / 6) for count in counts)
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


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["sop", "none"])
@pytest.mark.parametrize("length", [16, 40, 64])
def test_all_text_is_seen_within_some_epochs(corpus: Corpus, pair: Any, length: int) -> None:
    shards = corpus.shards("train")
    windows = SampleWindows(shards, ObjectiveSettings(pair=pair, max_length=length))
    token_counts = [np.zeros(len(shard.tokens), np.int64) for shard in shards]
    all_starts = set()
    for epoch in range(60):
        drawn = windows.lookup(epoch, np.arange(len(windows)))
        for shard_index, counts in enumerate(token_counts):
            changes = np.zeros(len(counts) + 1, np.int64)
            np.add.at(changes, drawn.start[drawn.shard == shard_index], 1)
            np.add.at(changes, drawn.stop[drawn.shard == shard_index], -1)
            counts += changes[:-1].cumsum()
        all_starts.add(tuple(sorted(drawn.start.tolist())))
    assert len(all_starts) == 60  # every epoch has other windows
    for shard, counts in zip(shards, token_counts, strict=True):
        lengths = np.diff(shard.document_offsets)
        has_samples = np.repeat(lengths >= 8, lengths)
        assert counts[has_samples].min() > 0
        assert not counts[~has_samples].any()
        assert 0.8 < counts[has_samples].mean() / 60 < 3


@pytest.fixture(scope="module", params=["long and short documents", "short documents"])
def nsp_samples(
    request: pytest.FixtureRequest, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory
) -> list[PretrainSample]:
    """Samples of NSP from two corpora; in the second one, text of another document is often too short."""
    if request.param == "short documents":
        folder = tmp_path_factory.mktemp("short")
        texts = ("\n".join(made_up_sentences(seed, 2 + seed % 5)) for seed in range(300))
        (folder / "a.txt").write_text("\n\n".join(texts) + "\n")
        tokenizer = corpus.folder / "tokenizer"
        build_corpus([str(folder)], tokenizer, folder / "made", CorpusSettings(layout="lines", workers=1))
        corpus = Corpus(folder / "made")
    dataset = PretrainDataset(corpus, ObjectiveSettings(pair="nsp", max_length=64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_pairs, "_ATTEMPTS", 1)
        return dataset.draw(np.arange(20_000))


@pytest.mark.slow
def test_nsp_segment_length_does_not_reveal_the_label(nsp_samples: list[PretrainSample]) -> None:
    """Predict the label from the length by the majority of the odd samples, and score the even ones."""
    samples = nsp_samples
    labels = np.array([sample.pair_label for sample in samples])
    for lengths in (
        np.array([len(sample) for sample in samples]),
        np.array([int((sample.segments == 1).sum()) for sample in samples]),
    ):
        replaced, total = (
            np.bincount(lengths[1::2], weights, minlength=65) for weights in (labels[1::2], None)
        )
        correct = (2 * replaced > total)[lengths[::2]] == labels[::2]
        assert is_plausible_count(int(correct.sum()), len(correct), 0.5)
    assert is_plausible_count(int(labels.sum()), len(labels), 0.5)


def test_nsp_shortens_the_second_segment_to_the_other_text(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def three_tokens(a: Segment, length: int, *_: object) -> Segment:
        return Segment(a.shard, 0, min(3, length))

    monkeypatch.setattr(segment_pairs, "_segment_of_other_document", three_tokens)
    dataset = PretrainDataset(corpus, ObjectiveSettings(pair="nsp", max_length=64))
    samples = dataset.draw(np.arange(200))
    assert {sample.pair_label for sample in samples} == {0, 1}
    assert max(int((sample.segments == 1).sum()) for sample in samples) == 3 + 1  # with [SEP]


@pytest.mark.slow
def test_nsp_segment_end_hardly_reveals_the_label(nsp_samples: list[PretrainSample], corpus: Corpus) -> None:
    """Predict the label from whether the second segment ends with a sentence."""
    labels = np.array([sample.pair_label for sample in nsp_samples])
    last_tokens = [int(sample.original_tokens()[-2]) for sample in nsp_samples]
    vocabulary = corpus.tokenizer.vocabulary
    ends_sentence = np.array([vocabulary[token].endswith(".") for token in last_tokens])
    assert abs((ends_sentence == labels).mean() - 0.5) < 0.07  # without the cut, more than 0.15


def test_ids_outside_the_vocabulary_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    shutil.copytree(corpus.folder, tmp_path / "copy")
    file = tmp_path / "copy" / "train-00000.arrow"
    (shard,) = Corpus(tmp_path / "copy").shards("train")
    offset = file.read_bytes().index(shard.tokens[:200].tobytes())
    damaged = bytearray(file.read_bytes())
    damaged[offset : offset + 400] = b"\xff" * 400
    file.write_bytes(damaged)
    with pytest.raises(InputError, match="token ids outside the vocabulary; run `albertine corpus check"):
        TokenFrequencies.from_corpus(Corpus(tmp_path / "copy"))
    dataset = PretrainDataset(Corpus(tmp_path / "copy"), ObjectiveSettings(max_length=32))
    with pytest.raises(InputError, match="damaged"):
        dataset.draw(np.arange(len(dataset)))


def test_each_token_of_a_long_word_is_a_word() -> None:
    # [CLS] aa b*20 c [SEP] d e*17 [SEP]
    starts, ends = np.array([1, 3, 23, 25, 26]), np.array([3, 23, 24, 26, 43])
    segment_ends = np.array([3, 3, 3, 5, 5])
    words = split_long_words(starts, ends, segment_ends)
    expected = [(1, 3, 22)] + [(n, n + 1, 22) for n in range(3, 24)] + [(n, n + 1, 40) for n in range(25, 43)]
    assert list(zip(*(array.tolist() for array in words), strict=True)) == expected
    short = starts, np.minimum(ends, starts + 16), segment_ends
    assert all(a is b for a, b in zip(split_long_words(*short), short, strict=True))


def test_text_without_spaces_has_targets(tmp_path: Path) -> None:
    rng = random.Random(1)
    text = "\n\n".join("".join(rng.choices("ACGT", k=3000)) for _ in range(20))
    (tmp_path / "dna.txt").write_text(text)
    settings = TokenizerSettings(vocab_size=300, allow_smaller=True)
    tokenizer, folder = tmp_path / "tokenizer", tmp_path / "corpus"
    build_tokenizer([str(tmp_path / "dna.txt")], tokenizer, settings)
    build_corpus([str(tmp_path / "dna.txt")], tokenizer, folder, CorpusSettings(workers=1))
    objective = ObjectiveSettings(max_length=64)
    dataset = PretrainDataset(Corpus(folder), objective)
    for sample in dataset.draw(np.arange(len(dataset))):
        assert len(sample.labels) == prediction_count(len(sample.tokens), objective)


def test_the_frequencies_of_a_large_corpus_are_of_all_its_parts(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shard,) = corpus.shards("train")
    monkeypatch.setattr(unigram_baseline, "_BLOCK_TOKENS", 100)
    every_token = TokenFrequencies.from_corpus(corpus).counts
    assert every_token.sum() == len(shard.tokens)
    monkeypatch.setattr(unigram_baseline, "_MAX_COUNTED_TOKENS", len(shard.tokens) // 3)
    some_tokens = TokenFrequencies.from_corpus(corpus).counts
    blocks = [shard.tokens[start : start + 100] for start in range(0, len(shard.tokens), 400)]
    assert np.array_equal(some_tokens, np.bincount(np.concatenate(blocks), minlength=len(some_tokens)))


def causal_objective(fraction: float, **changes: Any) -> ObjectiveSettings:
    return ObjectiveSettings(max_length=64, causal_fraction=fraction, **changes)


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.9])
def test_each_step_has_the_same_fraction_of_causal_samples(corpus: Corpus, fraction: float) -> None:
    samples = PretrainDataset(corpus, causal_objective(fraction)).draw(np.arange(200))
    for start in range(180):
        count = sum(sample.is_causal for sample in samples[start : start + 20])
        assert abs(count - 20 * fraction) <= 1


def test_causal_samples_predict_half_of_the_next_tokens_of_the_same_text(corpus: Corpus) -> None:
    indices = np.arange(2 * len(PretrainDataset(corpus, causal_objective(0.5))))
    masked = PretrainDataset(corpus, causal_objective(0.0)).draw(indices)
    samples = PretrainDataset(corpus, causal_objective(0.5)).draw(indices)
    num_targets = num_tokens = 0
    for sample, of_text in zip(samples, masked, strict=True):
        if not sample.is_causal:
            assert sample.tokens.tolist() == of_text.tokens.tolist()
            continue
        assert (
            sample.tokens.tolist() == sample.original_tokens().tolist() == of_text.original_tokens().tolist()
        )
        assert sample.labels.tolist() == sample.tokens[sample.masked_positions + 1].tolist()
        assert sample.pair_label == NO_LABEL
        num_targets, num_tokens = num_targets + len(sample.labels), num_tokens + len(sample) - 1
    assert is_plausible_count(num_targets, num_tokens, 0.5)


def test_causal_targets_differ_between_epochs(corpus: Corpus) -> None:
    dataset = PretrainDataset(corpus, causal_objective(0.5, distinct_epochs=2))
    first, second, third = (
        [sample.masked_positions.tolist() for sample in dataset.draw(np.arange(20) + epoch * len(dataset))]
        for epoch in (0, 1, 2)
    )
    assert first == third != second


def test_held_out_samples_are_never_causal(corpus: Corpus) -> None:
    samples = PretrainDataset(corpus, causal_objective(0.9), "dev").draw(np.arange(10))
    assert not any(sample.is_causal for sample in samples)


def _drawn_documents(corpus: Corpus, fraction: float, epochs: int = 3) -> set[int]:
    """Return the documents of train, by number, that a fraction of the text draws from."""
    objective = ObjectiveSettings("none", max_length=64, text_fraction=fraction, seed=5)
    dataset = PretrainDataset(corpus, objective)
    documents = [ids_as_text(ids) for ids in document_tokens(corpus)]
    drawn = set()
    for sample in dataset.draw(np.arange(epochs * len(dataset))):
        (text,) = map(ids_as_text, original_segments(sample))
        drawn.add(next(number for number, document in enumerate(documents) if text in document))
    return drawn


def test_a_fraction_of_the_text_is_a_part_of_every_larger_one(corpus: Corpus) -> None:
    quarter, half, whole = (_drawn_documents(corpus, fraction) for fraction in (0.25, 0.5, 1.0))
    assert quarter < half < whole
    assert is_plausible_count(len(quarter), len(whole), 0.25)
    assert is_plausible_count(len(half), len(whole), 0.5)


def test_a_fraction_of_the_text_leaves_held_out_samples_as_they_are(corpus: Corpus) -> None:
    part = PretrainDataset(corpus, ObjectiveSettings(max_length=64, text_fraction=0.25), "dev")
    whole = PretrainDataset(corpus, ObjectiveSettings(max_length=64), "dev")
    assert len(part) == len(whole)
    for first, second in zip(part.draw(np.arange(len(part))), whole.draw(np.arange(len(whole))), strict=True):
        np.testing.assert_array_equal(first.tokens, second.tokens)


def test_a_fraction_does_not_depend_on_the_seed(corpus: Corpus) -> None:
    counts = [
        PretrainDataset(corpus, ObjectiveSettings(max_length=64, text_fraction=0.3, seed=seed)).num_documents
        for seed in range(4)
    ]
    assert len(set(counts)) == 1
    assert counts[0] == len(_drawn_documents(corpus, 0.3))


def test_fractions_that_leave_nothing_or_do_not_hold_are_refused(corpus: Corpus) -> None:
    with pytest.raises(InputError, match=r"text_fraction = 1e-06: chooses none of the \d+ documents"):
        PretrainDataset(corpus, ObjectiveSettings(max_length=64, text_fraction=1e-6))
    with pytest.raises(SettingError, match=r"second segments would come from the documents that are left"):
        ObjectiveSettings("nsp", max_length=64, text_fraction=0.5).check()


def test_samples_repeat_after_the_distinct_epochs(corpus: Corpus) -> None:
    dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=64, distinct_epochs=2))
    size = len(dataset)
    np.testing.assert_array_equal(
        dataset.max_lengths(np.arange(size)), dataset.max_lengths(np.arange(2 * size, 3 * size))
    )
    first, second, third = (dataset.draw(np.arange(number * size, number * size + 20)) for number in range(3))
    for sample, repeated in zip(first, third, strict=True):
        np.testing.assert_array_equal(sample.tokens, repeated.tokens)
        np.testing.assert_array_equal(sample.labels, repeated.labels)
    assert any(not np.array_equal(a.tokens, b.tokens) for a, b in zip(first, second, strict=True))
