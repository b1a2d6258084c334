"""Small runs of events that many genres share: a thing is fetched, lost, found; something breaks; a meal.

An episode leaves the world in order: whoever it is about is somewhere, and what it
began it ends, or says so. It takes the scene and whoever it is about.
"""

from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene


def hours(scene: Scene) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the hours that a story of some length goes through."""
    many = max(1, min(len(words.HOURS), scene.length // scene.between(5, 9)))
    first = scene.between(0, len(words.HOURS) - many)
    return words.HOURS[first : first + many]


def introduce(scene: Scene, who: Person) -> Thing:
    """Bring in a thing: someone's own, or lying about."""
    thing = scene.thing()
    if scene.toss(0.4):
        scene.do(e.Owns(who, thing))
    else:
        scene.do(e.Lies(thing, scene.spot(scene.any(scene.places))))
    return thing


def hold(scene: Scene, who: Person, thing: Thing) -> bool:
    """Let someone come to hold a thing: fetch it, or be given it; return whether they do."""
    has = scene.state.where[thing]
    if has is who:
        return True
    if isinstance(has, Spot):
        scene.go(who, has.place)
        scene.do(e.Take(who, thing, has))
        return True
    place = scene.state.at.get(has)
    if place is None:
        return False
    scene.go(who, place)
    scene.do(e.Give(has, thing, who))
    return True


def fetch(scene: Scene, who: Person, thing: Thing) -> None:
    """Let someone carry a thing from one place to another."""
    if hold(scene, who, thing):
        scene.go(who, scene.other_place(scene.state.at.get(who)))
        scene.do(e.Put(who, thing, scene.spot(scene.state.at[who])))


def gift(scene: Scene, giver: Person, thing: Thing, taker: Person) -> None:
    """Let someone give a thing to another, who may have wished for it."""
    if thing in scene.given or scene.state.where[thing] is taker:
        return
    scene.given.add(thing)
    if scene.toss(0.3):
        scene.do(e.Want(taker, thing))
    if not hold(scene, giver, thing):
        return
    if scene.state.at.get(taker) is None:
        scene.go(taker, scene.state.at[giver])
    scene.go(giver, scene.state.at[taker])
    back = scene.state.owner.get(thing) is taker
    scene.do(e.Return(giver, thing, taker) if back else e.Give(giver, thing, taker))
    if scene.toss(0.6):
        scene.do(e.Feel(taker, scene.pick(lexicon.GOOD_MOODS)), e.SO)


def lose(scene: Scene, who: Person, thing: Thing) -> None:
    """Let someone leave a thing behind, miss it, look for it, and find it or be told of it."""
    if thing.a in scene.seen:  # nothing is lost twice
        return
    scene.seen.add(thing.a)
    if scene.state.at.get(who) is None:
        scene.go(who, scene.any(scene.places))
    if not hold(scene, who, thing):
        return
    lost_in = scene.state.at[who]
    spot = scene.spot(lost_in)
    scene.do(e.Lose(who, thing, spot))
    wrong = scene.other_place(lost_in)
    scene.go(who, wrong)
    if scene.toss(0.5):
        chores(scene, who, 1)
    scene.do(e.Miss(who, thing))
    if scene.toss(0.5):
        scene.do(e.Feel(who, scene.pick(lexicon.BAD_MOODS)), e.SO)
    if scene.toss(0.7):
        scene.do(e.Seek(who, thing, scene.spot(wrong)))
    finder = scene.other_person(who) if scene.toss(0.4) and len(scene.people) > 1 else who
    if finder is not who:
        if scene.state.at.get(finder) is wrong:
            scene.do(e.Ask(who, finder, thing))
        scene.go(finder, lost_in)
        scene.do(e.Find(finder, thing, spot))
        scene.go(finder, scene.state.at[who])
        back = scene.state.owner.get(thing) is who
        scene.do(e.Return(finder, thing, who) if back else e.Give(finder, thing, who))
    else:
        scene.go(who, lost_in)
        scene.do(e.Find(who, thing, spot))
    if scene.toss(0.8):
        scene.do(e.Feel(who, scene.pick(lexicon.GOOD_MOODS)), e.SO)


def breakage(scene: Scene, who: Person, thing: Fixture, mender: Person) -> None:
    """Let someone break something, and somebody mend it."""
    if thing in scene.state.broken or thing.name in scene.seen:
        return
    scene.seen.add(thing.name)
    scene.go(who, thing.place)
    scene.do(e.Break(who, thing))
    if scene.toss(0.6):
        scene.do(e.Feel(who, scene.pick(lexicon.BAD_MOODS)), e.SO)
    if mender is not who:
        where = scene.state.at.get(mender)
        if where is not None and where is not thing.place:
            scene.go(who, where)
            scene.do(e.Tell(who, mender, e.Break(who, thing)))
        elif scene.toss(0.5):
            scene.do(e.Feel(mender, scene.pick(lexicon.BAD_MOODS)), e.SO)
    if scene.toss(0.75):
        scene.go(mender, thing.place)
        scene.do(e.Mend(mender, thing))
        if scene.toss(0.6):
            scene.do(e.Feel(who, scene.pick(lexicon.GOOD_MOODS)), e.SO)


def meal(scene: Scene, who: Person, goods: Goods, others: list[Person]) -> None:
    """Let someone eat or use some of their goods, and share others."""
    state = scene.state
    left = state.stock.get((who, goods), 0)
    if left >= 2 and scene.toss(0.7):  # "one of the eggs" needs two
        count = scene.between(1, left // 2)
        scene.do(e.Use(who, count, goods))
        left -= count
    here = [other for other in others if other is not who and state.at.get(other) is state.at.get(who)]
    if left >= 2 and here:
        other = scene.any(here)
        scene.do(e.Share(who, scene.between(1, left // 2), goods, other))
        if scene.toss(0.5):
            scene.do(e.Feel(other, scene.pick(lexicon.GOOD_MOODS)), e.SO)


def buy(scene: Scene, who: Person, seller: Person, goods: Goods) -> None:
    """Let someone buy goods from a seller who is in the same place."""
    left = scene.state.stock.get((seller, goods), 12)
    bargain = f"{who.name} {goods.many}"
    if left == 0 or bargain in scene.seen:
        return
    scene.seen.add(bargain)
    if goods not in scene.prices:
        scene.prices[goods] = scene.between(goods.cheap, goods.dear)
    count = scene.between(1, min(left, 9))
    scene.do(e.BuyGoods(who, count, goods, count * scene.prices[goods], seller))


def errand(scene: Scene, who: Person, place: Place) -> None:
    """Let someone go somewhere for a reason, and be busy there."""
    if scene.state.at.get(who) is place or place not in words.SITES:
        return
    scene.do(e.Plan(who, scene.any(words.ERRANDS_AT[place]), place))
    scene.do(e.Go(who, place), e.SO)
    if scene.toss(0.6):
        chores(scene, who, 1)


def chores(scene: Scene, who: Person, count: int) -> None:
    """Let someone be busy where they are."""
    for _ in range(count):
        busy(scene, who, chores_for(scene, scene.state.at.get(who)))


def weather(scene: Scene, who: Person | None = None) -> None:
    """Let the weather change, and be seen to."""
    change = scene.pick(words.WEATHERS)
    if change.comes in scene.seen or change.season not in ("any", scene.season) or scene.weathers == 2:
        return
    if change in words.BY_DAY and scene.hour in ("dawn", "evening", "night"):
        return
    scene.seen.add(change.comes)
    scene.weathers += 1
    scene.do(e.Weather(change.comes))
    if scene.toss(0.4):
        scene.do(e.Weather(capital(scene.any(change.seen))))
    if who is not None and scene.toss(0.3):
        moods = lexicon.WEATHER_GOOD if change in words.FINE else lexicon.WEATHER_BAD
        scene.do(e.Feel(who, scene.pick(moods)), e.SO)


def remark(scene: Scene, who: Person) -> None:
    """Let someone say a word."""
    what = scene.pick(lexicon.REMARKS)
    if what not in scene.seen and scene.is_free(what):
        scene.seen.add(what)
        scene.do(e.Remark(who, what))


def sight(scene: Scene) -> None:
    """Let something be seen or heard, which is none of the things that the story is about."""
    what = scene.pick(words.in_season(words.SIGHTS, scene.season))
    if what not in scene.seen and scene.is_free(what):
        scene.seen.add(what)
        scene.do(e.Sight(what))


def tell(scene: Scene, who: Person, whom: Person) -> None:
    """Let someone tell another, who was not there, the last thing of note that they did."""
    if scene.state.at.get(who) is not scene.state.at.get(whom):
        scene.go(who, scene.state.at[whom])
    for event in reversed(scene.log[:-1]):
        if event.__class__ in _OF_NOTE and event[0] is who and whom not in event and event not in scene.told:
            scene.told.append(event)
            scene.do(e.Tell(who, whom, event))
            return


_OF_NOTE = frozenset((e.Take, e.Put, e.Find, e.Break, e.Mend, e.Buy, e.BuyGoods, e.Use, e.Give))


def chores_for(scene: Scene, place: Place | None) -> tuple[str, ...]:
    """Return what people are busy with in a kind of place."""
    phrases = words.CHORES_IN.get(place, lexicon.STOP_CHORES) if place is not None else lexicon.INDOOR_CHORES
    return words.in_season(phrases, scene.season)


def busy(scene: Scene, who: Person, phrases: tuple[str, ...]) -> None:
    """Let someone be busy with what they have not done yet."""
    chore = scene.pick(phrases)
    if (done := f"{who.name} {chore}") not in scene.seen and scene.is_free(chore):
        scene.seen.add(done)
        scene.do(e.Chore(who, chore))


def capital(sentence: str) -> str:
    """Begin with a capital."""
    return sentence[0].upper() + sentence[1:]
