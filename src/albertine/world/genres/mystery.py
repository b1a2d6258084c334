"""A small mystery: something is gone, everyone is asked, and there was a good reason.

What really happened is in the log from the start, kept hidden until it comes out.
"""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Person, Spot, Thing
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan a mystery."""
    indoors = scene.toss(0.6)
    scene.places = scene.some(words.ROOMS if indoors else words.SITES, scene.between(4, 6))
    family = scene.family()
    owner = scene.person(None, family)
    others = [scene.person() for _ in range(scene.between(2, 3))]
    culprit = others[0]
    thing = scene.thing()
    scene.title = f"The {thing.kind} that was gone"
    home, hiding = scene.some(scene.places, 2)
    spot, hidden = scene.spot(home), scene.spot(hiding)
    if scene.toss(0.3):
        scene.thing(twin=True)  # never seen, but the kind needs its adjective
        scene.things.pop()
    _begin(scene, owner, others, thing, spot)
    _scatter(scene, owner, others, home)
    _crime(scene, culprit, thing, spot, hidden)
    scene.go(owner, home)
    scene.do(e.Miss(owner, thing))
    scene.do(e.Feel(owner, scene.pick(lexicon.BAD_MOODS)), e.SO)
    tried = 0
    while tried < 2 or not scene.done:
        _inquiry(scene, owner, others, thing, hidden)
        tried += 1
        if tried > 4 + scene.length // 2:  # everyone has been asked, everything searched
            break
    _solution(scene, owner, culprit, thing, hidden)


def _begin(scene: Scene, owner: Person, others: list[Person], thing: Thing, spot: Spot) -> None:
    facts: list[e.Event] = [e.Lies(thing, spot)]
    trait, habit = scene.pick(words.TRAITS)
    facts.append(e.HasTrait(scene.any(scene.people), trait, habit))
    trade, place = scene.trade()
    facts.append(e.Works(owner, trade.name, place))
    facts.append(e.IsKin(others[0], scene.pick(words.KIN)[others[0].gender], owner))
    for fact in scene.some(facts[1:], scene.between(1, 3)):
        scene.do(fact)
    scene.do(facts[0])


def _scatter(scene: Scene, owner: Person, others: list[Person], home: object) -> None:
    """Let everyone be somewhere, busy with something."""
    for who in (owner, *others[1:], others[0]):
        scene.go(who, scene.any(scene.places))
        if scene.toss(0.7):
            ep.chores(scene, who, 1)
    part, phrases = scene.any(words.HOURS)
    scene.do(e.Hour(part, scene.any(phrases)))
    if scene.state.at[owner] is home:
        scene.go(owner, scene.other_place(scene.state.at[owner]))


def _crime(scene: Scene, culprit: Person, thing: Thing, spot: Spot, hidden: Spot) -> None:
    """Let the thing be taken and put elsewhere, unseen."""
    if scene.state.at[culprit] is not spot.place:
        scene.do(e.Hidden(e.Go(culprit, spot.place)))
    scene.do(e.Hidden(e.Take(culprit, thing, spot)))
    scene.do(e.Hidden(e.Go(culprit, hidden.place)))
    scene.do(e.Hidden(e.Put(culprit, thing, hidden)))


def _inquiry(scene: Scene, owner: Person, others: list[Person], thing: Thing, hidden: Spot) -> None:
    """Let the owner ask or search, in vain."""
    draw = scene.random()
    place = scene.state.at[owner]
    if draw < 0.4:
        witness = scene.any(others[1:])
        asked = f"{witness.name} asked"
        if asked in scene.seen:
            return
        scene.seen.add(asked)
        scene.go(owner, scene.state.at[witness])
        scene.do(e.Ask(owner, witness, thing))
        for event in scene.log:
            if event.__class__ in (e.Chore, e.Go) and event[0] is witness:
                scene.do(e.Tell(witness, owner, event))
                break
    elif draw < 0.62:
        spot = scene.spot(place)
        if spot is not hidden and place.the not in scene.seen:
            scene.seen.add(place.the)
            scene.do(e.Seek(owner, thing, spot))
    elif draw < 0.76:
        scene.go(owner, scene.other_place(place))
    elif draw < 0.84:
        ep.sight(scene)
    elif draw < 0.9:
        ep.weather(scene, owner)
    elif draw < 0.95:
        ep.remark(scene, owner)
    else:
        ep.chores(scene, scene.any(others[1:]), 1)


def _solution(scene: Scene, owner: Person, culprit: Person, thing: Thing, hidden: Spot) -> None:
    """Let the truth come out: by finding the thing, or by being told."""
    taken = next(
        event.what for event in scene.log if event.__class__ is e.Hidden and event.what.__class__ is e.Take
    )
    put = next(
        event.what for event in scene.log if event.__class__ is e.Hidden and event.what.__class__ is e.Put
    )
    if scene.toss(0.5):
        scene.go(owner, hidden.place)
        scene.do(e.Find(owner, thing, hidden))
        scene.do(e.Reveal(taken))
        if scene.toss(0.5):
            scene.do(e.Reveal(put))
    else:
        scene.go(owner, scene.state.at[culprit])
        scene.do(e.Tell(culprit, owner, taken))
        scene.do(e.Tell(culprit, owner, put))
        scene.do(e.Find(owner, thing, hidden))
    scene.do(e.Feel(owner, scene.pick(lexicon.GOOD_MOODS)), e.SO)
    if scene.toss(0.5):
        scene.do(e.Feel(culprit, scene.pick(lexicon.BAD_MOODS)))
        scene.do(e.Feel(owner, scene.pick(lexicon.GOOD_MOODS)), e.BUT)
