"""Words of acceptability examples: those of the lexicon that leave no doubt about a label."""

from typing import Final

from albertine.world.english import lexicon


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.split(","))


# Names that are also words ("Will Frank hurt himself?") or whose gender may be unclear.
UNCLEAR_NAMES: Final = frozenset(
    _words("Rose Ivy Olive Flora Hazel Sam Will Frank Basil Martin Jasper Mark Arne Ivo")
)
WOMEN: Final = tuple(name for name in lexicon.WOMEN if name not in UNCLEAR_NAMES)
MEN: Final = tuple(name for name in lexicon.MEN if name not in UNCLEAR_NAMES)
NAMES: Final = WOMEN + MEN
KINSWOMEN: Final = _words("sister aunt niece mother grandmother daughter landlady")
KINSMEN: Final = _words("brother uncle nephew father grandfather son landlord")

# Without trades that are also verbs, and one with an irregular plural.
TRADES: Final = tuple(row[0] for row in lexicon.TRADES if row[0] not in ("nurse", "doctor", "ferryman"))
# Without "by the well", which could be read as the agent of a passive.
PLACES: Final = tuple(
    (preposition, f"the {place}") for place, preposition, *_ in lexicon.PLACES if preposition != "by"
)
SPOTS: Final = tuple(f"{preposition} the {spot}" for spot, preposition, _ in lexicon.SPOTS)
CONTAINERS: Final = _words("table bench basket chest barrel cupboard box crate trunk chair stool bucket sack")
BESIDE: Final = _words("beside behind under near")
# None starts with a preposition that a verb here may govern.
TIMES: Final = _phrases(
    "after supper, before breakfast, after dinner, before supper, in the afternoon, in the evening, "
    "in the spring, in the autumn, in the winter, that night, that morning, that evening"
)
MOMENTS: Final = _words("evening morning day night summer winter afternoon")

# Things and their adjectives, without containers and things that are also verbs.
THINGS: Final = tuple(
    (thing, tuple(adjectives.split()))
    for thing, adjectives in lexicon.THINGS
    if thing not in ("basket", "saw", "chess set", "watch", "ring", "seal", "stamp", "bow")
)
OFTEN: Final = ("never", "often", "always", "once again")
GOOD: Final = _words("good cheap fine")
OPINIONS: Final = _words("strange ugly lovely curious handsome beautiful")
LOOKS: Final = _words("old heavy cheap wet dirty missing pretty valuable ugly dusty damp lovely broken")
MOODS: Final = (
    lexicon.GOOD_MOODS
    + tuple(mood for mood in lexicon.BAD_MOODS if mood != "cross")
    + ("tired", "hungry", "ill")
)
GOODS: Final = tuple(row[0] for row in lexicon.GOODS)
MASSES: Final = _words("bread flour milk butter honey salt wool hay barley rice soup sugar corn bacon")
# Adjectives compared with "more", not with "-er".
LONG_ADJECTIVES: Final = _words(
    "patient stubborn curious careful forgetful cheerful honest restless generous talkative sensible"
)

TRADING: Final = _words("sell buy borrow fetch carry")
# Verbs with a thing as object; the object of the second list is obligatory.
DO_TO_THINGS: Final = _words("sell buy find borrow lose carry fetch")
DO_TO_A_THING: Final = _words("find buy discover carry")
LOSING: Final = _words("sell find lose steal borrow")
# Verbs with an obligatory person as object, and intransitive verbs.
DO_TO_PEOPLE: Final = _words("thank greet invite accompany blame escort rescue recognise welcome")
INTRANSITIVE: Final = _words("sneeze yawn hesitate stumble tremble blush doze")
# Verbs that can be reflexive and reciprocal.
DO_TO_ONESELF: Final = _words("blame admire forgive defend pity encourage hurt embarrass")
# Verbs whose base, past and participle differ.
STRONG: Final = _words("steal shake tear freeze")
# Verbs with an obligatory object, and prepositions that form no phrasal verb with them.
PUTTING: Final = (
    ("find", BESIDE),
    ("put", BESIDE),
    ("discover", BESIDE),
    ("bring", ("to",)),
    ("carry", ("to",)),
)
# Verbs with an obligatory preposition.
DO_WITH_PREPOSITION: Final = (
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
ONES_OWN: Final = _phrases(
    "did _ best, lost _ way, lost _ temper, held _ breath, kept _ word, kept _ temper, walked home on _ own, "
    "came home on _ own, bided _ time"
)

# Words that start a dependency, in pairs of lists: each list needs a different continuation.
ONE_OF, SEVERAL_OF = ("one", "each", "every one"), ("both", "several", "two", "three", "many")
THIS, THESE = ("this", "that", "every", "another"), ("these", "those", "several", "a few")
EAGER, HARD = _words("eager keen willing unwilling"), _words("hard difficult impossible easy")
ASKED, CLAIMED = _words("asked inquired"), _words("claimed insisted boasted complained swore")
MADE, FORCED = _words("made let"), _words("forced persuaded encouraged invited tempted")
# Verbs of saying and of knowing take "that"; verbs of knowing also take a question.
SAID: Final = _words("said thought believed knew heard")
KNEW: Final = _words("knew remembered noticed forgot discovered")
# A pronoun as object and as subject, and whether it is plural.
CASES: Final = (
    ("him", "he", False),
    ("her", "she", False),
    ("me", "I", False),
    ("us", "we", True),
    ("them", "they", True),
)
# Verbs with a preposition whose object can be a person or a thing.
SPOKEN_ABOUT: Final = (
    ("about", "spoken"),
    ("about", "heard"),
    ("about", "dreamed"),
    ("at", "laughed"),
    ("at", "looked"),
    ("for", "waited"),
    ("for", "searched"),
)
