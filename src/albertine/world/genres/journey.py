"""A journey from village to village: travellers alone or in twos, whom they meet, what they carry."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Group, Person, Place, Thing
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene

# Where a traveller stops in a village.
_STOPS = (("inn", "at"), ("mill", "at"), ("ferry", "by"), ("chapel", "in"), ("farm", "on"), ("station", "at"))


def plan(scene: Scene) -> None:
    """Plan a journey of some stops."""
    villages = scene.some(words.VILLAGES, max(2, min(6, scene.length // scene.between(8, 13))))
    traveller = scene.person()
    companion = scene.person() if scene.toss(0.5) else None
    scene.title = f"The road to {villages[-1].name}"
    scene.places = [_stop(scene, village) for village in villages]
    baggage = [scene.thing() for _ in range(scene.between(1, 2))]
    _begin(scene, traveller, companion, baggage, villages[0])
    hour = scene.between(0, 2)
    share = max(3, (scene.length - len(scene.log)) // len(villages))
    for place in scene.places:
        part, phrases = words.HOURS[hour % len(words.HOURS)]
        hour += scene.between(1, 2)
        scene.do(e.Hour(part, scene.any(phrases)))
        _arrive(scene, traveller, companion, place)
        for _ in scene.until(len(scene.log) + share):
            _episode(scene, traveller, companion, baggage)


def _stop(scene: Scene, village: Place) -> Place:
    name, preposition = scene.pick(_STOPS)
    return Place(name, f"the {name} {village.at}", preposition)


def _begin(
    scene: Scene, traveller: Person, companion: Person | None, baggage: list[Thing], start: Place
) -> None:
    trait, habit = scene.pick(words.TRAITS)
    facts: list[e.Event] = [
        e.Lives(traveller, start),
        e.HasTrait(companion or traveller, trait, habit),
    ]
    trade, place = scene.trade()
    facts.append(e.Works(traveller, trade.name, place))
    if companion is not None:
        facts.append(e.IsKin(companion, scene.pick(words.KIN)[companion.gender], traveller))
    for fact in scene.some(facts, scene.between(1, 3)):
        scene.do(fact)
    for thing in baggage:
        scene.do(e.Owns(traveller, thing))


def _arrive(scene: Scene, traveller: Person, companion: Person | None, place: Place) -> None:
    """Let the travellers come to the next stop, together if they are two."""
    if scene.state.at.get(traveller) is not None:
        for _ in range(scene.between(0, 3)):
            who = traveller if companion is None or scene.toss(0.6) else companion
            ep.busy(scene, who, words.in_season(lexicon.ROAD_CHORES, scene.season))
    if companion is None:
        scene.go(traveller, place)
    else:
        where = scene.state.at
        if where.get(traveller) is where.get(companion) is not place:
            scene.do(e.Go(Group(traveller, companion), place))
        else:
            scene.go(traveller, place)
            scene.go(companion, place)


def _episode(scene: Scene, who: Person, companion: Person | None, baggage: list[Thing]) -> None:
    place = scene.state.at[who]
    draw = scene.random()
    if companion is not None and scene.toss(0.3) and scene.state.at.get(companion) is place:
        who, companion = companion, who
    if draw < 0.2:
        ep.chores(scene, who, scene.between(1, 2))
    elif draw < 0.3:
        ep.remark(scene, who)
    elif draw < 0.48:
        met = f"met {place.the}"
        if len(scene.people) < 6 and met not in scene.seen:
            scene.seen.add(met)
            stranger = scene.person()
            scene.do(e.Meet(who, stranger, place))
            _encounter(scene, who, stranger)
    elif draw < 0.58:
        thing = scene.any(baggage)
        resting = f"{thing.name} {place.the}"
        if scene.state.where[thing] is who and resting not in scene.seen:
            scene.seen.add(resting)
            spot = scene.spot(place)
            scene.do(e.Put(who, thing, spot))
            ep.chores(scene, who, 1)
            scene.do(e.Take(who, thing, spot))
    elif draw < 0.66:
        thing = scene.any(baggage)
        if scene.state.where[thing] is who:
            ep.lose(scene, who, thing)
            scene.go(who, place)
            if companion is not None:
                scene.go(companion, place)
    elif draw < 0.76:
        ep.weather(scene, who)
    elif draw < 0.86:
        ep.sight(scene)
    elif companion is not None:
        thing = scene.any(baggage)
        if scene.state.at.get(companion) is place:
            ep.gift(scene, who, thing, companion)
    else:
        ep.remark(scene, who)


def _encounter(scene: Scene, who: Person, stranger: Person) -> None:
    """Let someone on the road sell, give or tell something."""
    if scene.toss(0.35):
        thing = scene.thing()
        scene.do(e.Owns(stranger, thing))
        scene.do(e.Buy(who, thing, scene.between(2, 30), stranger))
        scene.given.add(thing)
    elif scene.toss(0.5):
        goods = scene.goods("eat")
        scene.do(e.Has(stranger, scene.between(4, 12), goods))
        count = scene.between(1, 4)
        scene.do(e.Share(stranger, count, goods, who))
        scene.do(e.Feel(who, scene.pick(lexicon.GOOD_MOODS)), e.SO)
        if count >= 2 and scene.toss(0.6):
            scene.do(e.Use(who, scene.between(1, count), goods))
    else:
        ep.tell(scene, who, stranger)
