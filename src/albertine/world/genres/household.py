"""A day in a house: people who live together, their rooms, and what gets lost, broken, eaten and mended."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Thing
from albertine.world.english import lexicon, words
from albertine.world.english.grammar import plural
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan a day from some hour on."""
    family = scene.family()
    scene.title = f"A day with the {plural(family)}"
    people, relation = _family(scene, family)
    scene.places = scene.some(words.ROOMS, scene.between(3, 5))
    main = people[0]
    fixture = scene.fixture(scene.any(scene.places))
    goods = scene.goods("eat")
    _begin(scene, people, relation, fixture, goods)
    parts = ep.hours(scene)
    share = max(3, (scene.length - len(scene.log)) // len(parts))
    for part, phrases in parts:
        scene.do(e.Hour(part, scene.any(phrases)))
        for _ in scene.until(len(scene.log) + share):
            _episode(scene, scene.any(people), main, fixture, goods)


def _family(scene: Scene, family: str) -> tuple[list[Person], str]:
    """Cast two to four people of one house."""
    row = scene.pick(words.KIN)
    first = scene.person(None, family)
    second = scene.person(None, family if row[0] in _BLOOD else None)
    others = [scene.person(None, family) for _ in range(scene.between(0, 2))]
    return [first, second, *others], row[first.gender]


_BLOOD = frozenset(("sister", "mother", "aunt", "grandmother"))


def _begin(scene: Scene, people: list[Person], relation: str, fixture: Fixture, goods: Goods) -> None:
    """Say who is who and what is there, never in the same order."""
    main, other = people[0], people[1]
    village = scene.pick(words.VILLAGES)
    trait, habit = scene.pick(words.TRAITS)
    facts: list[e.Event] = [
        e.Lives(main, village),
        e.IsKin(main, relation, other),
        e.HasTrait(scene.any(people), trait, habit),
        e.Stands(fixture, fixture.place),
        e.Has(main, scene.between(4, 15), goods),
    ]
    if scene.toss(0.4):
        animal = scene.pick(words.ANIMALS)
        facts.append(e.Keeps(other, animal.kind, scene.any(animal.names)))
    for fact in scene.some(facts, scene.between(2, 5)):
        scene.do(fact)


def _episode(scene: Scene, who: Person, main: Person, fixture: Fixture, goods: Goods) -> None:
    """Let one thing after another happen."""
    if scene.state.at.get(who) is None:
        scene.go(who, scene.any(scene.places))
    other = scene.other_person(who)
    if scene.state.at.get(other) is None and scene.toss(0.5):
        scene.go(other, scene.any(scene.places))
    draw = scene.random()
    if draw < 0.26:
        if scene.toss(0.5):
            scene.go(who, scene.any(scene.places))
        ep.chores(scene, who, scene.between(1, 2))
    elif draw < 0.4:
        ep.fetch(scene, who, _thing(scene, who))
    elif draw < 0.5:
        ep.lose(scene, who, _thing(scene, who))
    elif draw < 0.6:
        ep.gift(scene, who, _thing(scene, who), other)
    elif draw < 0.68:
        _break_or_mend(scene, who, fixture)
    elif draw < 0.8:
        if (main, goods) not in scene.state.stock:
            scene.do(e.Has(main, scene.between(4, 15), goods))
        if scene.state.at.get(main) is None:
            scene.go(main, scene.any(scene.places))
        ep.meal(scene, main, goods, scene.people)
    elif draw < 0.86:
        ep.weather(scene, who)
    elif draw < 0.9:
        ep.sight(scene)
    elif draw < 0.95:
        ep.remark(scene, who)
    elif scene.state.at.get(other) is not None:
        ep.tell(scene, who, other)


def _thing(scene: Scene, who: Person) -> Thing:
    """Return a thing that is here already, or bring one in."""
    if scene.things and scene.toss(0.5):
        return scene.any(scene.things)
    return ep.introduce(scene, who)


def _break_or_mend(scene: Scene, who: Person, fixture: Fixture) -> None:
    if fixture in scene.state.broken:
        scene.go(who, fixture.place)
        scene.do(e.Mend(who, fixture))
        scene.do(e.Feel(who, scene.pick(lexicon.GOOD_MOODS)), e.SO)
    else:
        ep.breakage(scene, who, fixture, scene.any(scene.people))
