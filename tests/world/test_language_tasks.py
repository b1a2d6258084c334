"""Tests of opinions and Winograd examples: labels are correct and words alone do not predict them."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from albertine.world.english import lexicon, opinions, winograd
from albertine.world.english.opinions import Opinion, OpinionPhrase, OpinionWord, is_positive, make_opinion
from albertine.world.english.winograd import SCHEMAS, WinogradExample, make_winograd_example

# Parts of an opinion that do not affect its label.
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


def sentiment_words() -> dict[str, bool]:
    """Return whether each word is positive."""
    subjects = opinions.SUBJECTS
    pairs = {pair for subject in subjects for pairs in subject.words.values() for pair in pairs}
    pairs |= {pair for subject in subjects for _, pair in subject.aspects}
    assert not {pair.good for pair in pairs} & {pair.bad for pair in pairs}
    return {pair.good: True for pair in pairs} | {pair.bad: False for pair in pairs}


SENTIMENT = sentiment_words()
SENTIMENT_WORD = re.compile(rf"\b({'|'.join(sorted(SENTIMENT, key=len, reverse=True))})\b")


def parsed_label(sentence: str) -> bool:
    """Return the label of a sentence from its last sentiment word and the number of negations."""
    judgement = ASIDES.sub("", sentence)
    return SENTIMENT[SENTIMENT_WORD.findall(judgement)[-1]] ^ bool(len(NEGATIONS.findall(judgement)) % 2)


def many_opinions(count: int, seed: int = 0) -> list[Opinion]:
    draw = random.Random(seed).random
    return [make_opinion(draw) for _ in range(count)]


def many_winograd_examples(count: int, seed: int = 0) -> list[WinogradExample]:
    draw = random.Random(seed).random
    return [make_winograd_example(draw) for _ in range(count)]


def random_source(*first_numbers: float, seed: int) -> Callable[[], float]:
    """Return a function that returns the given numbers first, then random numbers of a seed."""
    numbers: Iterator[float] = iter(first_numbers)
    rest = random.Random(seed).random
    return lambda: next(numbers, None) or rest()


def schema_examples(index: int, seed: int) -> dict[tuple[int, int], WinogradExample]:
    """Return the four examples of a schema (variant, candidate) with the same words."""
    schema = (index + 0.5) / len(SCHEMAS)
    return {
        (variant, candidate): make_winograd_example(
            random_source(schema, 0.25 + variant / 2, 0.25 + candidate / 2, seed=seed)
        )
        for variant in (0, 1)
        for candidate in (0, 1)
    }


def words(example: WinogradExample) -> list[str]:
    return re.findall(r"\w+", f"{example.sentence} {example.claim}")


def test_sentences_depend_only_on_the_seed() -> None:
    assert many_opinions(200) == many_opinions(200)
    assert many_winograd_examples(200) == many_winograd_examples(200)
    assert many_opinions(200) != many_opinions(200, seed=1)
    assert many_winograd_examples(200) != many_winograd_examples(200, seed=1)


def test_opinion_labels_agree_with_a_parser() -> None:
    for sentence, good in many_opinions(20_000):
        assert parsed_label(sentence) == good, sentence


def test_opinions_are_bare_sentences() -> None:
    names = {*lexicon.WOMEN, *lexicon.MEN}
    for sentence, _ in many_opinions(20_000):
        assert re.fullmatch(r"[\w', -]+\w", sentence), sentence
        assert 3 <= len(sentence.split()) <= 25, sentence
        assert sentence[0].islower() or sentence.split("'")[0] in names, sentence


def test_opinions_vary() -> None:
    opinions_drawn = many_opinions(20_000)
    assert len({sentence for sentence, _ in opinions_drawn}) >= 0.95 * len(opinions_drawn)
    assert sum(good for _, good in opinions_drawn) == pytest.approx(len(opinions_drawn) / 2, rel=0.03)


@pytest.mark.parametrize("name", opinions.CONSTRUCTIONS)
def test_slots_are_balanced_in_every_construction(name: str) -> None:
    balance = Counter[str]()
    for forms in opinions.CONSTRUCTIONS[name]:
        for sign, slot in re.findall(r"\{([+-])(\w+)\}", forms[0]):
            balance[slot] += 1 if sign == "+" else -1
    balance.pop("claim", None)  # balanced within the claim itself
    assert not any(balance.values()), balance


@pytest.mark.slow
def test_no_sentiment_word_predicts_the_label() -> None:
    counts = {word: [0, 0] for word in SENTIMENT}
    for sentence, good in many_opinions(20_000):
        for word in set(SENTIMENT_WORD.findall(sentence)):
            counts[word][good] += 1
    for word, (negative, positive) in counts.items():
        assert negative + positive > 0, word
        if negative + positive > 200:
            assert positive / (negative + positive) == pytest.approx(0.5, abs=0.15), word


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
    assert len({schema.name for schema in SCHEMAS}) == len(SCHEMAS) >= 40
    examples = many_winograd_examples(40_000)
    assert len({(example.sentence, example.claim) for example in examples}) >= 20_000
    assert {example.schema for example in examples} == {schema.name for schema in SCHEMAS}


def test_winograd_examples_are_sentences() -> None:
    for sentence, claim, _, _ in many_winograd_examples(20_000):
        for text in (sentence, claim):
            assert re.fullmatch(r"[A-Z][\w', -]+\w\.", text), text
        endings = re.split(r" (?:she|he|it|they) ", sentence)[1:]
        assert any(claim.endswith(f" {ending}") for ending in endings), claim


@pytest.mark.parametrize("index", range(len(SCHEMAS)), ids=[schema.name for schema in SCHEMAS])
def test_variants_of_a_schema_differ_in_referent(index: int) -> None:
    for seed in range(5):
        examples = schema_examples(index, seed)
        for other_choice in (0, 1):
            assert examples[0, other_choice].is_true != examples[1, other_choice].is_true
            assert examples[other_choice, 0].is_true != examples[other_choice, 1].is_true
            assert examples[other_choice, 0].sentence == examples[other_choice, 1].sentence
            assert examples[other_choice, 0].claim != examples[other_choice, 1].claim
        words_if_true, words_if_false = Counter[str](), Counter[str]()
        for example in examples.values():
            (words_if_true if example.is_true else words_if_false).update(words(example))
        assert words_if_true == words_if_false


def test_claims_of_a_schema_are_true_half_the_time() -> None:
    examples = many_winograd_examples(40_000)
    for schema in SCHEMAS:
        labels = [example.is_true for example in examples if example.schema == schema.name]
        assert sum(labels) / len(labels) == pytest.approx(0.5, abs=0.1), schema.name


def test_pronouns_do_not_reveal_their_referent() -> None:
    genders = dict.fromkeys(winograd.CANDIDATES["women"], "women")
    genders |= dict.fromkeys(winograd.CANDIDATES["men"], "men")
    assert not set(winograd.CANDIDATES["women"]) & set(winograd.CANDIDATES["men"])
    for example in many_winograd_examples(5_000):
        genders_named = {genders[word] for word in words(example) if word in genders}
        pronouns = set(words(example)) & {"she", "he"}
        assert len(genders_named) <= 1
        assert pronouns == ({"she"} if genders_named == {"women"} else {"he"} if genders_named else set())
