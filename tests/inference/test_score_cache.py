"""Tests of the cache of scores: which texts leave it, and its state."""

import json

import numpy as np

from albertine.inference.score_cache import LogLikelihoods, ScoreCache


def values(length: int, value: float = 0.1) -> tuple[LogLikelihoods, ...]:
    return (np.full(length, value, np.float32),)


def test_texts_without_tokens_leave_too() -> None:
    cache = ScoreCache(10)
    for number in range(100):
        cache.add(bytes([number]), values(0))
    assert len(cache.state()) == 10


def test_the_least_recently_used_texts_leave() -> None:
    cache = ScoreCache(10)
    cache.add(b"first", values(4))
    cache.add(b"second", values(4))
    assert cache.get(b"first") is not None
    cache.add(b"third", values(4))
    assert cache.get(b"second") is None
    assert cache.get(b"first") is not None
    assert cache.get(b"third") is not None
    cache.add(b"too long", values(11))
    assert all(cache.get(key) is None for key in (b"first", b"third", b"too long"))


def test_a_text_that_is_added_again_counts_once() -> None:
    cache = ScoreCache(10)
    for _ in range(5):
        cache.add(b"same", values(6))
    cache.add(b"other", values(4))
    assert cache.get(b"same") is not None


def test_an_entry_keeps_no_other_array_in_memory() -> None:
    cache = ScoreCache(10)
    group = np.arange(100, dtype=np.float32)
    cache.add(b"a", (group[:2],))
    (kept,) = cache.get(b"a") or ()
    assert kept.base is None


def test_a_restored_cache_is_the_same() -> None:
    cache = ScoreCache(11)
    for key, length in ((b"a", 3), (b"b", 3), (b"\xff", 0), (b"c", 4)):
        cache.add(key, values(length, 1 / 3))
    cache.get(b"a")
    state = json.loads(json.dumps(cache.state()))
    restored = ScoreCache(11)
    restored.restore(state)
    assert restored.state() == state
    for one in (cache, restored):
        one.add(b"d", values(1))
        assert one.get(b"b") is None, "the least recently used one"
    assert restored.state() == cache.state()
