"""The genre of a day in a house: a family loses, finds, breaks, repairs and eats things in its rooms."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import WOMAN, Fixture, Goods, Person, Thing
from albertine.world.english import lexicon, words
from albertine.world.english.grammar import plural
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan a household story."""
    family = scene.new_family_name()
    scene.title = f"A day with the {plural(family)}"
    people, relation = _add_family(scene, family)
    scene.places = scene.sample_skewed(words.ROOMS, scene.randint(3, 5))
    main = people[0]
    fixture = scene.new_fixture(scene.choose(scene.places))
    goods = scene.new_goods("eat")
    _introduce_cast(scene, people, relation, fixture, goods)
    times = ep.times_of_day(scene)
    events_per_time = max(3, (scene.length - len(scene.log)) // len(times))
    for time, phrases in times:
        scene.add_event(e.TimeOfDay(time, scene.choose(phrases)))
        for _ in scene.iterations_until(len(scene.log) + events_per_time):
            _add_episode(scene, scene.choose(people), main, fixture, goods)


def _add_family(scene: Scene, family: str) -> tuple[list[Person], str]:
    """Add two to four persons; return them, and the relation of the first to the second."""
    relation = scene.choose_skewed(words.KIN)
    first = scene.new_person(None, family)
    second = scene.new_person(None, family if relation[WOMAN] in _BLOOD else None)
    others = [scene.new_person(None, family) for _ in range(scene.randint(0, 2))]
    return [first, second, *others], relation[first.gender]


_BLOOD = frozenset(("sister", "mother", "aunt", "grandmother"))


def _introduce_cast(
    scene: Scene, people: list[Person], relation: str, fixture: Fixture, goods: Goods
) -> None:
    """Add two to five facts about the cast, in random order."""
    main, other = people[0], people[1]
    village = scene.choose_skewed(words.VILLAGES)
    trait, habit = scene.choose_skewed(words.TRAITS)
    facts: list[e.Event] = [
        e.Lives(main, village),
        e.HasRelation(main, relation, other),
        e.HasTrait(scene.choose(people), trait, habit),
        e.FixtureAt(fixture, fixture.place),
        e.HasGoods(main, scene.randint(4, 15), goods),
    ]
    if scene.toss(0.4):
        animal = scene.choose_skewed(words.ANIMALS)
        facts.append(e.Keeps(other, animal.kind, scene.choose(animal.names)))
    for fact in scene.sample_skewed(facts, scene.randint(2, 5)):
        scene.add_event(fact)


def _add_episode(scene: Scene, who: Person, main: Person, fixture: Fixture, goods: Goods) -> None:
    """Add one random episode."""
    if scene.state.location.get(who) is None:
        scene.go(who, scene.choose(scene.places))
    other = scene.other_person(who)
    if scene.state.location.get(other) is None and scene.toss(0.5):
        scene.go(other, scene.choose(scene.places))
    draw = scene.random()
    if draw < 0.26:
        if scene.toss(0.5):
            scene.go(who, scene.choose(scene.places))
        ep.do_chores(scene, who, scene.randint(1, 2))
    elif draw < 0.4:
        ep.move_thing(scene, who, _known_or_new_thing(scene, who))
    elif draw < 0.5:
        ep.lose_thing(scene, who, _known_or_new_thing(scene, who))
    elif draw < 0.6:
        ep.give_thing(scene, who, _known_or_new_thing(scene, who), other)
    elif draw < 0.68:
        _break_or_repair(scene, who, fixture)
    elif draw < 0.8:
        if (main, goods) not in scene.state.stock:
            scene.add_event(e.HasGoods(main, scene.randint(4, 15), goods))
        if scene.state.location.get(main) is None:
            scene.go(main, scene.choose(scene.places))
        ep.use_and_share_goods(scene, main, goods, scene.people)
    elif draw < 0.86:
        ep.change_weather(scene, who)
    elif draw < 0.9:
        ep.add_sight(scene)
    elif draw < 0.95:
        ep.add_remark(scene, who)
    elif scene.state.location.get(other) is not None:
        ep.tell_last_action(scene, who, other)


def _known_or_new_thing(scene: Scene, who: Person) -> Thing:
    """Return a thing of the scene, or a new one."""
    if scene.things and scene.toss(0.5):
        return scene.choose(scene.things)
    return ep.introduce_thing(scene, who)


def _break_or_repair(scene: Scene, who: Person, fixture: Fixture) -> None:
    if fixture in scene.state.broken:
        scene.go(who, fixture.place)
        scene.add_event(e.Repair(who, fixture))
        scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)
    else:
        ep.break_fixture(scene, who, fixture, scene.choose(scene.people))
