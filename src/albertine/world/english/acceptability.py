"""Acceptability (CoLA): grammatical sentences, and sentences with exactly one error.

A phenomenon is a dependency between two positions of a sentence: the number of a subject
and of its verb, a question word and its gap, *both* and *and*. Each position is filled in
one of two ways, and the sentence is acceptable if and only if they match:

    The keys in the box were old.      The key in the box was old.
    *The key in the box were old.      *The keys in the box was old.

All four combinations are drawn equally often, so each filler is as frequent in acceptable
sentences as in unacceptable ones. Unrelated words separate the two positions. Therefore
neither a word nor a bigram predicts the label; only a parse does.

Gold labels must be certain, so an unacceptable sentence must have no second reading. The
verbs here always need their object; names that are also words, or fit both genders, are
excluded; and errors that some speakers accept (*there was two*, *me and him went*, *they*
for one person) do not occur.

As usual in linguistics, a star in the docstrings marks an unacceptable sentence.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from albertine.world.english.grammar import (
    PAST,
    PLURAL,
    PRESENT,
    SINGULAR,
    capital,
    inflected,
    plural,
    verb,
    with_article,
)
from albertine.world.english.lexicon import (
    BAD_MOODS,
    GOOD_MOODS,
    GOODS,
    MEN,
    PLACES,
    SPOTS,
    THINGS,
    TRADES,
    VILLAGES,
    WOMEN,
)

Word = TypeVar("Word")


class AcceptabilityExample(NamedTuple):
    """A sentence, whether it is acceptable, and the phenomenon that it tests."""

    sentence: str
    acceptable: bool
    phenomenon: str


# --- Words ----------------------------------------------------------------------------


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split(","))


# Names that are also words ("Will Frank hurt himself?") or whose gender may be unclear.
_UNCLEAR_NAMES: Final = frozenset(
    _words("Rose Ivy Olive Flora Hazel Sam Will Frank Basil Martin Jasper Mark Arne Ivo")
)
_WOMEN: Final = tuple(name for name in WOMEN if name not in _UNCLEAR_NAMES)
_MEN: Final = tuple(name for name in MEN if name not in _UNCLEAR_NAMES)
_NAMES: Final = _WOMEN + _MEN
_KINSWOMEN: Final = _words("sister aunt niece mother grandmother daughter landlady")
_KINSMEN: Final = _words("brother uncle nephew father grandfather son landlord")

# Without trades that are also verbs, and one with an irregular plural.
_TRADES: Final = tuple(row[0] for row in TRADES if row[0] not in ("nurse", "doctor", "ferryman"))
# Without "by the well", which could be read as the agent of a passive.
_PLACES: Final = tuple(
    (preposition, f"the {place}") for place, preposition, *_ in PLACES if preposition != "by"
)
_SPOTS: Final = tuple(f"{preposition} the {spot}" for spot, preposition, _ in SPOTS)
_CONTAINERS: Final = _words(
    "table bench basket chest barrel cupboard box crate trunk chair stool bucket sack"
)
_BESIDE: Final = _words("beside behind under near")
# None starts with a preposition that a verb here may govern.
_TIMES: Final = _phrases(
    "after supper, before breakfast, after dinner, before supper, in the afternoon, in the evening, "
    "in the spring, in the autumn, in the winter, that night, that morning, that evening"
)
_MOMENTS: Final = _words("evening morning day night summer winter afternoon")

# Things and their adjectives, without containers and things that are also verbs.
_THINGS: Final = tuple(
    (thing, tuple(adjectives.split()))
    for thing, adjectives in THINGS
    if thing not in ("basket", "saw", "chess set", "watch", "ring", "seal", "stamp", "bow")
)
_OFTEN: Final = ("never", "often", "always", "once again")
_GOOD: Final = _words("good cheap fine")
_OPINIONS: Final = _words("strange ugly lovely curious handsome beautiful")
_LOOKS: Final = _words("old heavy cheap wet dirty missing pretty valuable ugly dusty damp lovely broken")
_MOODS: Final = GOOD_MOODS + tuple(mood for mood in BAD_MOODS if mood != "cross") + ("tired", "hungry", "ill")
_GOODS: Final = tuple(row[0] for row in GOODS)
_MASSES: Final = _words("bread flour milk butter honey salt wool hay barley rice soup sugar corn bacon")
# Adjectives compared with "more", not with "-er".
_LONG_ADJECTIVES: Final = _words(
    "patient stubborn curious careful forgetful cheerful honest restless generous talkative sensible"
)

_TRADING: Final = _words("sell buy borrow fetch carry")
# Verbs with a thing as object; the object of the second list is obligatory.
_DO_TO_THINGS: Final = _words("sell buy find borrow lose carry fetch")
_DO_TO_A_THING: Final = _words("find buy discover carry")
_LOSING: Final = _words("sell find lose steal borrow")
# Verbs with an obligatory person as object, and intransitive verbs.
_DO_TO_PEOPLE: Final = _words("thank greet invite accompany blame escort rescue recognise welcome")
_INTRANSITIVE: Final = _words("sneeze yawn hesitate stumble tremble blush doze")
# Verbs that can be reflexive and reciprocal.
_DO_TO_ONESELF: Final = _words("blame admire forgive defend pity encourage hurt embarrass")
# Verbs whose base, past and participle differ.
_STRONG: Final = _words("take steal hide shake")
# Verbs with an obligatory object, and prepositions that form no phrasal verb with them.
_PUTTING: Final = (
    ("find", _BESIDE),
    ("put", _BESIDE),
    ("discover", _BESIDE),
    ("bring", ("to",)),
    ("carry", ("to",)),
)
# Verbs with an obligatory preposition.
_DO_WITH_PREPOSITION: Final = (
    ("look", "at"),
    ("gaze", "at"),
    ("stare", "at"),
    ("glance", "at"),
    ("laugh", "at"),
    ("rely", "on"),
    ("wait", "for"),
    ("long", "for"),
)
# Idioms whose possessive must refer to the subject.
_ONES_OWN: Final = _phrases(
    "did _ best, lost _ way, lost _ temper, held _ breath, kept _ word, kept _ temper, walked home on _ own, "
    "came home on _ own, bided _ time"
)

# Words that start a dependency, in pairs of lists: each list needs a different continuation.
_ONE_OF, _SEVERAL_OF = ("one", "each", "every one"), ("both", "several", "two", "three", "many")
_THIS, _THESE = ("this", "that", "every", "another"), ("these", "those", "several", "a few")
_EAGER, _HARD = _words("eager keen willing unwilling"), _words("hard difficult impossible easy")
_ASKED, _CLAIMED = _words("asked inquired"), _words("claimed insisted boasted complained swore")
_MADE, _FORCED = _words("made let"), _words("forced persuaded encouraged invited tempted")
# Verbs of saying and of knowing take "that"; verbs of knowing also take a question.
_SAID: Final = _words("said thought believed knew heard")
_KNEW: Final = _words("knew remembered noticed forgot discovered")
# A pronoun as object and as subject, and whether it is plural.
_CASES: Final = (
    ("him", "he", False),
    ("her", "she", False),
    ("me", "I", False),
    ("us", "we", True),
    ("them", "they", True),
)
# Verbs with a preposition whose object can be a person or a thing.
_SPOKEN_ABOUT: Final = (
    ("about", "spoken"),
    ("about", "heard"),
    ("about", "dreamed"),
    ("at", "laughed"),
    ("at", "looked"),
    ("for", "waited"),
    ("for", "searched"),
)

# --- Choices --------------------------------------------------------------------------


class _Chooser:
    """Random choices from a stream of random numbers."""

    def __init__(self, random: Callable[[], float]):
        self._random = random
        self._named: set[str] = set()

    def name(self, names: Sequence[str]) -> str:
        """Return a name not yet used in the sentence."""
        while (name := self.one(names)) in self._named:
            pass
        self._named.add(name)
        return name

    def toss(self) -> bool:
        return self._random() < 0.5

    def one(self, words: Sequence[Word]) -> Word:
        return words[int(self._random() * len(words))]

    def two(self, words: Sequence[Word]) -> tuple[Word, Word]:
        """Return two different words."""
        first = int(self._random() * len(words))
        second = (first + 1 + int(self._random() * (len(words) - 1))) % len(words)
        return words[first], words[second]

    def cross(self, fits: bool) -> tuple[bool, bool]:
        """Return for each of the two positions which of its two fillers it gets; equal if `fits`."""
        left = self.toss()
        return left, left == fits


# --- Phrases outside the dependency ---------------------------------------------------


def _noun(noun: str, many: bool) -> str:
    return plural(noun) if many else noun


def _thing(rng: _Chooser, many: bool = False) -> str:
    """Return a thing without an article: key, rusty keys."""
    thing, adjectives = rng.one(_THINGS)
    noun = _noun(thing, many)
    return f"{rng.one(adjectives)} {noun}" if rng.toss() else noun


def _the_thing(rng: _Chooser) -> str:
    return f"the {_thing(rng)}"


def _person(rng: _Chooser) -> str:
    return rng.name(_NAMES) if rng.toss() else f"the {rng.one(_TRADES)}"


def _two_persons(rng: _Chooser) -> tuple[str, str]:
    name, other = rng.name(_NAMES), rng.name(_NAMES)
    trade = f"the {rng.one(_TRADES)}"
    return rng.one(((name, other), (name, trade), (trade, other)))


def _at_place(rng: _Chooser) -> str:
    return " ".join(rng.one(_PLACES))


def _beside(rng: _Chooser, many: bool) -> str:
    return f"{rng.one(_BESIDE)} the {_noun(rng.one(_CONTAINERS), many)}"


def _participle(rng: _Chooser, bases: Sequence[str]) -> str:
    return verb(rng.one(bases)).participle


def _agreeing(base: str, tense: int, many: bool) -> str:
    return inflected(base, tense, PLURAL if many else SINGULAR)


def _thing_predicate(rng: _Chooser, many: bool) -> str:
    """Return a predicate about one or several things: was old, have been sold, belongs to Mara."""
    return rng.one(
        (
            f"{_agreeing('have', PRESENT, many)} been {_participle(rng, _LOSING)}",
            f"{_agreeing('be', PAST, many)} {rng.one(_LOOKS)}",
            f"{_agreeing('be', PRESENT, many)} {rng.one(_LOOKS)}",
            f"{_agreeing('belong', PRESENT, many)} to {_person(rng)}",
        )
    )


def _person_predicate(rng: _Chooser, many: bool) -> str:
    """Return a predicate about one or several persons: was glad, have left Harrow, lives in Oakham."""
    return rng.one(
        (
            f"{_agreeing('have', PRESENT, many)} left {rng.one(VILLAGES)}",
            f"{_agreeing('be', PAST, many)} {rng.one(_MOODS)}",
            f"{_agreeing('be', PRESENT, many)} {rng.one(_MOODS)}",
            f"{_agreeing('live', PRESENT, many)} in {rng.one(VILLAGES)}",
        )
    )


def _placed(rng: _Chooser) -> tuple[str, str]:
    """Return a participle that needs an object, and a place: put, behind the box; brought, to the mill."""
    base, prepositions = rng.one(_PUTTING)
    where = rng.one(_PLACES)[1] if prepositions == ("to",) else f"the {rng.one(_CONTAINERS)}"
    return verb(base).participle, f"{rng.one(prepositions)} {where}"


def _optional(is_present: bool, phrase: str) -> str:
    """Return a phrase with a space before it if it is present, or an empty string."""
    return f" {phrase}" if is_present else ""


# --- Agreement in number --------------------------------------------------------------


def _agreement(rng: _Chooser, fits: bool) -> str:
    """Agreement across a phrase: The key in the boxes was old. *The key in the boxes were old."""
    many, verb_is_plural = rng.cross(fits)
    return f"the {_thing(rng, many)} {_beside(rng, rng.toss())} {_thing_predicate(rng, verb_is_plural)}."


def _relative_clause(rng: _Chooser, fits: bool) -> str:
    """Agreement across a clause: The clerks who met Ned were ill. *The clerks who met Ned was ill."""
    many, verb_is_plural = rng.cross(fits)
    other = rng.one((rng.name(_NAMES), f"the {_noun(rng.one(_TRADES), rng.toss())}"))
    action = _participle(rng, _DO_TO_PEOPLE)
    clause = f"who had {action} {other}" if rng.toss() else f"whom {other} had {action} {_at_place(rng)}"
    return f"the {_noun(rng.one(_TRADES), many)} {clause} {_person_predicate(rng, verb_is_plural)}."


def _inversion(rng: _Chooser, fits: bool) -> str:
    """Agreement with a later subject: Behind the box were the keys. *Behind the box was the keys."""
    verb_is_plural, many = rng.cross(fits)
    thing, adjectives = rng.one(_THINGS)
    where = f"{_beside(rng, rng.toss())} {_at_place(rng)}"
    be = _agreeing("be", rng.one((PAST, PRESENT)), verb_is_plural)
    return f"{where} {be} the {rng.one(adjectives)} {_noun(thing, many)} of {_person(rng)}."


def _quantifier(rng: _Chooser, fits: bool) -> str:
    """Agreement with a quantifier: Each of the keys was old. *Each of the keys were old."""
    many, verb_is_plural = rng.cross(fits)
    quantifier = rng.one(_SEVERAL_OF if many else _ONE_OF)
    among = f"the {_thing(rng, many=True)} {_beside(rng, rng.toss())}"
    return f"{quantifier} of {among} {_thing_predicate(rng, verb_is_plural)}."


def _determiner(rng: _Chooser, fits: bool) -> str:
    """Agreement of determiners: Mara sold these ugly keys. *Mara sold this ugly keys."""
    determiner_is_plural, many = rng.cross(fits)
    thing, adjectives = rng.one(_THINGS)
    described = f"{rng.one(_OPINIONS)} {rng.one(adjectives)} {_noun(thing, many)}"
    action = verb(rng.one(_TRADING)).past
    agent = _person(rng)
    determiner = rng.one(_THESE if determiner_is_plural else _THIS)
    return f"{agent} {action} {determiner} {described} {rng.one(_TIMES)}."


def _mass(rng: _Chooser, fits: bool) -> str:
    """Mass nouns: Mara bought too much good bread. *Mara bought too many good bread."""
    countable, counted = rng.cross(fits)
    noun = plural(rng.one(_GOODS)) if counted else rng.one(_MASSES)
    much = f"{rng.one(('too', 'so'))} {'many' if countable else 'much'} {rng.one(_GOOD)}"
    return f"{_person(rng)} {verb(rng.one(_TRADING)).past} {much} {noun} {rng.one(_TIMES)}."


# --- Words that need an antecedent ----------------------------------------------------


def _reflexive(rng: _Chooser, fits: bool) -> str:
    """Reflexives: Mara said Tobias hurt himself. *Mara said Tobias hurt herself."""
    man, himself = rng.cross(fits)
    speaker, agent = rng.name(_NAMES), rng.name(_MEN if man else _WOMEN)
    action = f"had {_participle(rng, _DO_TO_ONESELF)} {'himself' if himself else 'herself'}"
    where = _optional(rng.toss(), _at_place(rng))
    return f"{speaker} {rng.one(_SAID)} that {agent} {action}{where}."


def _possessor(rng: _Chooser, fits: bool) -> str:
    """Reflexives of a possessive phrase: Mara's brother blamed himself. *Mara's brother blamed herself."""
    man, himself = rng.cross(fits)
    owner, relation = rng.name(_NAMES), rng.one(_KINSMEN if man else _KINSWOMEN)
    head = f"{owner}'s {relation}" if rng.toss() else f"the {relation} of {owner}"
    action = f"{rng.one(_OFTEN)} {_participle(rng, _DO_TO_ONESELF)}"
    return f"{head} had {action} {'himself' if himself else 'herself'}."


def _pronoun(rng: _Chooser, fits: bool) -> str:
    """Reflexives of a pronoun: Mara knew they had hurt themselves. *Mara knew they had hurt himself."""
    left, right = rng.cross(fits)
    pair = rng.two((("he", "himself"), ("she", "herself"), ("we", "ourselves"), ("they", "themselves")))
    action = f"had {_participle(rng, _DO_TO_ONESELF)}"
    return f"{_person(rng)} {rng.one(_SAID)} that {pair[left][0]} {action} {pair[right][1]} {_at_place(rng)}."


def _reciprocal(rng: _Chooser, fits: bool) -> str:
    """Reciprocals: The aunts of the clerk met each other. *The aunt of the clerks met each other."""
    many, mutual = rng.cross(fits)
    kin, oneself = rng.one(((_KINSWOMEN, "herself"), (_KINSMEN, "himself")))
    head = f"the {_noun(rng.one(kin), many)} of the {_noun(rng.one(_TRADES), rng.toss())}"
    action = f"{verb(rng.one(_DO_TO_ONESELF)).past} {'each other' if mutual else oneself}"
    return f"{head} {action} {_at_place(rng)}."


def _own(rng: _Chooser, fits: bool) -> str:
    """Bound possessives: Mara, who met Tobias, lost her way. *Mara, who met Tobias, lost his way."""
    man, his = rng.cross(fits)
    head, other = rng.name(_MEN if man else _WOMEN), rng.name(_NAMES)
    action = rng.one(_ONES_OWN).replace("_", "his" if his else "her")
    return f"{head}, who had {_participle(rng, _DO_TO_PEOPLE)} {other} {_at_place(rng)}, {action}."


def _polarity(rng: _Chooser, fits: bool) -> str:
    """Negative polarity items: The clerk who had often written had not called in years.

    *The clerk who had not written had often called in years. Both sentences negate one
    clause and assert the other; the structure decides whether "not" licenses "in years".
    """
    item = rng.one(("in years", "in ages", "at all"))
    often = rng.one(("often", "always", "sometimes", "regularly"))
    action, other_action = _deniable(rng), _deniable(rng)
    if rng.toss():
        # A relative clause in the main clause: the item belongs to the main clause, which ends the sentence.
        inner, outer = (often, "not") if fits else ("not", often)
        return f"the {rng.one(_TRADES)} who had {inner} {action} had {outer} {other_action} {item}."
    # Two coordinated clauses: the item may be in either.
    item_first, not_first = rng.cross(fits)
    first, second = ("not", often) if not_first else (often, "not")
    agent, other = _two_persons(rng)
    return (
        f"{agent} had {first} {action}{_optional(item_first, item)}, "
        f"but {other} had {second} {other_action}{_optional(not item_first, item)}."
    )


def _deniable(rng: _Chooser) -> str:
    """Return a participle phrase that fits both "often" and "not ... in years"."""
    return rng.one(
        (
            f"helped {_person(rng)}",
            f"written to {_person(rng)}",
            f"visited {rng.one(_PLACES)[1]}",
            f"spoken about {rng.one(VILLAGES)}",
        )
    )


# --- Gaps -----------------------------------------------------------------------------


def _gap(rng: _Chooser, fits: bool) -> str:
    """Gaps of question words: Ned knew what Mara had put under the table.

    *Ned knew what Mara had put the key under the table. *Ned knew that Mara had put under the table.
    """
    asks, lacks = rng.cross(fits)
    agent, knower = _two_persons(rng)
    action, where = _placed(rng)
    clause = f"{action}{_optional(not lacks, _the_thing(rng))} {where}"
    if rng.toss():
        return f"{'what has' if asks else 'has'} {agent} {clause}?"
    return f"{knower} {rng.one(_KNEW)} {'what' if asks else 'that'} {agent} had {clause}."


def _island(rng: _Chooser, fits: bool) -> str:
    """Islands: a question word cannot fill a gap in a relative or a temporal clause.

    What had the man who had found the key behind the box put under the table?
    *What had the man who had found behind the box put the key under the table?

    The relative clause precedes the gap of the main clause; the temporal clause follows it.
    """
    action, where = _placed(rng)
    other_action, other_where = _placed(rng)
    thing = _the_thing(rng)
    island_first, thing_first = rng.cross(fits)
    first = f"{action}{_optional(thing_first, thing)} {where}"
    second = f"{other_action}{_optional(not thing_first, thing)} {other_where}"
    if island_first:
        return f"what had the {rng.one(_TRADES)} who had {first} {second}?"
    agent, other = _two_persons(rng)
    return f"what had {agent} {first} {rng.one(('before', 'after'))} {other} had {second}?"


def _resumptive(rng: _Chooser, fits: bool) -> str:
    """Resumptive pronouns: Mara paid the clerk whom Ned met. *Mara paid the clerk whom Ned met him."""
    relative, lacks = rng.cross(fits)
    agent, other = _two_persons(rng)
    link = "whom" if relative else rng.one(("after", "before", "because"))
    did = rng.one(("paid", "visited", "praised", "helped", "followed"))
    action = f"{_participle(rng, _DO_TO_PEOPLE)}{_optional(not lacks, rng.one(('him', 'her')))}"
    return f"{agent} {did} the {rng.one(_TRADES)} {link} {other} had {action} {_at_place(rng)}."


def _pied_piping(rng: _Chooser, fits: bool) -> str:
    """Pied-piping: The lamp at which Mara looked was old. *The lamp which Mara looked was old."""
    after_verb, repeated = rng.cross(fits)
    base, preposition = rng.one(_DO_WITH_PREPOSITION)
    which = "which" if after_verb else f"{preposition} which"
    action = f"{verb(base).participle}{_optional(repeated, preposition)} {rng.one(_TIMES)}"
    return f"the {_thing(rng)} {which} {_person(rng)} had {action} was {rng.one(_LOOKS)}."


def _tough(rng: _Chooser, fits: bool) -> str:
    """Tough constructions: Mara was hard to find. *Mara was hard to find the key."""
    hard, lacks = rng.cross(fits)
    action = rng.one(("find", "describe", "replace", "avoid", "rescue"))
    agent, other = _two_persons(rng)
    what = _optional(not lacks, rng.one((other, _the_thing(rng))))
    return f"{agent} was {rng.one(_HARD if hard else _EAGER)} to {action}{what} {_at_place(rng)}."


# --- Arguments of verbs ---------------------------------------------------------------


def _transitivity(rng: _Chooser, fits: bool) -> str:
    """Transitivity: Mara forgot the day when Ned fell. *Mara forgot the key that Ned fell."""
    of_thing, takes_object = rng.cross(fits)
    head = f"{_the_thing(rng)} that" if of_thing else f"the {rng.one(_MOMENTS)} when"
    thought = rng.one(("remembered", "forgot", "described", "thought of", "spoke of"))
    agent, thinker = _two_persons(rng)
    action = _participle(rng, _DO_TO_A_THING if takes_object else _INTRANSITIVE)
    return f"{thinker} {thought} {head} {agent} had {action} {_at_place(rng)}."


def _place_of_putting(rng: _Chooser, fits: bool) -> str:
    """Obligatory place of "put": Before Mara put the key on the shelf, Tobias found the lamp.

    *Before Mara put the key, Tobias found the lamp on the shelf. With other verbs a place
    is optional, so both sentences have one; the error is the clause that has it.
    """
    put_first, place_first = rng.cross(fits)
    seeing = verb(rng.one(("find", "notice", "discover", "see"))).past
    first, second = ("put", seeing) if put_first else (seeing, "put")
    agent, other = _two_persons(rng)
    spot = rng.one(_SPOTS)
    return (
        f"{rng.one(('before', 'after'))} {agent} {first} {_the_thing(rng)}{_optional(place_first, spot)}, "
        f"{other} {second} {_the_thing(rng)}{_optional(not place_first, spot)}."
    )


def _voice(rng: _Chooser, fits: bool) -> str:
    """Passives need a transitive verb: Mara was politely thanked. *Mara was politely sneezed."""
    passive, takes_object = rng.cross(fits)
    how = rng.one(("quietly", "suddenly", "soon", "at last", "once again"))
    action = _participle(rng, _DO_TO_PEOPLE if takes_object else _INTRANSITIVE)
    return f"{_person(rng)} {'was' if passive else 'had'} {how} {action} {_at_place(rng)}."


def _auxiliary(rng: _Chooser, fits: bool) -> str:
    """Verb forms after auxiliaries: Mara had quietly taken it. *Mara had quietly took it."""
    left, right = rng.cross(fits)
    forms = verb(rng.one(_STRONG))
    pair = rng.two(
        (("", forms.past), (" had", forms.participle), (" would", forms.base), (" was", forms.gerund))
    )
    how = rng.one(("quietly", "slowly", "quickly", "gladly", "soon", "in fact", "once again", "at last"))
    return f"{_person(rng)}{pair[left][0]} {how} {pair[right][1]} {_the_thing(rng)}."


def _complementiser(rng: _Chooser, fits: bool) -> str:
    """Complementisers: Mara asked here whether Ned slept. *Mara asked here that Ned slept."""
    asks, whether = rng.cross(fits)
    agent, other = _two_persons(rng)
    clause = f"{'whether' if whether else 'that'} {other} had {_participle(rng, _DO_TO_THINGS)}"
    return f"{agent} {rng.one(_ASKED if asks else _CLAIMED)} {_at_place(rng)} {clause} {_the_thing(rng)}."


def _infinitive(rng: _Chooser, fits: bool) -> str:
    """Infinitives with "to": Mara made the clerk sell the key. *Mara made the clerk to sell the key."""
    wants_to, has_to = rng.cross(fits)
    whom = f"the {rng.one(_TRADES)} from {rng.one(_PLACES)[1]}"
    action = f"{'to ' if has_to else ''}{rng.one(_TRADING)}"
    return f"{_person(rng)} {rng.one(_FORCED if wants_to else _MADE)} {whom} {action} {_the_thing(rng)}."


def _case(rng: _Chooser, fits: bool) -> str:
    """Case of pronouns: Mara knew her alone to be honest. *Mara knew she alone to be honest."""
    finite, nominative = rng.cross(fits)
    him, he, several = rng.one(_CASES)
    knew = rng.one(("believed", "knew", "declared", "found"))
    whom = f"{he if nominative else him} {rng.one(('alone', 'of all people', 'at least'))}"
    be = _agreeing("be", PAST, several) if finite else "to be"
    return f"{_person(rng)} {knew} {whom} {be} {rng.one(_LONG_ADJECTIVES)}."


# --- Word order -----------------------------------------------------------------------


def _question(rng: _Chooser, fits: bool) -> str:
    """Inversion in main clauses only: Ned forgot where Mara had put it. *Ned forgot where had Mara put it."""
    main, inverted = rng.cross(fits)
    agent, knower = _two_persons(rng)
    start = rng.one(("but", "and", "so")) if main else f"{knower} {rng.one(_KNEW)}"
    order = f"had {agent}" if inverted else f"{agent} had"
    action = f"{_participle(rng, _DO_TO_THINGS)} {_the_thing(rng)}"
    return f"{start} {rng.one(('where', 'when', 'why', 'how'))} {order} {action}{'?' if main else '.'}"


def _fronting(rng: _Chooser, fits: bool) -> str:
    """Inversion after a negation: At no time had Mara sold a lamp. *At no time Mara had sold a lamp."""
    negative, inverted = rng.cross(fits)
    front = rng.one(("at _ time", "in _ village", "on _ morning", "on _ evening", "in _ house"))
    where = rng.one(("in the winter", "in those years", "near the river", "by the sea", "in that country"))
    agent = _person(rng)
    order = f"had {agent}" if inverted else f"{agent} had"
    action = f"{_participle(rng, _LOSING)} {with_article(_thing(rng))}"
    return f"{front.replace('_', 'no' if negative else 'one')} {where} {order} {action}."


# --- Words that come in pairs ---------------------------------------------------------


def _correlative(rng: _Chooser, fits: bool) -> str:
    """Correlatives: Mara sold both the key and the lamp. *Mara sold both the key or the lamp."""
    left, right = rng.cross(fits)
    pair = (("both", "and"), rng.one((("either", "or"), ("neither", "nor"))))
    first = f"{_the_thing(rng)} from {rng.one(_PLACES)[1]}"
    action = verb(rng.one(_DO_TO_THINGS)).past
    return f"{_person(rng)} {action} {pair[left][0]} {first} {pair[right][1]} {_the_thing(rng)}."


def _comparative(rng: _Chooser, fits: bool) -> str:
    """Comparison with "as" or "than": Mara was as patient that night as anybody else in Harrow.

    *Mara was as patient that night than anybody else in Harrow. The standard of comparison
    contains "any", so that "as" cannot mean because, while or in the role of.
    """
    more, than = rng.cross(fits)
    degree = rng.one(("more", "less")) if more else "as"
    described = f"{degree} {rng.one(_LONG_ADJECTIVES)} {rng.one((_at_place(rng), rng.one(_TIMES)))}"
    anybody = rng.one(("anybody else", "anyone else", f"any other {rng.one(_TRADES)}"))
    who = f"{_person(rng)} {rng.one(('was', 'seemed'))}"
    return f"{who} {described} {'than' if than else 'as'} {anybody} in {rng.one(VILLAGES)}."


def _animacy(rng: _Chooser, fits: bool) -> str:
    """Animacy: The lamp about which Mara spoke was old. *The lamp about whom Mara spoke was old."""
    person, whom = rng.cross(fits)
    preposition, action = rng.one(_SPOKEN_ABOUT)
    clause = f"{preposition} {'whom' if whom else 'which'} {rng.name(_NAMES)} had {action}"
    predicate = rng.one((f"came from {rng.one(VILLAGES)}", f"was {_at_place(rng)}"))
    return f"the {rng.one(_TRADES) if person else _thing(rng)} {clause} {predicate}."


def _tag(rng: _Chooser, fits: bool) -> str:
    """Question tags: "Mara has sold it, hasn't she?" but *"Mara has sold it, didn't she?"."""
    left, right = rng.cross(fits)
    forms = verb(rng.one(_TRADING))
    pair = rng.two(
        (
            (forms.past, "didn't"),
            (f"has {forms.participle}", "hasn't"),
            (f"will {forms.base}", "won't"),
            (f"is {forms.gerund}", "isn't"),
        )
    )
    agent, pronoun = rng.one(((rng.name(_WOMEN), "she"), (rng.name(_MEN), "he")))
    return f"{agent} {pair[left][0]} {_the_thing(rng)}, {pair[right][1]} {pronoun}?"


def _ellipsis(rng: _Chooser, fits: bool) -> str:
    """Ellipsis: Mara was ill, and so was Tobias. *Mara was ill, and so did Tobias."""
    state, was = rng.cross(fits)
    agent, other = _two_persons(rng)
    mood, base = rng.one(_MOODS), rng.one(_INTRANSITIVE)
    if rng.toss():
        clause, link = (f"was {mood}" if state else verb(base).past), "so"
    else:
        clause, link = (f"was not {mood}" if state else f"did not {base}"), "neither"
    return f"{agent} {clause} {rng.one(_TIMES)}, and {link} {'was' if was else 'did'} {other}."


# --- All phenomena --------------------------------------------------------------------

_MAKERS: Final[dict[str, Callable[[_Chooser, bool], str]]] = {
    "agreement": _agreement,
    "relative-clause": _relative_clause,
    "inversion": _inversion,
    "quantifier": _quantifier,
    "determiner": _determiner,
    "mass": _mass,
    "reflexive": _reflexive,
    "possessor": _possessor,
    "pronoun": _pronoun,
    "reciprocal": _reciprocal,
    "own": _own,
    "polarity": _polarity,
    "gap": _gap,
    "island": _island,
    "resumptive": _resumptive,
    "pied-piping": _pied_piping,
    "tough": _tough,
    "transitivity": _transitivity,
    "place": _place_of_putting,
    "voice": _voice,
    "auxiliary": _auxiliary,
    "complementiser": _complementiser,
    "infinitive": _infinitive,
    "case": _case,
    "question": _question,
    "fronting": _fronting,
    "correlative": _correlative,
    "comparative": _comparative,
    "animacy": _animacy,
    "tag": _tag,
    "ellipsis": _ellipsis,
}
PHENOMENA: Final[tuple[str, ...]] = tuple(_MAKERS)


def make_acceptability_example(random: Callable[[], float]) -> AcceptabilityExample:
    """Return a random sentence with its label; `random` returns numbers in [0, 1)."""
    rng = _Chooser(random)
    phenomenon = rng.one(PHENOMENA)
    acceptable = rng.toss()
    return AcceptabilityExample(capital(_MAKERS[phenomenon](rng, acceptable)), acceptable, phenomenon)
