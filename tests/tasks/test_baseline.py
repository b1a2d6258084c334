"""Tests of the bag-of-words baseline: its features and predictions against scikit-learn, and odd examples."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from albertine.linear_models import SparseRows
from albertine.tasks.baseline import baseline, features, tfidf
from albertine.tasks.baseline.baseline import predict_labels, predict_numbers
from albertine.tasks.baseline.features import TextFeatures
from albertine.tasks.baseline.tfidf import WORD_PATTERN, TfidfVocabulary
from albertine.tasks.examples import TextExample
from tests.task_fixtures import random_words

TEXTS = [
    "The cat sat on the mat. The cat sat!",
    "A don't-care's case: 3.5% of Ünïcode, naïve and snake_case",
    "",
    "   \n\t ",
    "?",
    "the THE the the",
    "今日は良い天気です。 Hello 世界",
    "สวัสดี ชาวโลก",
    *(" ".join(random_words(random.Random(seed), 12)) for seed in range(30)),
]


def text_examples(texts: Sequence[str | tuple[str, str]], labels: Sequence[str] = ()) -> list[TextExample]:
    rows = [(text,) if isinstance(text, str) else text for text in texts]
    return [
        TextExample(f"row {index}", str(index), row, label=labels[index] if labels else None)
        for index, row in enumerate(rows)
    ]


def matrix(rows: SparseRows) -> np.ndarray:
    shape = (len(rows.starts) - 1, rows.width)
    dense: np.ndarray = scipy.sparse.csr_matrix((rows.values, rows.columns, rows.starts), shape).toarray()
    return dense


def test_features_of_texts_are_those_of_scikit_learn() -> None:
    text_features = TextFeatures(text_examples(TEXTS), 1 << 20)
    reference = TfidfVectorizer(token_pattern=WORD_PATTERN, ngram_range=(1, 2), sublinear_tf=True).fit(TEXTS)
    names = text_features.vocabulary.names()
    assert sorted(names) == sorted(reference.vocabulary_)
    unseen = [*TEXTS, "an unseen cat sat on the unseen mat", "unseen"]
    expected = reference.transform(unseen).toarray()[:, [reference.vocabulary_[name] for name in names]]
    computed = matrix(text_features.rows(text_examples(unseen)))
    np.testing.assert_allclose(computed[:, :-1], expected, atol=1e-6)
    assert (computed[:, -1] == 1).all()


def test_features_of_pairs_follow_from_those_of_scikit_learn() -> None:
    pairs = [*zip(TEXTS, reversed(TEXTS), strict=True), (TEXTS[0], TEXTS[0]), ("the cat", "cat the new dog")]
    text_features = TextFeatures(text_examples(pairs), 1 << 20)
    reference = TfidfVectorizer(token_pattern=WORD_PATTERN, ngram_range=(1, 2), sublinear_tf=True)
    reference.fit([text for pair in pairs for text in pair])
    order = [reference.vocabulary_[name] for name in text_features.vocabulary.names()]
    first, second = (reference.transform(texts).toarray()[:, order] for texts in zip(*pairs, strict=True))
    computed = matrix(text_features.rows(text_examples(pairs)))
    blocks = np.hstack([second, abs(first - second), first * second, (first * second).sum(1, keepdims=True)])
    np.testing.assert_allclose(computed[:, : blocks.shape[1]], blocks, atol=1e-6)
    # Shared words as a fraction of all, of the first, of the second; ratio of lengths; equal lengths, words.
    np.testing.assert_allclose(computed[-2, blocks.shape[1] :], [1, 1, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(computed[-1, blocks.shape[1] :], [2 / 4, 2 / 2, 2 / 4, 2 / 4, 0, 0, 1])


def test_unknown_words_count_as_shared() -> None:
    """A pair of unseen texts still shows whether its words are the same."""
    text_features = TextFeatures(text_examples([("a b", "c d")]), 1 << 20)
    equal, different = matrix(text_features.rows(text_examples([("x y", "x y"), ("x y", "z w")])))
    assert equal[-7:].tolist() == [1, 1, 1, 1, 1, 1, 1]
    assert different[-7:].tolist() == [0, 0, 0, 1, 1, 0, 1]


def test_chunks_do_not_change_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = text_examples([*zip(TEXTS, reversed(TEXTS), strict=True)])
    whole = TextFeatures(pairs, 1 << 20)
    expected = matrix(whole.rows(pairs))
    monkeypatch.setattr(features, "FEATURE_CHUNK", 3)
    chunked = TextFeatures(pairs, 1 << 20)
    computed = matrix(chunked.rows(pairs))
    np.testing.assert_allclose(
        computed[:, columns_by_name(chunked)], expected[:, columns_by_name(whole)], atol=1e-7
    )


def columns_by_name(pair_features: TextFeatures) -> np.ndarray:
    """Return the columns of features of pairs in the order of the words' names; chunks number words anew."""
    order = np.argsort(pair_features.vocabulary.names())
    blocks = [order + block * len(order) for block in range(3)]
    return np.concatenate([*blocks, np.arange(3 * len(order), pair_features.width)])


def test_predicted_labels_are_those_of_scikit_learn() -> None:
    rng = random.Random(0)
    texts = [" ".join(random_words(rng, 3)) for _ in range(300)]
    labels = [("ka" in text) + ("lo" in text) for text in texts]
    train, unseen = text_examples(texts[:200], [str(label) for label in labels[:200]]), texts[200:]
    vectorizer = TfidfVectorizer(token_pattern=WORD_PATTERN, ngram_range=(1, 2), sublinear_tf=True)
    reference = LogisticRegression(C=10, tol=1e-8, max_iter=10_000)
    reference.fit(vectorizer.fit_transform(texts[:200]), [example.label for example in train])
    expected = reference.predict(vectorizer.transform(unseen)).tolist()
    assert len(set(expected)) == 3
    assert predict_labels(train, text_examples(unseen)) == expected


def test_predicted_numbers_are_those_of_scikit_learn() -> None:
    rng = random.Random(0)
    texts = [" ".join(random_words(rng, 10)) for _ in range(300)]
    values = [1e6 + 500.0 * text.count("ka") for text in texts]
    train = [
        TextExample("", "", (text,), value=value) for text, value in zip(texts[:200], values, strict=False)
    ]
    vectorizer = TfidfVectorizer(token_pattern=WORD_PATTERN, ngram_range=(1, 2), sublinear_tf=True)
    reference = Ridge(alpha=1.0).fit(vectorizer.fit_transform(texts[:200]), values[:200])
    expected = reference.predict(vectorizer.transform(texts[200:]))
    np.testing.assert_allclose(predict_numbers(train, text_examples(texts[200:])), expected, atol=0.5)


@pytest.mark.parametrize(
    "texts", [["same"] * 4, [""] * 4, ["a", "", "b", "?"], [("", "")] * 4, [("a", ""), ("", "b")] * 2]
)
def test_odd_examples_are_no_error(texts: list[str | tuple[str, str]]) -> None:
    unseen = text_examples([texts[0], texts[-1], ("new", "words"), "new words"])
    for labels in (["x"] * 4, ["x", "x", "x", "y"], ["x", "y", "z", "w"]):
        assert set(predict_labels(text_examples(texts, labels), unseen)) <= set(labels)
    assert predict_labels(text_examples(texts[:1], ["x"]), unseen) == ["x"] * 4
    assert predict_labels(text_examples(texts, ["x", "x", "x", "y"]), []) == []
    for values in ([5.0], [1.0, 2.0, 3.0, 1e30], [7.0] * 4):
        train = [
            TextExample("", "", example.texts, value=value)
            for example, value in zip(text_examples(texts), values, strict=False)
        ]
        numbers = predict_numbers(train, unseen)
        assert len(numbers) == 4
        assert np.isfinite(numbers).all()


def test_large_data_are_sampled_and_the_vocabulary_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    texts = ["ka lo" if index % 2 else "mi ka" for index in range(400)]
    texts = [f"{text} {' '.join(random_words(rng, 5))}" for text in texts]
    train = text_examples(texts, [str(index % 2) for index in range(400)])
    monkeypatch.setattr(baseline, "_MAX_WORDS", 700)
    sample = baseline._bounded_sample(train, 1000)
    assert sum(len(example.texts[0].split()) for example in sample) == 700
    assert 30 < sum(example.label == "0" for example in sample) < 70
    assert len(baseline._bounded_sample(train, 10)) == 10
    monkeypatch.setattr(baseline, "_MAX_WEIGHTS", 20)
    assert predict_labels(train, text_examples(["mi ka", "ka lo"])) == ["0", "1"]
    vocabulary = TfidfVocabulary([texts], 3)
    assert vocabulary.width == 3
    frequencies = {name: sum(name in text for text in texts) for name in vocabulary.names()}
    assert min(frequencies.values()) >= 200


def test_words_beyond_the_limit_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfidf, "_WORD_LIMIT", 2)
    vocabulary = TfidfVocabulary([["a b c a b", "c a"]], 10)
    assert sorted(vocabulary.names()) == ["a", "a b", "b"]


def test_predictions_are_the_same_in_another_process_and_order() -> None:
    """Neither hashes of strings nor the order of rows matter."""
    rng = random.Random(1)
    texts = [" ".join(random_words(rng, 6)) for _ in range(120)]
    train = text_examples(texts, [str("ka" in text) for text in texts])
    unseen = text_examples([" ".join(random_words(rng, 6)) for _ in range(50)])
    assert predict_labels(train, unseen) == predict_labels(train[::-1], unseen)
