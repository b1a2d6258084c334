"""Tests of opinions and Winograd examples: labels are correct and words alone do not predict them."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from albertine.world.english import lexicon, opinions, winograd
from albertine.world.english.opinions import Opinion, OpinionPhrase, OpinionWord, is_positive, make_opinion
from albertine.world.english.winograd import SCHEMAS, WinogradExample, make_winograd_example

# Parts of an opinion that do not decide its label.
ASIDES = re.compile(
    r"^(because|since|although|even though) [^,]+, "
    r"|, (for|although) the .*$"
    r"|^the [\w ]+ was \w+, (and so|but) (?!the \w+ was (right|wrong)$)"
    r"|, which .*$"
)
# Phrases that invert the polarity of the word in their scope.
NEGATIONS = re.compile(
    r"not at all|anything but|far from|no fair judge|hardly|nobody|never|not a soul"
    r"|devoid|quite without|in vain|did not look|untrue|a lie|could claim|was wrong"
    r"|did not in the end|not even|^it would have taken|^only with|^without|^but for"
    r"|not a whit|\btoo \w+ for|not \w+ enough|was not how|mistaken"
)


def judging_words() -> dict[str, bool]:
    kinds = opinions.SUBJECTS
    pairs = {pair for kind in kinds for pairs in kind.words.values() for pair in pairs}
    pairs |= {pair for kind in kinds for _, pair in kind.aspects}
    assert not {pair.good for pair in pairs} & {pair.bad for pair in pairs}
    return {pair.good: True for pair in pairs} | {pair.bad: False for pair in pairs}


JUDGING = judging_words()
JUDGING_WORD = re.compile(rf"\b({'|'.join(sorted(JUDGING, key=len, reverse=True))})\b")


def parsed_verdict(sentence: str) -> bool:
    """Return the label of a sentence from its last judging word and the number of negations."""
    told = ASIDES.sub("", sentence)
    return JUDGING[JUDGING_WORD.findall(told)[-1]] ^ bool(len(NEGATIONS.findall(told)) % 2)


def many_opinions(count: int, seed: int = 0) -> list[Opinion]:
    draw = random.Random(seed).random
    return [make_opinion(draw) for _ in range(count)]


def many_winograd_examples(count: int, seed: int = 0) -> list[WinogradExample]:
    draw = random.Random(seed).random
    return [make_winograd_example(draw) for _ in range(count)]


def random_source(*first: float, seed: int) -> Callable[[], float]:
    """Return a source of random numbers that yields the given ones first, then those of a seed."""
    given: Iterator[float] = iter(first)
    rest = random.Random(seed).random
    return lambda: next(given, None) or rest()


def versions(place: int, seed: int) -> dict[tuple[int, int], WinogradExample]:
    """Return the four examples of a schema (reading, candidate) with the same words."""
    schema = (place + 0.5) / len(SCHEMAS)
    return {
        (reading, candidate): make_winograd_example(
            random_source(schema, 0.25 + reading / 2, 0.25 + candidate / 2, seed=seed)
        )
        for reading in (0, 1)
        for candidate in (0, 1)
    }


def words(one: WinogradExample) -> list[str]:
    return re.findall(r"\w+", f"{one.sentence} {one.claim}")


def test_sentences_depend_only_on_the_seed() -> None:
    assert many_opinions(200) == many_opinions(200)
    assert many_winograd_examples(200) == many_winograd_examples(200)
    assert many_opinions(200) != many_opinions(200, seed=1)
    assert many_winograd_examples(200) != many_winograd_examples(200, seed=1)


def test_opinion_labels_agree_with_a_parser() -> None:
    for sentence, good in many_opinions(20_000):
        assert parsed_verdict(sentence) == good, sentence


def test_opinions_are_bare_sentences() -> None:
    names = {*lexicon.WOMEN, *lexicon.MEN}
    for sentence, _ in many_opinions(20_000):
        assert re.fullmatch(r"[\w', -]+\w", sentence), sentence
        assert 3 <= len(sentence.split()) <= 25, sentence
        assert sentence[0].islower() or sentence.split("'")[0] in names, sentence


def test_opinions_vary() -> None:
    drawn = many_opinions(20_000)
    assert len({sentence for sentence, _ in drawn}) >= 0.95 * len(drawn)
    assert sum(good for _, good in drawn) == pytest.approx(len(drawn) / 2, rel=0.03)


@pytest.mark.parametrize("name", opinions.CONSTRUCTIONS)
def test_slots_are_balanced_in_every_construction(name: str) -> None:
    leanings = Counter[str]()
    for forms in opinions.CONSTRUCTIONS[name]:
        for sign, slot in re.findall(r"\{([+-])(\w+)\}", forms[0]):
            leanings[slot] += 1 if sign == "+" else -1
    leanings.pop("claim", None)  # balanced within the claim itself
    assert not any(leanings.values()), leanings


def test_no_judging_word_predicts_the_label() -> None:
    seen = {word: [0, 0] for word in JUDGING}
    for sentence, good in many_opinions(20_000):
        for word in set(JUDGING_WORD.findall(sentence)):
            seen[word][good] += 1
    for word, (against, in_favour) in seen.items():
        assert against + in_favour > 0, word
        if against + in_favour > 200:
            assert in_favour / (against + in_favour) == pytest.approx(0.5, abs=0.15), word


def test_an_opinion_label_follows_from_its_parts() -> None:
    dull = OpinionWord("dull", good=False)
    denied = OpinionPhrase("{the} {was} anything but {-adjective}", (dull,))
    assert is_positive(denied)
    assert not is_positive(OpinionPhrase("it was a lie that {-plain}", (denied,)))
    light = OpinionWord("light", good=True)
    assert not is_positive(OpinionPhrase("although the {aspect} was {-trait}, {+claim}", (light, dull)))


def test_contradictory_parts_are_refused() -> None:
    good, bad = OpinionWord("light", good=True), OpinionWord("dull", good=False)
    with pytest.raises(ValueError, match="unpack"):
        is_positive(OpinionPhrase("because the {aspect} was {+trait}, {+claim}", (good, bad)))


def test_there_are_many_schemas_and_examples() -> None:
    assert len({schema.code for schema in SCHEMAS}) == len(SCHEMAS) >= 40
    drawn = many_winograd_examples(40_000)
    assert len({(one.sentence, one.claim) for one in drawn}) >= 20_000
    assert {one.schema for one in drawn} == {schema.code for schema in SCHEMAS}


def test_winograd_examples_are_sentences() -> None:
    for sentence, claim, _, _ in many_winograd_examples(20_000):
        for text in (sentence, claim):
            assert re.fullmatch(r"[A-Z][\w', -]+\w\.", text), text
        endings = re.split(r" (?:she|he|it|they) ", sentence)[1:]
        assert any(claim.endswith(f" {ending}") for ending in endings), claim


@pytest.mark.parametrize("place", range(len(SCHEMAS)), ids=[schema.code for schema in SCHEMAS])
def test_readings_of_a_schema_differ_in_referent(place: int) -> None:
    for seed in range(5):
        drawn = versions(place, seed)
        for mine in (0, 1):
            assert drawn[0, mine].is_true != drawn[1, mine].is_true
            assert drawn[mine, 0].is_true != drawn[mine, 1].is_true
            assert drawn[mine, 0].sentence == drawn[mine, 1].sentence
            assert drawn[mine, 0].claim != drawn[mine, 1].claim
        true, false = Counter[str](), Counter[str]()
        for one in drawn.values():
            (true if one.is_true else false).update(words(one))
        assert true == false


def test_claims_of_a_schema_are_true_half_the_time() -> None:
    drawn = many_winograd_examples(40_000)
    for schema in SCHEMAS:
        truths = [one.is_true for one in drawn if one.schema == schema.code]
        assert sum(truths) / len(truths) == pytest.approx(0.5, abs=0.1), schema.code


def test_pronouns_do_not_reveal_their_referent() -> None:
    genders = dict.fromkeys(winograd.CANDIDATES["women"], "women")
    genders |= dict.fromkeys(winograd.CANDIDATES["men"], "men")
    assert not set(winograd.CANDIDATES["women"]) & set(winograd.CANDIDATES["men"])
    for one in many_winograd_examples(5_000):
        cast = {genders[word] for word in words(one) if word in genders}
        pronouns = set(words(one)) & {"she", "he"}
        assert len(cast) <= 1
        assert pronouns == ({"she"} if cast == {"women"} else {"he"} if cast else set())
