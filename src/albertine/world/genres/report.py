"""A newspaper report: an accident, a find or a sale, with the day, those concerned and what came of it."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Person
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan a report."""
    village = scene.pick(words.VILLAGES)
    scene.places = scene.some(words.SITES, scene.between(3, 4))
    scene.title = f"News from {village.name}"
    people = [scene.person() for _ in range(scene.between(2, 4))]
    for who in scene.some(people, 2):
        trade, place = scene.trade()
        scene.do(e.Works(who, trade.name, place))
    scene.do(e.Hour("day", f"on {scene.any(lexicon.DAYS)} in {village.name}"))
    scene.go(people[0], scene.places[0])
    for _ in scene.until(scene.length):
        _episode(scene, scene.any(people), scene.any(people))


def _episode(scene: Scene, who: Person, other: Person) -> None:
    draw = scene.random()
    if draw < 0.25:
        _add(scene)
    elif draw < 0.4:
        place = scene.any(scene.places)
        if place.name not in scene.seen:
            scene.seen.add(place.name)
            fixture = scene.fixture(place)
            if scene.toss(0.5):
                scene.do(e.Stands(fixture, place))
                ep.chores(scene, who, 1)
            ep.breakage(scene, who, fixture, other)
    elif draw < 0.55:
        if len(scene.things) < 5:
            ep.lose(scene, who, ep.introduce(scene, who))
    elif draw < 0.7:
        _sale(scene, who, other)
    elif draw < 0.8:
        ep.weather(scene, None)
    elif draw < 0.9:
        ep.errand(scene, who, scene.any(scene.places))
    elif scene.state.at.get(other) is not None and who is not other:
        ep.tell(scene, who, other)


def _sale(scene: Scene, who: Person, other: Person) -> None:
    """Let something be sold at a price worth telling."""
    if who is other or len(scene.things) >= 5:
        return
    thing = scene.thing()
    scene.do(e.Owns(other, thing))
    place = scene.state.at.get(other) or scene.places[0]
    scene.go(other, place)
    scene.go(who, place)
    scene.do(e.Buy(who, thing, scene.between(20, 90), other))


def _add(scene: Scene) -> None:
    line = scene.pick(words.REPORT_LINES)
    if line not in scene.seen:
        scene.seen.add(line)
        scene.do(e.Sight(line))
