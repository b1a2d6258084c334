"""The genre of a newspaper report: accidents, finds and sales on one day in a village."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Person
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan a newspaper report."""
    village = scene.choose_skewed(words.VILLAGES)
    scene.places = scene.sample_skewed(words.SITES, scene.randint(3, 4))
    scene.title = f"News from {village.name}"
    people = [scene.new_person() for _ in range(scene.randint(2, 4))]
    for who in scene.sample_skewed(people, 2):
        trade, place = scene.new_trade()
        scene.add_event(e.Works(who, trade, place))
    scene.add_event(e.TimeOfDay("day", f"on {scene.choose(lexicon.DAYS)} in {village.name}"))
    scene.go(people[0], scene.places[0])
    for _ in scene.iterations_until(scene.length):
        _add_episode(scene, scene.choose(people), scene.choose(people))


def _add_episode(scene: Scene, who: Person, other: Person) -> None:
    draw = scene.random()
    if draw < 0.25:
        _add_report_line(scene)
    elif draw < 0.4:
        place = scene.choose(scene.places)
        if place.name not in scene.used:
            scene.used.add(place.name)
            fixture = scene.new_fixture(place)
            if scene.toss(0.5):
                scene.add_event(e.FixtureAt(fixture, place))
                ep.do_chores(scene, who, 1)
            ep.break_fixture(scene, who, fixture, other)
    elif draw < 0.55:
        if len(scene.things) < 5:
            ep.lose_thing(scene, who, ep.introduce_thing(scene, who))
    elif draw < 0.7:
        _add_sale(scene, who, other)
    elif draw < 0.8:
        ep.change_weather(scene, None)
    elif draw < 0.9:
        ep.run_errand(scene, who, scene.choose(scene.places))
    elif scene.state.location.get(other) is not None and who is not other:
        ep.tell_last_action(scene, who, other)


def _add_sale(scene: Scene, who: Person, other: Person) -> None:
    """Make `other` sell a thing to `who` at a high price."""
    if who is other or len(scene.things) >= 5:
        return
    thing = scene.new_thing()
    scene.add_event(e.Owns(other, thing))
    place = scene.state.location.get(other) or scene.places[0]
    scene.go(other, place)
    scene.go(who, place)
    scene.add_event(e.Buy(who, thing, scene.randint(20, 90), other))


def _add_report_line(scene: Scene) -> None:
    line = scene.choose_skewed(words.REPORT_LINES)
    if line not in scene.used:
        scene.used.add(line)
        scene.add_event(e.Sight(line))
