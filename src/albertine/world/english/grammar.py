"""English inflection: articles, plurals, verbs, numbers and lists, by rules with exceptions as data.

A form writes a verb as its base in brackets, `[take]`; `inflected` puts it into the tense
and person of the sentence. The first word in the brackets is inflected. All bracketed
verbs of a form share their subject.
"""

import re
from functools import cache
from typing import Final, NamedTuple

from albertine.world.english.lexicon import NUMBERS, TENS

# The tenses of a clause.
PAST: Final = 0  # Mara took the key
PRESENT: Final = 1  # Mara takes the key
PLUPERFECT: Final = 2  # Mara had taken the key
NEGATED: Final = 3  # Mara did not take the key
BARE: Final = 4  # (to) take the key
GERUND: Final = 5  # taking the key
TENSES: Final = 6

# The grammatical persons.
I: Final = 0  # noqa: E741  # the name of the person
PLURAL: Final = 1  # you, we and they too
SINGULAR: Final = 2
PERSONS: Final = 3


class Verb(NamedTuple):
    """The five forms of a verb."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(text: str) -> list[list[str]]:
    return [row.split() for row in text.split(";")]


# base past participle, of irregular verbs
_IRREGULAR = """
be was been; beat beat beaten; become became become; begin began begun; bend bent bent; blow blew blown;
break broke broken; bring brought brought; build built built; rebuild rebuilt rebuilt; burn burned burnt;
buy bought bought; catch caught caught; choose chose chosen; climb climbed climbed; come came come; cut cut
cut; deal dealt dealt; dig dug dug; do did done; draw drew drawn; drink drank drunk; drive drove driven; eat
ate eaten; fall fell fallen; feed fed fed; feel felt felt; fetch fetched fetched; fight fought fought; find
found found; fly flew flown; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got
got; give gave given; go went gone; grind ground ground; grow grew grown; hang hung hung; have had had; hear
heard heard; hide hid hidden; hit hit hit; hold held held; hurt hurt hurt; keep kept kept; kneel knelt
knelt; know knew known; lay laid laid; lead led led; leap leapt leapt; leave left left; lend lent lent; let
let let; lie lay lain; light lit lit; lose lost lost; make made made; mean meant meant; meet met met; pay
paid paid; put put put; read read read; ride rode ridden; ring rang rung; rise rose risen; row rowed rowed;
run ran run; saw sawed sawn; say said said; see saw seen; sell sold sold; send sent sent; set set set; sew
sewed sewn; shake shook shaken; shine shone shone; shoe shod shod; show showed shown; shut shut shut; sing
sang sung; sink sank sunk; sit sat sat; sleep slept slept; speak spoke spoken; spend spent spent; spin spun
spun; spread spread spread; stand stood stood; steal stole stolen; stick stuck stuck; sweep swept swept;
swim swam swum; swing swung swung; take took taken; teach taught taught; tear tore torn; tell told told;
think thought thought; throw threw thrown; understand understood understood; wake woke woken; wear wore
worn; weave wove woven; win won won; wind wound wound; write wrote written
"""
_PASTS = {base: rest for base, *rest in _pairs(_IRREGULAR)}
# Verbs that double the last consonant before -ed and -ing.
_DOUBLED = frozenset(
    _words(
        "beg begin chat chip chop clap clip cut dig dip drag drop drum fan fit flap forget get grab grin hit "
        "hop hug hum jam knit let nod pat pin plan plop prod put quarrel rip rob rub run set shop shut sip "
        "sit skim skip slap slip snap sob spin step stir stop strop strum strut swim tap tar tip trap trim "
        "trip trot wag whip win wrap"
    )
)
_PLURALS = dict(
    _pairs(
        "loaf loaves; potato potatoes; knife knives; child children; shelf shelves; goose geese; foot feet; "
        "mouse mice; leaf leaves; thief thieves; sheep sheep"
    )
)


@cache
def verb(base: str) -> Verb:
    """Return the five forms of a verb."""
    past, participle = _PASTS.get(base, ("", ""))
    regular = _with_ed(base)
    return Verb(base, _with_s(base), past or regular, participle or past or regular, _with_ing(base))


def _with_s(base: str) -> str:
    if base in ("be", "have", "do", "go"):
        return {"be": "is", "have": "has", "do": "does", "go": "goes"}[base]
    return plural(base) if base != "leaf" else "leafs"


def _with_ed(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return (base + base[-1] if base in _DOUBLED else base) + "ed"


def _with_ing(base: str) -> str:
    if base == "be":
        return "being"
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")):
        return base[:-1] + "ing"
    return (base + base[-1] if base in _DOUBLED else base) + "ing"


@cache
def plural(noun: str) -> str:
    """Return the plural of a noun (and, by the same rule, the third person of a verb)."""
    if noun in _PLURALS:
        return _PLURALS[noun]
    if noun.endswith("man"):
        return noun[:-3] + "men"
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


@cache
def with_article(phrase: str) -> str:
    """Return a phrase with its indefinite article, chosen by sound."""
    vowel = phrase[0].lower() in "aeiou" and not re.match(r"(?i)(one|use|uni|eu|ewe)", phrase)
    return f"{'an' if vowel or phrase.startswith(('hour', 'honest')) else 'a'} {phrase}"


@cache
def number_in_words(count: int) -> str:
    """Return a whole number up to 999 in words."""
    if count < len(NUMBERS):
        return NUMBERS[count]
    if count > 99:
        hundreds, rest = divmod(count, 100)
        return f"{NUMBERS[hundreds]} hundred" + (f" and {number_in_words(rest)}" if rest else "")
    ten, one = divmod(count, 10)
    return f"{TENS[ten]}-{NUMBERS[one]}" if one else TENS[ten]


@cache
def counted(count: int, noun: str) -> str:
    """Return a number and its noun: one egg, six eggs, no eggs."""
    return f"{number_in_words(count)} {noun if count == 1 else plural(noun)}"


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Return names joined as in a sentence: one, two and three."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def capital(sentence: str) -> str:
    """Return a sentence with a capital first letter."""
    return sentence[0].upper() + sentence[1:]


@cache
def inflected(base: str, tense: int, person: int) -> str:
    """Return a verb in a tense and a person."""
    forms = verb(base)
    if tense == PAST:
        return "were" if base == "be" and person == PLURAL else forms.past
    if tense == PRESENT:
        if base == "be":
            return ("am", "are", "is")[person]
        return forms.third if person == SINGULAR else base
    if tense == PLUPERFECT:
        return f"had {forms.participle}"
    if tense == NEGATED:
        if base == "be":
            return "were not" if person == PLURAL else "was not"
        return f"did not {base}"
    return base if tense == BARE else forms.gerund
