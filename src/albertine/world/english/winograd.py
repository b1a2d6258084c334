"""Winograd schemas: sentences whose pronoun only world knowledge resolves.

A schema has two variants: one phrase of its sentence has two alternatives, and the
referent of the pronoun depends on which is used. In "Nora lent Edith a lamp because she
had more than one", she is Nora; in "... because she had none of her own", she is Edith.
Both candidates agree in gender and number, so grammar does not decide.

A claim replaces the pronoun by one candidate. Variant and candidate are drawn
independently with probability 1/2, so true and false claims of a schema consist of the
same words, and counting words does not help. If the candidates come from different lists,
both variants also begin with the same words after the pronoun ("it was too blunt", "it was
too thick"). Otherwise the candidate and the next word would reveal the label.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from albertine.randomness import UniformRandom
from albertine.world.english import lexicon
from albertine.world.english.grammar import capital, plural, with_article

T = TypeVar("T")

# A schema is an entry of two lines:
#
#     name | candidate that the pronoun means in the first variant: A or B | list of A and list of B
#         sentence
#
# Without the third column, both candidates come from the list of the table: people or groups. In the
# sentence, {A} and {B} are the candidates; {he}, {his} and {him} are the pronoun; [one/other] is the phrase
# of the first and of the second variant; the words of other slots are in `FILLERS`. The claim is one
# candidate, followed by the rest of the sentence after {he}.
_ABOUT_PEOPLE = """
lend | A
    {A} lent {B} {thing} because {he} had [more than one/none of {his} own]
shelter | B
    {A} held an umbrella over {B} because {he} [had come out without one/had brought one along]
bill | A
    {A} sent {B} a bill because {he} had not [been paid/paid] yet
way | A
    {A} asked {B} the way to the {place} because {he} [was a stranger in/had been born in] {village}
snoring | B
    {A} shook {B} awake because {he} [was snoring terribly/was kept awake by the snoring]
carrying | B
    {A} carried {B} home because {he} [had sprained an ankle/was by far the stronger]
deaf | B
    {A} had to repeat every word to {B} because {he} [was hard of hearing/spoke so softly]
lesson | B
    {A} taught {B} to {skill} because {he} [knew nothing about it/was a master of it]
contest | A
    {A} beat {B} at {game}, and {he} went home [with/without] the prize
overtaking | A
    {A} overtook {B} on the road to {village} because {he} had a [fresh/lame] horse
sale | A
    {A} sold {B} {thing} because {he} [needed the money/had lost {his} own]
offence | A
    {A} apologised to {B} because {he} had [given/taken] offence
grudge | A
    {A} forgave {B} because {he} [could not bear a grudge/had begged for pardon on {his} knees]
hands | A
    {A} took {B} on at the {workplace} because {he} had [too much/no] work
wages | A
    {A} dismissed {B} from the {workplace} because {he} [could no longer pay the wages/always slept at work]
sitter | A
    {A} painted a portrait of {B} while {he} [mixed the colours/sat quite still]
haircut | B
    {A} cut {B}'s hair while {he} [sat on a stool/walked round the stool]
tailoring | B
    {A} sewed a coat for {B}, and on {day} {he} [wore it/was paid for it]
sickbed | B
    {A} sat up all night with {B} because {he} [had a high fever/was a trained nurse]
letterbox | B
    {A} waited all {season} for a letter from {B}, but {he} never [wrote/received] one
borrowing | A
    {A} borrowed {thing} from {B}, and on {day} {he} [gave/got] it back
fog | B
    {A} followed {B} through the fog to the {place} because {he} [knew/did not know] the way
question | A
    {A} could not answer {B}'s question because {he} [had not learned the lesson/had asked it in Latin]
birthday | B
    {A} bought {thing} for {B} because {he} [had a birthday/liked giving presents]
crossing | B
    {A} led {B} by the hand to the {place} because {he} [was blind/had good eyes]
ladder | B
    {A} held the ladder for {B} while {he} [picked the cherries/stood on the ground]
rescue | B
    {A} pulled {B} out of {river}, and so {he} [was saved from drowning/got a medal for courage]
sums | A
    {A} copied the sums from {B} because {he} was [bad/good] at sums
dictation | A
    {A} dictated a letter to {B} because {he} [could not write/could write quickly]
accident | A
    {A} [begged {B}'s pardon/scolded {B}] because {he} had broken the {breakable}
purse | A
    {A} [paid/robbed] {B}, and so {he} was left with an empty purse
bargain | A
    {A} [bought {thing} from/sold {thing} to] {B}, and from then on {he} was the owner
shelf | A
    {A} was much [taller/shorter] than {B}, and so {he} had to reach down the {vessel} from the top shelf
births | B
    {A} was born ten years [before/after] {B}, and so {he} was the younger
lodgers | B
    {A} lodged right [above/below] {B}, and every night {he} heard footsteps on the ceiling
room | A
    {A} came to the inn an hour [before/after] {B}, and so {he} got the last free room
fare | B
    {A} rowed {B} across {river}, and at the landing {he} [paid the fare/took the fare]
debt | A
    {A} was in debt to {B}, and so {he} had to [pay/be paid] a little every {day}
hiding | A
    {A} found {B} in the game because {he} had [searched/sneezed] behind the {spot}
platform | A
    {A} waved from the platform as {B}'s train left, and soon {he} was [walking home/miles away by train]
seesaw | A
    {A} sank on the seesaw and {B} rose because {he} was the [heavier/lighter]
runners | A
    {A} waited for {B} at the finish because {he} was the [faster/slower] runner
secret | B
    {A} would not tell {B} the secret because {he} [could keep nothing to {him}self/had sworn never to tell]
thief | A
    {A} caught {B} in the act, and so {he} got [a reward for catching a thief/a month in prison for stealing]
interview | A
    {A} interviewed {B} for the newspaper, and {he} [asked/answered] twenty questions
throat | A
    {A} examined {B}'s sore throat, and then {he} [wrote a prescription for/had to swallow] a bitter medicine
rank | A
    {A} bowed low before {B} because {he} was of [low/royal] birth
warning | B
    {A} shouted a warning to {B} because {he} [was walking towards a pit/had seen the pit in time]
"""

_ABOUT_THINGS = """
crash | A | hard brittle
    {A} fell on {B}, and after that {he} was [still whole/in pieces]
pond | A | heavy floating
    {A} and {B} were thrown into the pond, and soon {he} was [down at the bottom/afloat on the water]
melting | B | frozen hot
    {A} melted on {B} because {he} was [hot as fire/made of frozen water]
chase | A | barker mewer
    {A} chased {B} round the {spot}, and {he} was [barking/mewing] loudly
piercing | A | pointed yielding
    {A} went deep into {B} because {he} was so [sharp/soft]
cutting | A | blade tough
    {A} could not cut through {B} because {he} was too [blunt/thick]
load | A | support burden
    {A} broke under {B} because {he} was too [weak/heavy]
price | A | precious precious
    {A} cost far more than {B} because {he} was made of [pure gold/cheap tin]
laundry | A | garment garment
    {A} was washed, but not {B}, because {he} was [dirty/clean]
lumber | A | garment garment
    {A} was thrown away instead of {B} because {he} was [worn to rags/as good as new]
drying | A | garment garment
    {A} dried sooner than {B} because {he} hung in the [sun/shade]
mooring | A | afloat mooring
    {A} was tied to {B} because {he} was [adrift on/rooted beside] {river}
glow | A | insect light
    {A} flew round and round {B} because {he} was [drawn by the light/giving a bright light]
breakdown | A | puller pulled
    {A} could not pull {B} any farther because {he} had lost a [shoe/wheel]
brood | B | bird egg
    {A} sat on {B} for weeks, until {he} was [ready to hatch/tired of sitting]
prey | A | hunter prey
    {A} caught and ate {B} because {he} was [hungry for meat/slow to flee]
cover | A | hanging blemish
    {A} was hung over {B} because {he} was so [handsome/ugly]
ashes | A | thing_of_paper thing_of_iron
    {A} burnt in the fire, and {B} did not, because {he} was made of [paper/iron]
snow | A | village village
    {A} lies far higher in the hills than {B}, and so {he} has the [colder/milder] winters
climb | A | village village
    The road from {A} to {B} runs steeply uphill because {he} lies [in the valley/on the hilltop]
journey | A | village village
    The coach took {traveller} from {A} to {B}, and so {he} was the [starting point/goal] of the journey
sunrise | A | village village
    {A} lies far to the [east/west] of {B}, and so every morning {he} sees the sun first
emigration | A | village village
    Many families moved from {A} to {B} because {he} had [no work for them/work for everybody]
school | A | village village
    {A} has twice as many children as {B}, and so {he} needs the [larger/smaller] school
tower | A | low_building high_building
    {A} stood in the shadow of {B} because {he} was so [low/tall]
"""

_ABOUT_GROUPS = """
tug | A
    {A} beat {B} in the tug of war on {day} because {he} were the [stronger/weaker] side
frost | A
    {A} shivered, and {B} did not, because {he} worked [out in the frost/beside a hot oven]
lodging | A
    {A} rented the house in {village} to {B} because {he} had [a house to spare/nowhere to live]
supper | A
    {A} had invited {B} to supper, and at seven {he} [let the guests in/knocked at the door]
dance | A
    {A} showed {B} an old dance from {village} because {he} had [known it from childhood/never seen it before]
loan | B
    {A} refused to lend {B} any money because {he} [never paid it back/had been cheated before]
"""

# The lists of candidates.
_LISTS = """
hard: hammer, horseshoe, brick, anvil, flat iron, axe
brittle: vase, teacup, china plate, mirror, glass bottle, egg
heavy: anvil, horseshoe, millstone, iron key, hammer, brick
floating: cork, feather, straw hat, dry leaf, paper boat, wooden spoon
frozen: icicle, snowball, lump of ice, snowman's head
hot: stove, griddle, oven plate, frying pan
barker: dog, puppy, sheepdog, terrier, poodle
mewer: cat, kitten, tomcat, tabby
pointed: nail, needle, awl, thorn, arrow
yielding: cork, cushion, cheese, pear, loaf
blade: knife, axe, saw, bread knife, penknife
tough: log, rope, beam, branch, cable
support: shelf, bench, stool, ledge, plank
burden: anvil, millstone, church bell, iron stove, marble statue
precious: ring, watch, cup, spoon, box, brooch, comb, thimble, bell, candlestick
garment: coat, scarf, blanket, shirt, apron, shawl, waistcoat, towel, tablecloth
afloat: boat, raft, barge, canoe
mooring: willow, oak, alder, poplar
insect: moth, beetle, gnat, hornet
light: lamp, lantern, candle, torch
puller: mare, pony, donkey, carthorse
pulled: cart, coach, wagon, carriage
bird: hen, goose, duck, swan
egg: speckled egg, large egg, white egg, brown egg
hunter: cat, hawk, fox, owl, weasel
prey: mouse, frog, sparrow, vole, young rat
hanging: picture, carpet, tapestry, map, mirror
blemish: crack, stain, hole, damp patch
thing_of_paper: kite, paper lantern, letter, ticket, notebook
thing_of_iron: key, horseshoe, poker, chain, nail
low_building: bakery, inn, school, forge, library, pottery
high_building: church, lighthouse, town hall, theatre, brewery
"""

# The words of the other slots.
_FILLERS = {
    "skill": "swim, skate, row, dance, juggle, play chess, play the fiddle, play the flute, ride, bake bread",
    "game": "chess, draughts, skittles, cards, archery, wrestling",
    "vessel": "jug, kettle, pitcher, bottle, basket",
    "spot": "barrel, cupboard, stove, haystack, woodpile, well",
    "traveller": "a doctor, an old sailor, two nuns, the new teacher, a merchant, a wedding party",
}

# Names that are not used, because they are also words, which would add a second ambiguity.
_EXCLUDED_NAMES = frozenset(
    {"Rose", "Ivy", "Olive", "Hazel", "Flora", "Will", "Frank", "Basil", "Mark", "Jasper"}
)
# Things that are not used, because they are rarely lent, bought or given.
_EXCLUDED_THINGS = frozenset({"key", "letter", "ticket", "parcel", "seal", "matchbox"})
# Adjectives that are not used, because nobody would lend, buy or give such a thing.
_EXCLUDED_ADJECTIVES = frozenset(
    {"lost", "broken", "torn", "borrowed", "bent", "blunt", "empty", "damp", "frayed", "cracked"}
)

_PRONOUNS = {
    "women": {"he": "she", "his": "her", "him": "her"},
    "men": {"he": "he", "his": "his", "him": "him"},
    "group": {"he": "they", "his": "their", "him": "them"},
    "thing": {"he": "it", "his": "its", "him": "it"},
}


class WinogradExample(NamedTuple):
    """A sentence with a pronoun, a claim about its referent, and whether the claim is true."""

    sentence: str
    claim: str
    is_true: bool
    schema: str


class WinogradSchema(NamedTuple):
    """A sentence with two variants, the lists of its candidates, and the referent in the first variant."""

    name: str
    lists: tuple[str, str]
    sentence: str
    referent: int


_SLOT: Final = re.compile(r"\{(\w+)\}")
_VARIANTS: Final = re.compile(r"\[(.*)/(.*)\]")


def _schemas(table: str, own_list: str = "") -> tuple[WinogradSchema, ...]:
    """Return the schemas of a table; `own_list` is the list of candidates of entries that name none."""
    return tuple(_schema(entry, own_list) for entry in re.split(r"\n(?! )", table.strip()))


def _schema(entry: str, own_list: str) -> WinogradSchema:
    header, sentence = entry.split("\n")
    name, referent, *lists = header.split(" | ")
    first, second = lists[0].split() if lists else (own_list, own_list)
    return WinogradSchema(name, (first, second), sentence.strip(), "AB".index(referent))


def _parse_lists(text: str) -> dict[str, tuple[str, ...]]:
    rows = (line.split(": ") for line in text.strip().splitlines())
    return {name: tuple(f"the {thing}" for thing in things.split(", ")) for name, things in rows}


def _things() -> tuple[str, ...]:
    """Return things that can be lent, bought or given: a red book, a blue coat."""
    return tuple(
        with_article(f"{adjective} {kind}")
        for kind, adjectives in lexicon.THINGS
        for adjective in adjectives.split()
        if not {kind, adjective} & (_EXCLUDED_THINGS | _EXCLUDED_ADJECTIVES)
    )


SCHEMAS = (
    *_schemas(_ABOUT_PEOPLE, "people"),
    *_schemas(_ABOUT_THINGS),
    *_schemas(_ABOUT_GROUPS, "group"),
)
CANDIDATES = {
    "women": tuple(name for name in lexicon.WOMEN if name not in _EXCLUDED_NAMES),
    "men": tuple(name for name in lexicon.MEN if name not in _EXCLUDED_NAMES),
    "village": lexicon.VILLAGES,
    "group": tuple(f"the {plural(trade)}" for trade, *_ in lexicon.TRADES if not trade.endswith("man")),
    **_parse_lists(_LISTS),
}
FILLERS = {
    "thing": _things(),
    "breakable": tuple(
        f"{adjective} {kind}"
        for kind, adjectives, *_ in lexicon.BREAKABLES
        for adjective in adjectives.split()
    ),
    "place": tuple(place for place, *_ in lexicon.PLACES),
    "workplace": tuple(workplace for _, workplace in lexicon.TRADES),
    "village": lexicon.VILLAGES,
    "river": tuple(f"the {river}" for river in lexicon.RIVERS),
    "day": lexicon.DAYS,
    "season": lexicon.SEASONS,
    **{slot: tuple(words.split(", ")) for slot, words in _FILLERS.items()},
}


def make_winograd_example(random: UniformRandom) -> WinogradExample:
    """Return a random example; draws schema, variant and candidate first, then the words."""
    schema = _one_of(SCHEMAS, random)
    variant = int(random() * 2)
    candidate = int(random() * 2)
    words = _words(schema, random)
    template = _VARIANTS.sub(lambda match: match[1 + variant], schema.sentence)
    _, _, predicate = template.partition("{he}")
    claim = f"{{{'AB'[candidate]}}}{predicate}"
    referent = schema.referent ^ variant
    return WinogradExample(
        _filled_template(template, words), _filled_template(claim, words), candidate == referent, schema.name
    )


def _one_of(options: Sequence[T], random: UniformRandom) -> T:
    return options[int(random() * len(options))]


def _words(schema: WinogradSchema, random: UniformRandom) -> dict[str, str]:
    """Return random words for every slot of a schema."""
    first_list, second_list = schema.lists
    if first_list == "people":
        first_list = second_list = "women" if random() < 0.5 else "men"
    first = _one_of(CANDIDATES[first_list], random)
    second = _one_of([other for other in CANDIDATES[second_list] if other != first], random)
    words = _PRONOUNS.get(first_list, _PRONOUNS["thing"]) | {"A": first, "B": second}
    for slot in _SLOT.findall(schema.sentence):
        if slot not in words:
            words[slot] = _one_of(FILLERS[slot], random)
    return words


def _filled_template(template: str, words: dict[str, str]) -> str:
    return capital(_SLOT.sub(lambda match: words[match[1]], template)) + "."
