"""The genre of a journey from village to village, by one or two travellers."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Person, PersonGroup, Place, Thing
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene

# Where a traveller stops in a village, and the preposition.
_STOPS = (("inn", "at"), ("mill", "at"), ("ferry", "by"), ("chapel", "in"), ("farm", "on"), ("station", "at"))


def plan(scene: Scene) -> None:
    """Plan a journey story."""
    villages = scene.sample_skewed(words.VILLAGES, max(2, min(6, scene.length // scene.randint(8, 13))))
    traveller = scene.new_person()
    companion = scene.new_person() if scene.toss(0.5) else None
    scene.title = f"The road to {villages[-1].name}"
    scene.places = [_new_stop(scene, village) for village in villages]
    baggage = [scene.new_thing() for _ in range(scene.randint(1, 2))]
    _introduce_cast(scene, traveller, companion, baggage, villages[0])
    hour = scene.randint(0, 2)
    events_per_stop = max(3, (scene.length - len(scene.log)) // len(villages))
    for place in scene.places:
        part, phrases = words.HOURS[hour % len(words.HOURS)]
        hour += scene.randint(1, 2)
        scene.add_event(e.TimeOfDay(part, scene.choose(phrases)))
        _arrive(scene, traveller, companion, place)
        for _ in scene.iterations_until(len(scene.log) + events_per_stop):
            _add_episode(scene, traveller, companion, baggage)


def _new_stop(scene: Scene, village: Place) -> Place:
    name, preposition = scene.choose_skewed(_STOPS)
    return Place(name, f"the {name} {village.at}", preposition)


def _introduce_cast(
    scene: Scene, traveller: Person, companion: Person | None, baggage: list[Thing], start: Place
) -> None:
    trait, habit = scene.choose_skewed(words.TRAITS)
    facts: list[e.Event] = [
        e.Lives(traveller, start),
        e.HasTrait(companion or traveller, trait, habit),
    ]
    trade, place = scene.new_trade()
    facts.append(e.Works(traveller, trade, place))
    if companion is not None:
        facts.append(e.HasRelation(companion, scene.choose_skewed(words.KIN)[companion.gender], traveller))
    for fact in scene.sample_skewed(facts, scene.randint(1, 3)):
        scene.add_event(fact)
    for thing in baggage:
        scene.add_event(e.Owns(traveller, thing))


def _arrive(scene: Scene, traveller: Person, companion: Person | None, place: Place) -> None:
    """Move the travellers to the next stop, together if they are in the same place."""
    if scene.state.location.get(traveller) is not None:
        for _ in range(scene.randint(0, 3)):
            who = traveller if companion is None or scene.toss(0.6) else companion
            ep.do_chore(scene, who, words.in_season(lexicon.ROAD_CHORES, scene.season))
    if companion is None:
        scene.go(traveller, place)
    else:
        location = scene.state.location
        start = location.get(traveller)
        if location.get(companion) is start and start is not place:
            scene.add_event(e.Go(PersonGroup(traveller, companion), place))
        else:
            scene.go(traveller, place)
            scene.go(companion, place)


def _add_episode(scene: Scene, who: Person, companion: Person | None, baggage: list[Thing]) -> None:
    place = scene.state.location[who]
    draw = scene.random()
    if companion is not None and scene.toss(0.3) and scene.state.location.get(companion) is place:
        who, companion = companion, who
    if draw < 0.2:
        ep.do_chores(scene, who, scene.randint(1, 2))
    elif draw < 0.3:
        ep.add_remark(scene, who)
    elif draw < 0.48:
        meeting_key = f"met {place.the}"
        if len(scene.people) < 6 and meeting_key not in scene.used:
            scene.used.add(meeting_key)
            stranger = scene.new_person()
            scene.add_event(e.Meet(who, stranger, place))
            _encounter(scene, who, stranger)
    elif draw < 0.58:
        thing = scene.choose(baggage)
        rest_key = f"{thing.name} {place.the}"
        if scene.state.holder_or_spot[thing] is who and rest_key not in scene.used:
            scene.used.add(rest_key)
            spot = scene.choose_spot(place)
            scene.add_event(e.Put(who, thing, spot))
            ep.do_chores(scene, who, 1)
            scene.add_event(e.Take(who, thing, spot))
    elif draw < 0.66:
        thing = scene.choose(baggage)
        if scene.state.holder_or_spot[thing] is who:
            ep.lose_thing(scene, who, thing)
            scene.go(who, place)
            if companion is not None:
                scene.go(companion, place)
    elif draw < 0.76:
        ep.change_weather(scene, who)
    elif draw < 0.86:
        ep.add_sight(scene)
    elif companion is not None:
        thing = scene.choose(baggage)
        if scene.state.location.get(companion) is place:
            ep.give_thing(scene, who, thing, companion)
    else:
        ep.add_remark(scene, who)


def _encounter(scene: Scene, who: Person, stranger: Person) -> None:
    """Make a stranger sell or give something to a traveller, or hear about an action of the traveller."""
    if scene.toss(0.35):
        thing = scene.new_thing()
        scene.add_event(e.Owns(stranger, thing))
        scene.add_event(e.Buy(who, thing, scene.randint(2, 30), stranger))
        scene.handed_over.add(thing)
    elif scene.toss(0.5):
        goods = scene.new_goods("eat")
        scene.add_event(e.HasGoods(stranger, scene.randint(4, 12), goods))
        count = scene.randint(1, 4)
        scene.add_event(e.ShareGoods(stranger, count, goods, who))
        scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)
        if count >= 2 and scene.toss(0.6):
            scene.add_event(e.UseGoods(who, scene.randint(1, count), goods))
    else:
        ep.tell_last_action(scene, who, stranger)
