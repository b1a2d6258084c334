"""Opinions whose sentiment depends on how the parts of a sentence are combined.

Counting positive and negative words does not help: "tasty" is as frequent in negative
opinions as in positive ones. An opinion is a small tree, and its label is computed from
the leaves upwards (`is_positive`).

The forms contain the rules of composition. A form is a phrase with slots in braces, and
the sign of a slot is the polarity of that part relative to the whole: `{+claim}` agrees
with it, `{-claim}` is opposite. So `{the} {was} far from {-adjective}` is negation, and
`although the {aspect} was {-trait}, {+claim}` is concession. A tree is generated from its
label down to the words; the label is then computed from the words, which checks the tree.

Words hardly predict the label for two reasons. In each construction a word slot has
either sign equally often, because the pattern of signs is drawn before the form. And forms
with opposite patterns have similar contexts ("all in all tasty", "not at all tasty"), so
bigrams predict little too.

A claim is negated only where the opposite is clear: "it was a lie that the soup was
tasty" is negative, but "it was a lie that everybody liked it" might not be.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from albertine.randomness import UniformRandom
from albertine.world.english import lexicon
from albertine.world.english.grammar import PAST, PLURAL, SINGULAR, inflected

T = TypeVar("T")

# thing | one or many | "by" if it has a maker, "at" if it has a place | adjectives, good/bad |
# contents, good/bad; indented below: aspects with their adjectives, good/bad
_SUBJECT_TABLE = """
soup | one | by | tasty/tasteless wholesome/unwholesome | flavour/bitterness
    broth rich/watery, smell inviting/nasty
stew | one | by | tasty/tasteless tempting/unappetising | flavour/grease
    gravy rich/watery, smell inviting/nasty
pie | one | by | tasty/tasteless tempting/unappetising | flavour/bitterness
    crust crisp/soggy, filling juicy/dry
loaf | one | by | tasty/tasteless wholesome/unwholesome | flavour/grit
    crust crisp/burnt, smell fresh/musty
cheese | one | by | tasty/tasteless tempting/unappetising | flavour/mould
    rind clean/slimy, smell inviting/foul
ale | one | by | tasty/tasteless refreshing/stale | flavour/sourness
    aftertaste sweet/foul, smell fresh/musty
supper | one | by | tasty/tasteless tempting/unappetising | flavour/grease
    roast tender/tough, pudding sweet/burnt
song | one | by | tuneful/tuneless moving/dreary | feeling/discord
    rhythm lively/limping, refrain catchy/feeble
play | one | at | entertaining/tedious lively/dull | wit/nonsense
    plot clever/muddled, ending moving/feeble
puppet show | one | at | amusing/tedious lively/dull | wit/nonsense
    story clever/muddled, stage pretty/shabby
novel | one | by | gripping/boring entertaining/tedious | wit/nonsense
    plot clever/muddled, hero likeable/hateful
poem | one | by | graceful/clumsy moving/dreary | feeling/nonsense
    rhyme neat/forced, ending beautiful/feeble
sermon | one | at | inspiring/tedious memorable/forgettable | wisdom/nonsense
    opening graceful/clumsy, ending moving/feeble
lecture | one | at | instructive/tedious stimulating/tiring | wisdom/nonsense
    subject interesting/boring, speaker witty/dreary
speech | one | by | rousing/tedious memorable/forgettable | wit/nonsense
    opening graceful/clumsy, tone friendly/haughty
concert | one | at | lively/dull moving/dreary | feeling/discord
    singer gifted/hopeless, orchestra skilful/clumsy
inn | one | at | welcoming/unwelcoming cosy/dismal | comfort/dirt
    bed soft/lumpy, host friendly/surly
fair | one | at | merry/dreary lively/dull | laughter/quarrelling
    band skilful/hopeless, puppet show amusing/tedious
dance | one | at | merry/dreary lively/dull | laughter/quarrelling
    band skilful/hopeless, floor smooth/sticky
picnic | one | at | merry/dreary pleasant/unpleasant | laughter/quarrelling
    meadow sunny/swampy, pie delicious/stale
coach ride | one | by | comfortable/uncomfortable pleasant/unpleasant | merriment/boredom
    seat soft/lumpy, driver polite/rude
garden | one | by | lovely/ugly inviting/uninviting | charm/clutter
    lawn trim/ragged, pond clear/stinking
portrait | one | by | lifelike/lifeless flattering/unflattering | character/clumsiness
    smile natural/stiff, gaze lively/vacant
new clock | one | by | reliable/unreliable useful/useless | charm/vulgarity
    mechanism precise/sluggish, dial clear/smudged
armchair | one | by | comfortable/uncomfortable inviting/uninviting | charm/vulgarity
    seat soft/lumpy, back sturdy/wobbly
coat | one | by | becoming/unbecoming elegant/shabby | taste/vulgarity
    stitching neat/ragged, cut perfect/clumsy
umbrella | one | by | sturdy/flimsy useful/useless | taste/vulgarity
    handle smooth/splintery, cover sound/leaky
guidebook | one | by | reliable/unreliable useful/useless | sense/nonsense
    map clear/muddled, index complete/faulty
boots | many | by | comfortable/uncomfortable | taste/vulgarity
    lining soft/scratchy, fit snug/awkward
gloves | many | by | becoming/unbecoming elegant/shabby | taste/vulgarity
    stitching neat/ragged, fit snug/awkward
spectacles | many | by | useful/useless | taste/vulgarity
    frame sturdy/flimsy, fit snug/awkward
pancakes | many | by | tasty/tasteless tempting/unappetising | flavour/grease
    batter smooth/lumpy, smell inviting/nasty
"""

# Words that fit any thing: good/bad.
_WORDS = {
    "adjective": "good/bad satisfying/disappointing",
    "noun": "a_success/a_failure a_pleasure/a_disappointment a_treat/a_letdown a_delight/an_annoyance",
    "felt": "liked/disliked enjoyed/regretted praised/grumbled_about was_pleased_with/was_disappointed_by "
    "had_a_kind_word_for/had_a_harsh_word_for spoke_well_of/spoke_ill_of was_happy_with/complained_about",
    "feel": "enjoy/regret praise/curse recommend/grumble_about be_proud_of/be_ashamed_of",
    "told": "praised/criticised admired/mocked recommended/complained_about",
    "hoped": "hoped/feared",
    "better": "better/worse finer/poorer",
}

# Constructions about the thing itself; a slot `claim` is filled by any of them.
_CLAIMS = {
    "plain": """
{the} {was} all in all {+adjective}
{the} {was} nothing if not {+adjective}
{the} {was} truly {+adjective}
{the} {was} not at all {-adjective}
{the} {was} anything but {-adjective}
{the} {was} far from {-adjective}
{the} {was} all in all {+noun}
{the} {was} nothing short of {+noun}
{the} {was} anything but {-noun}
{the} {was} far from being {-noun}
""",
    "voiced": """
any fair judge would have called {the} {+adjective}
one could safely call {the} {+adjective}
no fair judge would have called {the} {-adjective}
one could hardly call {the} {-adjective}
nobody could call {the} {-adjective}
people of judgement could only call {the} {+noun}
people of judgement could never call {the} {-noun}
""",
    "contents": """
{the} {was} full of {+quality}
{the} had plenty of {+quality}
one did not look in vain for {+quality} in {the}
{the} {was} devoid of {-quality}
{the} {was} quite without {-quality}
one looked in vain for {-quality} in {the}
""",
    "feeling": """
everybody {crowd} {+felt} {the}
everyone {crowd} {+felt} {the}
nobody {crowd} {-felt} {the}
not a soul {crowd} {-felt} {the}
everybody {crowd} had good reason to {+feel} {the}
nobody {crowd} had any reason to {-feel} {the}
""",
}

# Constructions that combine claims and words.
_COMPOUNDS = {
    "truth": """
it was quite true that {the} {was} {+adjective}
it was no lie that {the} {was} {+adjective}
no sane person could deny that {the} {was} {+adjective}
it was quite untrue that {the} {was} {-adjective}
it was a lie that {the} {was} {-adjective}
no sane person could claim that {the} {was} {-adjective}
""",
    "attribution": """
{critic} said that {the} {was} {+adjective}, and {critic} was right
{critic} called {the} {+adjective}, and {critic} was right
whoever called {the} {+adjective} was right
{critic} was right to call {the} {+adjective}
{critic} said that {the} {was} {-adjective}, but {critic} was wrong
{critic} called {the} {-adjective}, and {critic} was wrong
whoever called {the} {-adjective} was wrong
{critic} was wrong to call {the} {-adjective}
""",
    "grounds": """
because the {aspect} was {+trait}, {+claim}
since the {aspect} was {+trait}, {+claim}
{+claim}, for the {aspect} was {+trait}
the {aspect} was {+trait}, and so {+claim}
although the {aspect} was {-trait}, {+claim}
even though the {aspect} was {-trait}, {+claim}
{+claim}, although the {aspect} was {-trait}
the {aspect} was {-trait}, but {+claim}
""",
    "comparison": """
{the} {was} even {+better} than the last {one}, which everybody {crowd} had {+told}
{the} {was} even {+better} than the last {one}, which nobody {crowd} had {-told}
{the} {was} not a whit {-better} than the last {one}, which everybody {crowd} had {+told}
{the} {was} not a whit {-better} than the last {one}, which nobody {crowd} had {-told}
""",
    "expectation": """
{critic} had {+hoped} that {the} would be {+adjective}, and that was how it turned out
{critic} had {+hoped} that {the} would be {+adjective}, and {critic} was right
{critic} had {-hoped} that {the} would be {-adjective}, and that was not how it turned out
{critic} had {-hoped} that {the} would be {-adjective}, and {critic} was mistaken
""",
}

_CROWDS = ("in the house", "in the street", "in the family", "in the parish", "on the square")


class Opinion(NamedTuple):
    """A sentence without its full stop, and whether it is positive."""

    sentence: str
    is_positive: bool


class OpinionWord(NamedTuple):
    """A leaf of the tree: a word and its polarity."""

    text: str
    good: bool


class OpinionPhrase(NamedTuple):
    """A node of the tree: a form and the parts that fill its signed slots, in order."""

    form: str
    parts: "tuple[OpinionWord | OpinionPhrase, ...]"


class Antonyms(NamedTuple):
    """A positive word and its negative opposite."""

    good: str
    bad: str


class OpinionSubject(NamedTuple):
    """A kind of thing to judge, with the words that fit it."""

    name: str
    many: bool
    has_maker: bool  # made by a person, else located at a place
    words: dict[str, tuple[Antonyms, ...]]
    aspects: tuple[tuple[str, Antonyms], ...]


class OpinionContext(NamedTuple):
    """The choices of one opinion: its thing, one aspect, and the words for all slots."""

    plain: dict[str, str]  # the text of each slot without a sign
    pairs: dict[str, tuple[Antonyms, ...]]  # the choices for each slot with a sign


# A construction: its forms, grouped by their pattern of signed slots.
Construction = tuple[tuple[str, ...], ...]

_SIGNED: Final = re.compile(r"\{([+-])(\w+)\}")
_SLOT: Final = re.compile(r"\{([+-]?)(\w+)\}")


def _pairs(text: str) -> tuple[Antonyms, ...]:
    """Return the pairs in a text; underscores join the words of a phrase."""
    return tuple(Antonyms(*pair.replace("_", " ").split("/")) for pair in text.split())


def _aspect(text: str) -> tuple[str, Antonyms]:
    name, pair = text.rsplit(" ", 1)
    return name.strip(), _pairs(pair)[0]


def _subject(entry: str) -> OpinionSubject:
    line, aspects = entry.split("\n")
    name, number, origin, adjectives, quality = line.split(" | ")
    words = {slot: _pairs(text) for slot, text in _WORDS.items()}
    words["adjective"] += _pairs(adjectives)
    words["quality"] = _pairs(quality)
    return OpinionSubject(
        name, number == "many", origin == "by", words, tuple(map(_aspect, aspects.split(",")))
    )


def _pattern(form: str) -> tuple[tuple[str, str], ...]:
    """Return the sign and name of each signed slot of a form."""
    return tuple((match[1], match[2]) for match in _SIGNED.finditer(form))


def _construction(text: str) -> Construction:
    forms = text.strip().splitlines()
    patterns = dict.fromkeys(map(_pattern, forms))
    return tuple(tuple(form for form in forms if _pattern(form) == pattern) for pattern in patterns)


SUBJECTS = tuple(map(_subject, re.split(r"\n(?! )", _SUBJECT_TABLE.strip())))
CLAIMS = {name: _construction(text) for name, text in _CLAIMS.items()}
CONSTRUCTIONS = CLAIMS | {name: _construction(text) for name, text in _COMPOUNDS.items()}
_CRITICS = tuple(f"the {trade}" for trade, *_ in lexicon.TRADES)
_NAMES = (*lexicon.WOMEN, *lexicon.MEN)


def make_opinion(random: UniformRandom) -> Opinion:
    """Return a random opinion; draws the label first, then the construction, then the words."""
    good = random() < 0.5
    construction = _one_of(tuple(CONSTRUCTIONS.values()), random)
    context = _opinion_context(_one_of(SUBJECTS, random), random)
    tree = _random_tree(construction, good, context, random)
    return Opinion(_filled(tree, context), is_positive(tree))


def is_positive(tree: OpinionWord | OpinionPhrase) -> bool:
    """Return the label of a tree; raise ValueError if its parts imply different labels."""
    if isinstance(tree, OpinionWord):
        return tree.good
    signed_parts = zip(_pattern(tree.form), tree.parts, strict=True)
    (label,) = {is_positive(part) == (sign == "+") for (sign, _), part in signed_parts}
    return label


def _one_of(options: Sequence[T], random: UniformRandom) -> T:
    return options[int(random() * len(options))]


def _opinion_context(subject: OpinionSubject, random: UniformRandom) -> OpinionContext:
    aspect, traits = _one_of(subject.aspects, random)
    village = _one_of(lexicon.VILLAGES, random)
    plain = {
        "the": _name(subject, village, random),
        "was": inflected("be", PAST, PLURAL if subject.many else SINGULAR),
        "one": "ones" if subject.many else "one",
        "aspect": aspect,
        "critic": _one_of(_CRITICS, random),
        "crowd": _one_of((f"in {village}", *_CROWDS), random),
    }
    return OpinionContext(plain, subject.words | {"trait": (traits,)})


def _name(subject: OpinionSubject, village: str, random: UniformRandom) -> str:
    """Return a thing with its owner or its place, or just with "the"."""
    if random() < 0.3:
        return f"the {subject.name}"
    return (
        f"{_one_of(_NAMES, random)}'s {subject.name}"
        if subject.has_maker
        else f"the {subject.name} at {village}"
    )


def _random_tree(
    construction: Construction, good: bool, context: OpinionContext, random: UniformRandom
) -> OpinionPhrase:
    """Return a random tree of a construction with the given label."""
    form = _one_of(_one_of(construction, random), random)
    slots = _pattern(form)
    return OpinionPhrase(
        form, tuple(_part(slot, good == (sign == "+"), context, random) for sign, slot in slots)
    )


def _part(
    slot: str, good: bool, context: OpinionContext, random: UniformRandom
) -> OpinionWord | OpinionPhrase:
    if slot in context.pairs:
        pair = _one_of(context.pairs[slot], random)
        return OpinionWord(pair.good if good else pair.bad, good)
    construction = _one_of(tuple(CLAIMS.values()), random) if slot == "claim" else CONSTRUCTIONS[slot]
    return _random_tree(construction, good, context, random)


def _filled(tree: OpinionWord | OpinionPhrase, context: OpinionContext) -> str:
    if isinstance(tree, OpinionWord):
        return tree.text
    parts = iter(tree.parts)

    def fill(match: re.Match[str]) -> str:
        if match[1]:
            return _filled(next(parts), context)
        return context.plain[match[2]]

    return _SLOT.sub(fill, tree.form)
