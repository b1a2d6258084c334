"""Tests of stories: consistent events, well-formed English, and order that can be learned."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from albertine.world import events as e
from albertine.world.cast import Person, Thing
from albertine.world.english import lexicon
from albertine.world.english.forms import FORMS
from albertine.world.english.grammar import PAST, PRESENT, SINGULAR, a, counted, inflected, number, plural
from albertine.world.state import ImpossibleEventError, WorldState
from albertine.world.stories import CORPUS_GENRES, EXTRA_GENRES, GENRES, OTHER_GENRES, Story, make_story

from .independent_reader import History

NUM_STORIES = 1500


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    return [make_story(0, "text", number, CORPUS_GENRES) for number in range(NUM_STORIES)]


@pytest.fixture(scope="module")
def words(stories: list[Story]) -> Counter[str]:
    more = (make_story(1, "text", number, CORPUS_GENRES) for number in range(8000))
    return Counter(
        word
        for each in (*stories, *more)
        for line in each.sentences
        for word in re.findall(r"[a-z'-]+", line.lower())
    )


def test_a_story_is_the_same_in_every_process() -> None:
    asked = "make_story(3, 'text', 7, ('market',)).sentences"
    code = f"from albertine.world.stories import make_story; print('|'.join({asked}))"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert told == {"|".join(make_story(3, "text", 7, ("market",)).sentences)}


def test_stories_are_unique(stories: list[Story]) -> None:
    assert len({" ".join(each.sentences) for each in stories}) == NUM_STORIES
    assert (
        make_story(0, "text", 0, CORPUS_GENRES).sentences != make_story(1, "text", 0, CORPUS_GENRES).sentences
    )
    assert (
        make_story(0, "text", 0, CORPUS_GENRES).sentences
        != make_story(0, "tasks", 0, CORPUS_GENRES).sentences
    )


def test_story_lengths(stories: list[Story]) -> None:
    lengths = [len(each.sentences) for each in stories]
    assert min(lengths) >= 6
    assert max(lengths) <= 60
    assert np.percentile(lengths, 10) < 12 < 40 < np.percentile(lengths, 95)


@pytest.mark.parametrize("genre", [*GENRES])
def test_every_log_is_consistent(genre: str) -> None:
    """The independent reader follows every log and finds no impossible event."""
    for number_ in range(200):
        History(make_story(5, genre, number_, (genre,)).log)


def test_the_state_refuses_impossible_events() -> None:
    tale = next(each for each in _all("market") if any(isinstance(event, e.Buy) for event in each.log))
    bought = next(event for event in tale.log if isinstance(event, e.Buy))
    with pytest.raises(ImpossibleEventError):
        WorldState().apply(bought)


def _all(genre: str) -> Iterator[Story]:
    return (make_story(0, genre, number_, (genre,)) for number_ in range(10_000))


def test_word_frequencies_follow_zipf(words: Counter[str]) -> None:
    assert 1500 <= len(words) <= 3000
    counts = np.array(sorted(words.values(), reverse=True)[10:1000], float)
    slope = np.polyfit(np.log(np.arange(11, 11 + len(counts))), np.log(counts), 1)[0]
    assert -1.5 < slope < -0.8


def test_sentences_are_well_formed(stories: list[Story]) -> None:
    extra = [
        make_story(0, genre, number_, (genre,))
        for genre in (*EXTRA_GENRES, *OTHER_GENRES)
        for number_ in range(200)
    ]
    for each in (*stories, *extra):
        for line in each.sentences:
            assert re.fullmatch(r"[A-Z\"].*[.!?]\"?", line), line
            assert not re.search(r"  |[{}\[\]]|\b(\w+) \1\b|\bNone\b", line.replace("that that", "")), line
            assert line.count('"') in (0, 2), line
            assert not re.search(r"\ba [aeiou](?!ne\b|uropean)|\ban [^aeiouh]", line), line


def test_sentences_have_many_forms(stories: list[Story]) -> None:
    lines = [line for each in stories for line in each.sentences]
    for sign in (" and ", " before ", "fter ", " but ", "ecause ", ", so ", "hen ", '"', " by ", "?"):
        assert sum(sign in line for line in lines) > 20, sign
    starts = Counter(line.split()[0] for line in lines)
    assert starts.most_common(1)[0][1] < 0.25 * len(lines)


def test_some_words_are_ambiguous() -> None:
    nouns = {
        row[0]
        for row in (*lexicon.THINGS, *lexicon.SPOTS, *lexicon.GOODS, *lexicon.PLACES, *lexicon.BREAKABLES)
    }
    verbs = {
        phrase.split()[0]
        for table in (lexicon.INDOOR_CHORES, lexicon.OUTDOOR_CHORES, lexicon.TOWN_CHORES, lexicon.ROAD_CHORES)
        for phrase in table
    }
    verbs |= {"saw", "rose", "left", "ring", "rang"}
    names = {name.lower() for name in (*lexicon.WOMEN, *lexicon.MEN, *lexicon.FAMILIES)}
    assert len(nouns & verbs) >= 5
    assert (
        len(names & (nouns | verbs | {"will", "mark", "frank", "rose", "hazel", "ivy", "brook", "bell"})) >= 8
    )


# --- order


def test_first_and_last_sentences_are_not_predictable(stories: list[Story]) -> None:
    """No opening or closing is frequent, with names and numbers masked."""

    def skeleton(line: str) -> str:
        return re.sub(r"[A-Z][a-z']+|\d+", "_", line)[:24]

    places = {
        "first": Counter(skeleton(each.sentences[0]) for each in stories),
        "last": Counter(skeleton(each.sentences[-1]) for each in stories),
    }
    for place, found in places.items():
        commonest, count = found.most_common(1)[0]
        assert count < 0.12 * NUM_STORIES, (place, commonest)


def test_swapped_halves_are_detectable(stories: list[Story]) -> None:
    """With swapped halves, most stories mention "the key" before "a brass key", or Ann before Ann Lark."""
    turned = wrong = 0
    for each in stories:
        half = len(each.sentences) // 2
        wrong += not _is_introduced_before_use(each, each.sentences)
        turned += not _is_introduced_before_use(each, [*each.sentences[half:], *each.sentences[:half]])
    assert wrong == 0
    assert turned > 0.8 * NUM_STORIES


def _is_introduced_before_use(tale: Story, sentences: list[str]) -> bool:
    """Return whether every first mention uses the wording for new persons and things."""
    text = " ".join(sentences)
    parts = {value for event in tale.log for value in event}
    things = [value for value in parts if isinstance(value, Thing)]
    people = [who for value in parts if isinstance(value, Person) for who in value.members]
    kinds = Counter(thing.kind for thing in things)
    news = [
        (
            rf"\b[Aa]n?\b {thing.name}\b",
            rf"\b(?:[Tt]he|his|her|my|your|\w+'s) (?:{thing.name}|{thing.kind})\b",
        )
        for thing in things
        if kinds[thing.kind] == 1
    ]
    news += [(rf"\b{who.full_name}\b", rf"\b{who.name}\b(?! {who.full_name.split()[1]})") for who in people]
    if tale.genre == "place":
        news += [
            (rf"\b[Aa]n? \w+ {place.name}\b", rf"\b[Tt]he {place.name}\b") for place in tale.scene.places
        ]
    for new, known in news:
        first, later = re.search(new, text), re.search(known, text)
        if first and later and later.start() < first.start():
            return False
    return True


def test_stories_share_names(stories: list[Story]) -> None:
    """Two stories often share a name, so single words do not identify a story."""
    names = set(lexicon.WOMEN) | set(lexicon.MEN) | set(lexicon.VILLAGES)
    found = [names & set(re.findall(r"\w+", " ".join(each.sentences))) for each in stories[:400]]
    shared = np.mean([bool(one & other) for one, other in zip(found[:200], found[200:], strict=True)])
    assert 0.2 < shared < 0.9


# --- English


def test_every_form_names_all_fields() -> None:
    """A plain form names every field, so any two plain forms of an event are paraphrases."""
    for kind, forms in FORMS.items():
        if kind in (e.Letter, e.Remark):
            continue
        for form in forms:
            if form[0] in "~+":
                continue
            for name in kind._fields:  # type: ignore[attr-defined]
                assert re.search(rf"[{{\[ ]{name}\b", form) or (kind is e.Chore and name == "chore"), (
                    form,
                    name,
                )


@pytest.mark.parametrize(
    ("base", "past", "third"),
    [
        ("stop", "stopped", "stops"),
        ("carry", "carried", "carries"),
        ("go", "went", "goes"),
        ("free", "freed", "frees"),
    ],
)
def test_verbs(base: str, past: str, third: str) -> None:
    assert inflected(base, PAST, SINGULAR) == past
    assert inflected(base, PRESENT, SINGULAR) == third


def test_nouns_and_numbers() -> None:
    assert [plural(noun) for noun in ("ferryman", "loaf", "cherry", "box", "toy")] == [
        "ferrymen",
        "loaves",
        "cherries",
        "boxes",
        "toys",
    ]
    assert [number(n) for n in (0, 7, 20, 21, 99, 100)] == [
        "no",
        "seven",
        "twenty",
        "twenty-one",
        "ninety-nine",
        "one hundred",
    ]
    assert counted(1, "egg") == "one egg"
    assert [a(noun) for noun in ("apple", "one-eyed cat", "hour", "uniform")] == [
        "an apple",
        "a one-eyed cat",
        "an hour",
        "a uniform",
    ]


def test_causes_precede_effects(stories: list[Story]) -> None:
    for each in stories:
        for at, link in enumerate(each.scene.links):
            if link == e.SO:
                assert at > 0
                assert isinstance(each.log[at], (e.Feel, e.Go))
