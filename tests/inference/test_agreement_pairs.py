"""Tests of minimal pairs made from English sentences: which forms are swapped, and which are left alone."""

from collections import Counter

import pytest

from albertine.inference.agreement_pairs import agreement_pairs


def swapped(sentence: str) -> str | None:
    """Return the sentence with the swapped form; None if no pair is made."""
    pairs = agreement_pairs([sentence], 10)
    if not pairs:
        return None
    (pair,) = pairs
    assert pair.good_sentence == sentence
    assert pair.good in pair.kind.split(", ") or pair.good in ("am", "A", "An", "This", "These")
    return pair.bad_sentence


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("he was late.", "he were late."),
        ("The door opened and they were gone.", "The door opened and they was gone."),
        ("I am here.", "I is here."),
        ("well, i am here.", "well, i is here."),
        ("We are not afraid.", "We is not afraid."),
        ("She has no key.", "She have no key."),
        ("They have no key.", "They has no key."),
        ("So he does.", "So he do."),
        ('"It is late," he said.', '"It are late," he said.'),
        ("You were right.", "You was right."),
        ("These are mine.", "These is mine."),
        ("As if they were married.", "As if they was married."),
        ("But she is here.", "But she are here."),
        ("I called, but she is here.", "I called, but she are here."),
        ("I saw this man.", "I saw these man."),
        ("These letters came.", "This letters came."),
        ("This man was old.", "These man was old."),
        ("in an old house", "in a old house"),
        ("A dog barked.", "An dog barked."),
        ("An owl called.", "A owl called."),
        ("It took a year's work, and an answer.", "It took a year's work, and a answer."),
    ],
)
def test_a_form_is_swapped(sentence: str, expected: str) -> None:
    assert swapped(sentence) == expected


@pytest.mark.parametrize(
    "sentence",
    [
        "If he was late, they left.",  # the swapped form is a subjunctive
        "She wished he was here.",
        "I ask that she has rest.",
        "Till he has rest, wait.",
        "It was better so.",  # it were better
        "As if he were late.",  # does not agree to begin with
        "They was late.",
        "What I told you are lies.",  # "you" is an object
        "Those who saw it is my friend.",
        "The men or they were late.",  # the verb agrees with one of two subjects
        "Neither you nor I have it.",
        "Nobody but they were there.",
        "The men were late.",  # a noun may have either number
        "He wasn't late.",
        "THEY WERE LATE.",
        "These garden walls fell.",  # the noun belongs to another
        "I like this garden walls.",
        "This morning he left.",
        "An historic day, a hotel, an hour.",
        "A university, an European, an one, a ewe.",
        "An MP and a UN envoy.",
        "Vitamin A or B.",
    ],
)
def test_nothing_is_swapped_where_there_is_doubt(sentence: str) -> None:
    assert swapped(sentence) is None


def test_kinds_are_balanced_limited_and_sorted() -> None:
    sentences = [f"he was by a door {number}." for number in range(20)] + [f"a dog {n}." for n in range(20)]
    pairs = agreement_pairs(sentences, 8)
    assert Counter(pair.kind for pair in pairs) == {"a, an": 8, "was, were": 8}
    assert [pair.kind for pair in pairs] == sorted(pair.kind for pair in pairs)
    # A sentence with both forms gives one pair, of the kind with fewer pairs.
    assert len({pair.good_sentence for pair in pairs}) == len(pairs)
    first, second = agreement_pairs(["he was by a door.", "he was by a gate."], 8)
    assert {first.kind, second.kind} == {"a, an", "was, were"}
