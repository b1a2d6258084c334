"""The genre of a small mystery: a thing is gone, its owner investigates, the truth comes out.

The log has the true events from the start, as `Hidden` events; the text reveals them at the end.
"""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Person, Spot, Thing
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan a mystery story."""
    indoors = scene.toss(0.6)
    scene.places = scene.sample_skewed(words.ROOMS if indoors else words.SITES, scene.randint(4, 6))
    family = scene.new_family_name()
    owner = scene.new_person(None, family)
    others = [scene.new_person() for _ in range(scene.randint(2, 3))]
    culprit = others[0]
    thing = scene.new_thing()
    scene.title = f"The {thing.kind} that was gone"
    home, hiding = scene.sample_skewed(scene.places, 2)
    spot, hiding_spot = scene.choose_spot(home), scene.choose_spot(hiding)
    if scene.toss(0.3):
        # Not used, but it may make the kind ambiguous, so that the text needs the adjective.
        scene.new_thing(repeat_kind=True)
        scene.things.pop()
    _introduce_cast(scene, owner, others, thing, spot)
    _place_everyone(scene, owner, others, home)
    _hide_thing(scene, culprit, thing, spot, hiding_spot)
    scene.go(owner, home)
    scene.add_event(e.Miss(owner, thing))
    scene.add_event(e.Feel(owner, scene.choose_skewed(lexicon.BAD_MOODS)), e.SO)
    attempts = 0
    while attempts < 2 or not scene.is_long_enough:  # at least two attempts to find the thing
        _investigate(scene, owner, others, thing, hiding_spot)
        attempts += 1
        if attempts > 4 + scene.length // 2:  # no more persons to ask or spots to search
            break
    _resolve(scene, owner, culprit, thing, hiding_spot)


def _introduce_cast(scene: Scene, owner: Person, others: list[Person], thing: Thing, spot: Spot) -> None:
    facts: list[e.Event] = [e.ThingAt(thing, spot)]
    trait, habit = scene.choose_skewed(words.TRAITS)
    facts.append(e.HasTrait(scene.choose(scene.people), trait, habit))
    trade, place = scene.new_trade()
    facts.append(e.Works(owner, trade, place))
    facts.append(e.HasRelation(others[0], scene.choose_skewed(words.KIN)[others[0].gender], owner))
    for fact in scene.sample_skewed(facts[1:], scene.randint(1, 3)):
        scene.add_event(fact)
    scene.add_event(facts[0])


def _place_everyone(scene: Scene, owner: Person, others: list[Person], home: object) -> None:
    """Send everyone to a place, most with a chore, and the owner away from `home`."""
    for who in (owner, *others[1:], others[0]):
        scene.go(who, scene.choose(scene.places))
        if scene.toss(0.7):
            ep.do_chores(scene, who, 1)
    part, phrases = scene.choose(words.HOURS)
    scene.add_event(e.TimeOfDay(part, scene.choose(phrases)))
    if scene.state.location[owner] is home:
        scene.go(owner, scene.other_place(scene.state.location[owner]))


def _hide_thing(scene: Scene, culprit: Person, thing: Thing, spot: Spot, hiding_spot: Spot) -> None:
    """Add hidden events: the culprit takes the thing and puts it elsewhere."""
    if scene.state.location[culprit] is not spot.place:
        scene.add_event(e.Hidden(e.Go(culprit, spot.place)))
    scene.add_event(e.Hidden(e.Take(culprit, thing, spot)))
    scene.add_event(e.Hidden(e.Go(culprit, hiding_spot.place)))
    scene.add_event(e.Hidden(e.Put(culprit, thing, hiding_spot)))


def _investigate(scene: Scene, owner: Person, others: list[Person], thing: Thing, hiding_spot: Spot) -> None:
    """Make the owner ask or search without success."""
    draw = scene.random()
    place = scene.state.location[owner]
    if draw < 0.4:
        witness = scene.choose(others[1:])
        question_key = f"{witness.name} asked"
        if question_key in scene.used:
            return
        scene.used.add(question_key)
        scene.go(owner, scene.state.location[witness])
        scene.add_event(e.Ask(owner, witness, thing))
        for event in scene.log:
            if event.__class__ in (e.Chore, e.Go) and event[0] is witness:
                scene.add_event(e.Tell(witness, owner, event))
                break
    elif draw < 0.62:
        spot = scene.choose_spot(place)
        if spot is not hiding_spot and place.the not in scene.used:
            scene.used.add(place.the)
            scene.add_event(e.Seek(owner, thing, spot))
    elif draw < 0.76:
        scene.go(owner, scene.other_place(place))
    elif draw < 0.84:
        ep.add_sight(scene)
    elif draw < 0.9:
        ep.change_weather(scene, owner)
    elif draw < 0.95:
        ep.add_remark(scene, owner)
    else:
        ep.do_chores(scene, scene.choose(others[1:]), 1)


def _resolve(scene: Scene, owner: Person, culprit: Person, thing: Thing, hiding_spot: Spot) -> None:
    """Reveal the truth: the owner finds the thing, or the culprit tells."""
    take = next(
        event.what for event in scene.log if event.__class__ is e.Hidden and event.what.__class__ is e.Take
    )
    put_away = next(
        event.what for event in scene.log if event.__class__ is e.Hidden and event.what.__class__ is e.Put
    )
    if scene.toss(0.5):
        scene.go(owner, hiding_spot.place)
        scene.add_event(e.Find(owner, thing, hiding_spot))
        scene.add_event(e.Reveal(take))
        if scene.toss(0.5):
            scene.add_event(e.Reveal(put_away))
    else:
        scene.go(owner, scene.state.location[culprit])
        scene.add_event(e.Tell(culprit, owner, take))
        scene.add_event(e.Tell(culprit, owner, put_away))
        scene.add_event(e.Find(owner, thing, hiding_spot))
    scene.add_event(e.Feel(owner, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)
    if scene.toss(0.5):
        scene.add_event(e.Feel(culprit, scene.choose_skewed(lexicon.BAD_MOODS)))
        scene.add_event(e.Feel(owner, scene.choose_skewed(lexicon.GOOD_MOODS)), e.BUT)
