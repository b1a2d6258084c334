"""Letters: one person writes to another of a day where they are, and may get an answer."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan a letter, or two that answer each other."""
    one, other = scene.person(), scene.person()
    villages = scene.some(words.VILLAGES, 2)
    scene.title = f"Letters from {villages[0].name}"
    scene.reserve("letter")  # it is what is being read
    letters = 1 if scene.length < 24 else 2
    for turn in range(letters):
        writer, reader = (one, other) if turn == 0 else (other, one)
        scene.do(e.Letter(writer, reader, villages[turn]))
        scene.places = scene.some(words.ROOMS if scene.toss(0.5) else words.SITES, scene.between(3, 4))
        scene.people = [writer, scene.person(), scene.person()][: scene.between(2, 3)]
        scene.things = []
        _write(scene, writer, reader, scene.length * (turn + 1) // letters)


def _write(scene: Scene, writer: Person, reader: Person, until: int) -> None:
    row = scene.pick(words.KIN)
    neighbour = scene.people[1]
    trait, habit = scene.pick(words.TRAITS)
    trade, place = scene.trade()
    goods = scene.goods("eat")
    fixture = scene.fixture(scene.any(scene.places))
    facts: list[e.Event] = [
        e.IsKin(neighbour, scene.pick(("neighbour", "friend", "cousin", "guest")), writer),
        e.HasTrait(neighbour, trait, habit),
        e.Works(neighbour, trade.name, place),
        e.Stands(fixture, fixture.place),
    ]
    if "letters" not in scene.seen:
        facts.append(e.IsKin(writer, row[writer.gender], reader))
        scene.seen.add("letters")
    for fact in scene.some(facts, scene.between(1, 2)):
        scene.do(fact)
    hour = scene.between(0, 2)
    for _ in scene.until(until):
        if scene.toss(0.2) and hour < len(words.HOURS):
            part, phrases = words.HOURS[hour]
            scene.do(e.Hour(part, scene.any(phrases)))
            hour += 1
        _episode(scene, writer if scene.toss(0.5) else scene.any(scene.people), neighbour, goods, fixture)


def _episode(scene: Scene, who: Person, neighbour: Person, goods: Goods, fixture: Fixture) -> None:
    if scene.state.at.get(who) is None:
        scene.go(who, scene.any(scene.places))
    draw = scene.random()
    if draw < 0.2:
        _line(scene)
    elif draw < 0.42:
        if scene.toss(0.4):
            scene.go(who, scene.any(scene.places))
        ep.chores(scene, who, scene.between(1, 2))
    elif draw < 0.54:
        own = [thing for thing in scene.things if scene.state.where[thing] is who]
        ep.lose(scene, who, scene.any(own) if own else ep.introduce(scene, who))
    elif draw < 0.64:
        ep.gift(scene, who, ep.introduce(scene, who), neighbour if who is not neighbour else scene.people[0])
    elif draw < 0.72:
        ep.breakage(scene, who, fixture, scene.any(scene.people))
    elif draw < 0.8:
        if (who, goods) not in scene.state.stock:
            scene.do(e.Has(who, scene.between(4, 15), goods))
        ep.meal(scene, who, goods, scene.people)
    elif draw < 0.88:
        ep.weather(scene, who)
    elif draw < 0.94:
        ep.errand(scene, who, scene.other_place(scene.state.at.get(who)))
    else:
        ep.sight(scene)


def _line(scene: Scene) -> None:
    """Let the writer turn to the reader."""
    line = scene.pick(lexicon.LETTER_LINES)
    if line not in scene.seen:
        scene.seen.add(line)
        scene.do(e.Aside(line))
