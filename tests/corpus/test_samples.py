"""Samples: pure functions that restore to the text, with the chances that the paper gives."""

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

from albertine.bench import reference
from albertine.corpus.chance import Order, Stream, ask, below, uniform
from albertine.corpus.corpus import Corpus
from albertine.corpus.masks import budget, choose, hide
from albertine.corpus.pairs import Segment, _shortened
from albertine.corpus.samples import Sample, Sampler
from albertine.corpus.settings import Objective
from albertine.corpus.windows import Windows
from albertine.errors import InputError
from albertine.pretrain.unigram import Frequencies
from albertine.text.words import WordStarts

DEVIATIONS = 5.0  # a bound that one test in two million passes by chance


def within(found: int, trials: int, chance: float) -> bool:
    """Tell whether so many hits in so many trials are what the binomial allows."""
    return abs(found - trials * chance) <= DEVIATIONS * math.sqrt(trials * chance * (1 - chance)) + 1


def texts_of(corpus: Corpus, split: Any = "train") -> list[list[int]]:
    shards = corpus.shards(split)
    return [
        shard.tokens[shard.documents[one] : shard.documents[one + 1]].tolist()
        for shard in shards
        for one in range(len(shard.documents) - 1)
    ]


def halves(sample: Sample) -> list[list[int]]:
    """Return the segments of a sample as they stood in the text."""
    original, ordinary = sample.original(), sample.original() > 4
    return [
        original[ordinary & (sample.types == kind)].tolist() for kind in range(int(sample.types.max()) + 1)
    ]


def is_inside(part: list[int], whole: list[int]) -> bool:
    joined, sought = (" " + " ".join(map(str, one)) + " " for one in (whole, part))
    return sought in joined


@pytest.fixture(scope="module", params=["sop", "nsp", "none"])
def sampler(request: pytest.FixtureRequest, corpus: Corpus) -> Sampler:
    return Sampler(corpus, Objective(pair=request.param, max_length=64, seed=3))


@pytest.fixture(scope="module")
def many(corpus: Corpus) -> list[Sample]:
    drawn = Sampler(corpus, Objective(max_length=64, seed=11))
    return drawn.draw(np.arange(40 * len(drawn)))


def test_a_sample_is_the_same_whenever_and_wherever_it_is_drawn(sampler: Sampler) -> None:
    places = np.arange(2 * len(sampler))
    together = sampler.draw(places)
    elsewhere = pickle.loads(pickle.dumps(sampler))
    for place in (0, 1, 17, len(sampler), 2 * len(sampler) - 1):
        for other in (sampler.draw(np.array([place]))[0], elsewhere.draw(np.array([place]))[0]):
            for name, value in vars(together[place]).items():
                assert np.array_equal(value, getattr(other, name)), name


def test_epochs_and_seeds_differ(sampler: Sampler, corpus: Corpus) -> None:
    size = len(sampler)
    other = Sampler(corpus, replace(sampler.objective, seed=4))
    first, second, third = (
        sampler.draw(np.arange(size)),
        sampler.draw(np.arange(size, 2 * size)),
        other.draw(np.arange(size)),
    )
    for one in (second, third):
        same = sum(a.tokens.tolist() == b.tokens.tolist() for a, b in zip(first, one, strict=True))
        assert same < 0.1 * size


def test_lengths_are_known_beforehand(sampler: Sampler) -> None:
    places = np.arange(3 * len(sampler))
    lengths = sampler.lengths(places)
    drawn = np.array([len(sample) for sample in sampler.draw(places)])
    assert (drawn <= lengths).all()
    assert drawn.max() <= 64
    if sampler.objective.pair != "nsp":
        assert np.array_equal(drawn, lengths)


def test_special_pieces_stand_where_they_should_and_are_never_masked(sampler: Sampler) -> None:
    for sample in sampler.draw(np.arange(2 * len(sampler))):
        segments = 1 if sampler.objective.pair == "none" else 2
        assert sample.tokens[0] == 2
        assert sample.tokens[-1] == 3
        assert (sample.tokens == 3).sum() == segments
        assert (sample.tokens == 2).sum() == 1
        ends = np.flatnonzero(sample.tokens == 3)
        assert sample.types.tolist() == [0] * (ends[0] + 1) + [1] * (len(sample) - ends[0] - 1)
        assert not set(sample.masked.tolist()) & {0, *ends.tolist()}
        assert (np.diff(sample.masked) > 0).all()
        assert len(sample.masked) == len(sample.labels)
        assert (sample.labels > 4).all()
        assert not np.isin(sample.tokens[1:-1], [0, 2]).any()


def test_labels_restore_the_text(sampler: Sampler, corpus: Corpus) -> None:
    texts = texts_of(corpus)
    labels = Counter()  # type: Counter[int]
    for sample in sampler.draw(np.arange(len(sampler))):
        parts = halves(sample)
        homes = [{at for at, text in enumerate(texts) if is_inside(part, text)} for part in parts]
        assert all(homes)
        assert all(parts)
        labels[sample.label] += 1
        if sampler.objective.pair == "nsp" and sample.label:
            continue  # another document's may hold the same words by chance
        assert set.intersection(*homes)
    if sampler.objective.pair == "none":
        assert set(labels) == {0}


def test_a_swapped_pair_put_right_is_the_text(corpus: Corpus) -> None:
    # With room for whatever a document holds nothing is shortened, so the halves must meet exactly.
    drawn = Sampler(corpus, Objective(max_length=20_000, short=0))
    texts = texts_of(corpus)
    kinds = set()
    for sample in drawn.draw(np.arange(4 * len(drawn))):
        a, b = halves(sample)
        kinds.add(sample.label)
        assert any(is_inside(b + a if sample.label else a + b, text) for text in texts)
    assert kinds == {0, 1}


def test_nsp_takes_its_second_segment_from_another_document(corpus: Corpus) -> None:
    drawn = Sampler(corpus, Objective(pair="nsp", max_length=64))
    texts = texts_of(corpus)
    foreign = 0
    for sample in drawn.draw(np.arange(4 * len(drawn))):
        a, b = halves(sample)
        together = any(
            is_inside(a, text) and is_inside(b, text) for text in texts if len(a) > 15 and len(b) > 15
        )
        if sample.label and len(a) > 15 and len(b) > 15:
            assert not together
            foreign += 1
    assert foreign > 50


def test_swaps_come_as_often_as_they_should(many: list[Sample]) -> None:
    assert within(sum(sample.label for sample in many), len(many), 0.5)


def test_one_sample_in_ten_is_wanted_shorter_by_any_length(corpus: Corpus) -> None:
    windows = Windows(corpus.shards("train"), Objective(max_length=64))
    laid = [windows.at(epoch, np.arange(len(windows))) for epoch in range(60)]
    targets = np.concatenate([one.target for one in laid])
    short = targets[targets < 61]
    # A short target is drawn from 2 to 61, so one in sixty of them is full after all.
    assert within(len(short), len(targets), 0.1 * 59 / 60)
    assert short.min() == 2
    counts = np.bincount(short, minlength=61)[2:]
    assert all(within(int(count), len(short), 1 / 59) for count in counts)
    lengths = np.concatenate([one.last - one.first for one in laid])
    shard = corpus.shards("train")[0]
    ends = np.concatenate([shard.documents[one.document + 1] - one.first for one in laid])
    assert (lengths >= np.minimum(targets, ends)).all()


def test_none_fills_the_whole_length_with_consecutive_text(corpus: Corpus) -> None:
    drawn = Sampler(corpus, Objective(pair="none", max_length=48))
    texts = texts_of(corpus)
    lengths = [len(sample) for sample in drawn.draw(np.arange(len(drawn)))]
    assert len(lengths) >= sum(-(-len(text) // 46) for text in texts if len(text) >= 8)
    assert sum(length == 48 for length in lengths) >= sum((len(text) // 46) for text in texts) * 0.7


def test_of_chosen_pieces_eight_in_ten_are_hidden_one_kept_one_replaced(many: list[Sample]) -> None:
    hidden = kept = total = 0
    replaced: Counter[int] = Counter()
    for sample in many:
        seen = sample.tokens[sample.masked]
        total += len(seen)
        hidden += int((seen == 4).sum())
        kept += int((seen == sample.labels).sum())
        replaced.update(seen[(seen != 4) & (seen != sample.labels)].tolist())
    ordinary = 130 - 5
    assert within(hidden, total, 0.8)
    assert within(kept, total, 0.1 + 0.1 / ordinary)
    assert within(replaced.total(), total, 0.1 * (1 - 1 / ordinary))
    assert min(replaced) >= 5
    assert len(replaced) == ordinary
    expected = replaced.total() / ordinary
    spread = sum((replaced[piece] - expected) ** 2 / expected for piece in range(5, 130))
    assert spread < ordinary + DEVIATIONS * math.sqrt(2 * ordinary)  # chi-squared


def test_pieces_are_chosen_alike_in_both_halves(many: list[Sample]) -> None:
    full = [sample.masked for sample in many if len(sample) == 64]
    early = sum(int((places < 32).sum()) for places in full)
    assert abs(early / sum(map(len, full)) - 0.5) < 0.01


@pytest.mark.parametrize(
    ("length", "most", "expected"),
    [(64, 77, 10), (512, 77, 77), (513, 77, 77), (8, 77, 1), (10, 20, 2), (512, 20, 20), (4, 20, 1)],
)
def test_the_budget(length: int, most: int, expected: int) -> None:
    assert budget(length, Objective(most_masked=most)) == expected


def test_runs_of_words_have_the_lengths_of_the_paper() -> None:
    # Words of one piece, far more room than budget: runs as they are drawn, not cut.
    count, trials = 3000, 300
    begins = np.arange(1, count + 1)
    lengths: Counter[int] = Counter()
    for trial in range(trials):
        places = choose(begins, begins + 1, np.full(count, count), 60, 3, Stream(trial, 2 * count))
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        lengths.update(map(len, runs))
    total = sum(lengths.values())
    for n in (1, 2, 3):
        # The last run may be cut by the budget, and two may touch: a hundredth is allowed for both.
        chance = (1 / n) / (1 + 1 / 2 + 1 / 3)
        assert abs(lengths[n] / total - chance) < 0.012 + DEVIATIONS * math.sqrt(
            chance * (1 - chance) / total
        )


@given(
    sizes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=30), min_size=1, max_size=2),
    wanted=st.integers(1, 30),
    ngram=st.integers(1, 5),
    key=st.integers(0, 2**64 - 1),
)
def test_whole_words_within_the_budget_and_within_a_segment(
    sizes: list[list[int]], wanted: int, ngram: int, key: int
) -> None:
    begins, ends, limits = [], [], []
    at = 1
    for segment in sizes:
        for size in segment:
            begins.append(at)
            at += size
            ends.append(at)
        limits += [len(begins)] * len(segment)
        at += 1
    stream = Stream(key, 2 * len(begins))
    places = choose(np.array(begins), np.array(ends), np.array(limits), wanted, ngram, stream)
    assert len(places) <= wanted
    assert len(set(places.tolist())) == len(places)
    chosen = set(places.tolist())
    for begin, end in zip(begins, ends, strict=True):
        assert len(chosen & set(range(begin, end))) in (0, end - begin)
    assert not chosen - {
        place for begin, end in zip(begins, ends, strict=True) for place in range(begin, end)
    }
    if min(end - begin for begin, end in zip(begins, ends, strict=True)) <= wanted:
        assert chosen
    # Nothing that fits was left out: every word still outside is too long for what is left.
    left = wanted - len(chosen)
    outside = [end - begin for begin, end in zip(begins, ends, strict=True) if begin not in chosen]
    assert ngram > 1 or not outside or min(outside) > left


def test_pieces_chosen_are_whole_words_of_the_text(many: list[Sample], corpus: Corpus) -> None:
    rule = WordStarts(corpus.tokenizer)
    for sample in many[:400]:
        chosen = set(sample.masked.tolist())
        base = 1
        for half in halves(sample):
            starts = [*np.flatnonzero(rule.of(np.array(half))).tolist(), len(half)]
            for begin, end in itertools.pairwise(starts):
                word = set(range(base + begin, base + end))
                assert len(chosen & word) in (0, len(word))
            base += len(half) + 1


@given(a=st.integers(1, 60), b=st.integers(1, 60), room=st.integers(2, 60), seed=st.integers(0, 1000))
def test_shortening_leaves_the_lengths_of_one_by_one(a: int, b: int, room: int, seed: int) -> None:
    shard: Any = None
    ours = _shortened(Segment(shard, 0, a), Segment(shard, 100, 100 + b), room, Stream(seed, 8))

    def theirs(size: int) -> list[tuple[int, bool]]:
        return [(0, True)] * size

    one, other = theirs(a), theirs(b)
    reference.shorten(one, other, room, random.Random(seed))
    assert (len(ours[0]), len(ours[1])) == (len(one), len(other))
    assert 0 <= ours[0].first <= ours[0].last <= a
    assert 100 <= ours[1].first <= ours[1].last <= 100 + b


def test_shortening_takes_from_front_and_back_alike() -> None:
    shard: Any = None
    front = 0
    for seed in range(2000):
        clipped, _ = _shortened(Segment(shard, 0, 60), Segment(shard, 0, 20), 50, Stream(seed, 8))
        front += clipped.first
    assert within(front, 2000 * 30, 0.5)


def test_the_reference_algorithm_gives_the_same_distributions(corpus: Corpus) -> None:
    shard = corpus.shards("train")[0]
    draw = random.Random(5)
    theirs: list[reference.Instance] = []
    for one in range(len(shard.documents) - 1):
        first, last = int(shard.documents[one]), int(shard.documents[one + 1])
        cuts = [int(s) for s in shard.sentences if first <= s < last] + [last]
        starts = shard.starts(0, len(shard.tokens))
        document = [
            [(int(shard.tokens[at]), bool(starts[at])) for at in range(begin, end)]
            for begin, end in itertools.pairwise(cuts)
        ]
        for _ in range(20):
            theirs += reference.instances(
                document, length=200, short=0.1, most_masked=77, vocab_size=130, draw=draw
            )
    sampler = Sampler(corpus, Objective(max_length=200))
    ours = list(sampler.draw(np.arange(20 * len(sampler))))

    def shape(lengths: list[int], first: list[int], masked: list[int]) -> list[float]:
        full = [n for n in range(len(lengths)) if lengths[n] == 200]
        return [
            float(np.mean([masked[n] / lengths[n] for n in range(len(lengths))])),
            float(np.mean([first[n] / 197 for n in full])),
            float(np.std([first[n] / 197 for n in full])),
            float(np.mean([masked[n] for n in full])),
        ]

    mine = shape(
        [len(s) for s in ours], [int((s.types == 0).sum()) - 2 for s in ours], [len(s.masked) for s in ours]
    )
    other = shape(
        [len(s.tokens) for s in theirs],
        [s.types.count(0) - 2 for s in theirs],
        [len(s.masked) for s in theirs],
    )
    assert mine == pytest.approx(other, abs=0.03)


@given(count=st.integers(1, 3000), key=st.integers(0, 2**63))
def test_an_order_is_a_permutation(count: int, key: int) -> None:
    order = Order(count, key)
    places = np.arange(count)
    assert np.array_equal(np.sort(order[places]), places)
    assert order[np.array([count - 1])][0] == order[places][-1]


def test_an_order_is_well_shuffled() -> None:
    found = Order(10_000, 1)[np.arange(10_000)]
    assert abs(np.corrcoef(found, np.arange(10_000))[0, 1]) < 5 / 100
    assert (np.abs(np.diff(found)) == 1).sum() < 12  # 2 expected
    assert (found == np.arange(10_000)).sum() < 10
    assert (Order(10_000, 2)[np.arange(10_000)] == found).sum() < 10


def test_randomness_is_even_and_does_not_change() -> None:
    drawn = uniform(ask(1, 2, np.arange(100_000)))
    assert abs(drawn.mean() - 0.5) < DEVIATIONS * math.sqrt(1 / 12 / 100_000)
    faces = np.bincount(below(ask(9, np.arange(60_000)), 6))
    assert all(within(int(face), 60_000, 1 / 6) for face in faces)
    assert sum(Stream(key, 1).heads(64) for key in range(2000)) in range(63_000, 65_000)
    # Written down: a run that is taken up years later must see the same samples.
    assert ask(1, 2, 3).tolist() == [ASKED]
    assert Stream(5, 2).words(2).tolist() == STREAMED


ASKED = 7041752555471512236
STREAMED = [7134611160154358618, 13877614986023876344]


def test_hiding_is_by_the_piece() -> None:
    tokens, places = np.arange(5, 105).astype(np.int32), np.arange(0, 100, 2)
    hidden = tokens.copy()
    hide(hidden, places, 4, np.arange(200, 300), Stream(0, 200))
    assert np.array_equal(hidden[1::2], tokens[1::2])
    assert set(hidden[places].tolist()) <= {4, *tokens[places].tolist(), *range(200, 300)}


def test_what_cannot_be_sampled_is_refused(corpus: Corpus) -> None:
    with pytest.raises(InputError, match="must be at least 8"):
        Objective(max_length=7)
    with pytest.raises(InputError, match="must be at most"):
        Objective(seed=2**63)


@pytest.mark.parametrize("pair", ["sop", "none"])
@pytest.mark.parametrize("length", [16, 40, 64])
def test_all_of_the_text_is_seen_within_some_epochs(corpus: Corpus, pair: Any, length: int) -> None:
    shards = corpus.shards("train")
    windows = Windows(shards, Objective(pair=pair, max_length=length))
    seen = [np.zeros(len(shard.tokens), np.int64) for shard in shards]
    layouts = set()
    for epoch in range(60):
        laid = windows.at(epoch, np.arange(len(windows)))
        for shard, first, last in zip(laid.shard, laid.first, laid.last, strict=True):
            seen[shard][first:last] += 1
        layouts.add(tuple(sorted(laid.first.tolist())))
    assert len(layouts) == 60  # no two epochs cut alike
    for shard, times in zip(shards, seen, strict=True):
        lengths = np.diff(shard.documents)
        long = np.repeat(lengths >= 8, lengths)
        assert times[long].min() > 0
        assert not times[~long].any()
        assert 0.8 < times[long].mean() / 60 < 3


def test_the_length_of_a_foreign_segment_tells_nothing(corpus: Corpus) -> None:
    drawn = Sampler(corpus, Objective(pair="nsp", max_length=64))
    samples = drawn.draw(np.arange(20 * len(drawn)))
    second = [[int((s.types == 1).sum()) for s in samples if s.label == label] for label in (0, 1)]
    spread = math.sqrt(sum(np.var(one) / len(one) for one in second))
    # A foreign document may end early, and then the segment is shorter; never is it otherwise.
    assert np.mean(second[1]) - np.mean(second[0]) < DEVIATIONS * spread
    assert np.mean(second[1]) > 0.75 * np.mean(second[0])


def test_pieces_that_the_vocabulary_has_not_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    shutil.copytree(corpus.folder, tmp_path / "copy")
    file = tmp_path / "copy" / "train-00000.arrow"
    changed = Corpus(tmp_path / "copy")
    shard = changed.shards("train")[0]
    place = file.read_bytes().index(shard.tokens[:200].tobytes())
    damaged = bytearray(file.read_bytes())
    damaged[place : place + 400] = b"\xff" * 400
    file.write_bytes(damaged)
    with pytest.raises(InputError, match="pieces that are not in its vocabulary; `albertine corpus check"):
        Frequencies.of(Corpus(tmp_path / "copy"))
    sampler = Sampler(Corpus(tmp_path / "copy"), Objective(max_length=32))
    with pytest.raises(InputError, match="damaged"):
        sampler.draw(np.arange(len(sampler)))
