"""Tests of minimal pairs made from English sentences: which forms are swapped, and which are left alone."""

from collections import Counter

import pytest

from albertine.inference.agreement_pairs import agreement_pairs

# A pair for each form of a kind: without it, the other form gives none.
COUNTERPARTS = {
    "is": "he is here.", "are": "they are here.", "am": "they are here.", "was": "they were here.",
    "were": "he was here.", "has": "they have it.", "have": "he has it.", "does": "they do so.",
    "do": "he does so.", "this": "these men stood there.", "these": "this man stood there.",
    "a": "an oak fell.", "an": "a tree fell.",
}  # fmt: skip


def swapped(sentence: str) -> str | None:
    """Return the sentence with the swapped form; None if no pair is made."""
    pairs = [
        pair
        for pair in agreement_pairs(
            [sentence, *COUNTERPARTS.values(), "they are there.", "he is there."], 100
        )
        if pair.good_sentence == sentence
    ]
    if not pairs:
        return None
    (pair,) = pairs
    assert pair.good.lower() in (*pair.kind.split(", "), "am")
    assert pair.bad.lower() in pair.kind.split(", ")
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


def test_forms_are_balanced_and_limited() -> None:
    singular = [f"he was at number {number}." for number in range(20)]
    plural = [f"they were at number {number}." for number in range(5)]
    pairs = agreement_pairs([*singular, *plural, "a dog barked."], 8)
    assert Counter(pair.bad for pair in pairs) == {"was": 4, "were": 4}  # none without its counterpart
    assert Counter(pair.bad for pair in agreement_pairs([*singular, *plural], 100)) == {"was": 5, "were": 5}


def test_a_sentence_gives_one_pair_of_the_rarer_form() -> None:
    sentences = ["he was by a door.", "they were by an inn.", "he was by a gate.", "they were by an oak."]
    pairs = agreement_pairs(sentences, 8)
    assert {pair.good_sentence for pair in pairs} == set(sentences)
    assert [pair.kind for pair in pairs] == ["a, an", "a, an", "was, were", "was, were"]
