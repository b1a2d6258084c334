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
    many = max(1, min(len(words.HOURS), scene.length // scene.randint(5, 9)))
    first = scene.randint(0, len(words.HOURS) - many)
    return words.HOURS[first : first + many]


def introduce(scene: Scene, who: Person) -> Thing:
    """Bring in a thing: someone's own, or lying about."""
    thing = scene.new_thing()
    if scene.toss(0.4):
        scene.add_event(e.Owns(who, thing))
    else:
        scene.add_event(e.Lies(thing, scene.choose_spot(scene.choose(scene.places))))
    return thing


def hold(scene: Scene, who: Person, thing: Thing) -> bool:
    """Let someone come to hold a thing: fetch it, or be given it; return whether they do."""
    has = scene.state.holder_or_spot[thing]
    if has is who:
        return True
    if isinstance(has, Spot):
        scene.go(who, has.place)
        scene.add_event(e.Take(who, thing, has))
        return True
    place = scene.state.location.get(has)
    if place is None:
        return False
    scene.go(who, place)
    scene.add_event(e.Give(has, thing, who))
    return True


def move_thing(scene: Scene, who: Person, thing: Thing) -> None:
    """Let someone carry a thing from one place to another."""
    if hold(scene, who, thing):
        scene.go(who, scene.other_place(scene.state.location.get(who)))
        scene.add_event(e.Put(who, thing, scene.choose_spot(scene.state.location[who])))


def gift(scene: Scene, giver: Person, thing: Thing, taker: Person) -> None:
    """Let someone give a thing to another, who may have wished for it."""
    if thing in scene.handed_over or scene.state.holder_or_spot[thing] is taker:
        return
    scene.handed_over.add(thing)
    if scene.toss(0.3):
        scene.add_event(e.Want(taker, thing))
    if not hold(scene, giver, thing):
        return
    if scene.state.location.get(taker) is None:
        scene.go(taker, scene.state.location[giver])
    scene.go(giver, scene.state.location[taker])
    back = scene.state.owner.get(thing) is taker
    scene.add_event(e.Return(giver, thing, taker) if back else e.Give(giver, thing, taker))
    if scene.toss(0.6):
        scene.add_event(e.Feel(taker, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)


def lose(scene: Scene, who: Person, thing: Thing) -> None:
    """Let someone leave a thing behind, miss it, look for it, and find it or be told of it."""
    if thing.a in scene.used:  # nothing is lost twice
        return
    scene.used.add(thing.a)
    if scene.state.location.get(who) is None:
        scene.go(who, scene.choose(scene.places))
    if not hold(scene, who, thing):
        return
    lost_in = scene.state.location[who]
    spot = scene.choose_spot(lost_in)
    scene.add_event(e.Lose(who, thing, spot))
    wrong = scene.other_place(lost_in)
    scene.go(who, wrong)
    if scene.toss(0.5):
        chores(scene, who, 1)
    scene.add_event(e.Miss(who, thing))
    if scene.toss(0.5):
        scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.BAD_MOODS)), e.SO)
    if scene.toss(0.7):
        scene.add_event(e.Seek(who, thing, scene.choose_spot(wrong)))
    finder = scene.other_person(who) if scene.toss(0.4) and len(scene.people) > 1 else who
    if finder is not who:
        if scene.state.location.get(finder) is wrong:
            scene.add_event(e.Ask(who, finder, thing))
        scene.go(finder, lost_in)
        scene.add_event(e.Find(finder, thing, spot))
        scene.go(finder, scene.state.location[who])
        back = scene.state.owner.get(thing) is who
        scene.add_event(e.Return(finder, thing, who) if back else e.Give(finder, thing, who))
    else:
        scene.go(who, lost_in)
        scene.add_event(e.Find(who, thing, spot))
    if scene.toss(0.8):
        scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)


def breakage(scene: Scene, who: Person, thing: Fixture, mender: Person) -> None:
    """Let someone break something, and somebody mend it."""
    if thing in scene.state.broken or thing.name in scene.used:
        return
    scene.used.add(thing.name)
    scene.go(who, thing.place)
    scene.add_event(e.Break(who, thing))
    if scene.toss(0.6):
        scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.BAD_MOODS)), e.SO)
    if mender is not who:
        where = scene.state.location.get(mender)
        if where is not None and where is not thing.place:
            scene.go(who, where)
            scene.add_event(e.Tell(who, mender, e.Break(who, thing)))
        elif scene.toss(0.5):
            scene.add_event(e.Feel(mender, scene.choose_skewed(lexicon.BAD_MOODS)), e.SO)
    if scene.toss(0.75):
        scene.go(mender, thing.place)
        scene.add_event(e.Mend(mender, thing))
        if scene.toss(0.6):
            scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)


def meal(scene: Scene, who: Person, goods: Goods, others: list[Person]) -> None:
    """Let someone eat or use some of their goods, and share others."""
    state = scene.state
    left = state.stock.get((who, goods), 0)
    if left >= 2 and scene.toss(0.7):  # "one of the eggs" needs two
        count = scene.randint(1, left // 2)
        scene.add_event(e.UseGoods(who, count, goods))
        left -= count
    here = [
        other for other in others if other is not who and state.location.get(other) is state.location.get(who)
    ]
    if left >= 2 and here:
        other = scene.choose(here)
        scene.add_event(e.ShareGoods(who, scene.randint(1, left // 2), goods, other))
        if scene.toss(0.5):
            scene.add_event(e.Feel(other, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)


def buy(scene: Scene, who: Person, seller: Person, goods: Goods) -> None:
    """Let someone buy goods from a seller who is in the same place."""
    left = scene.state.stock.get((seller, goods), 12)
    bargain = f"{who.name} {goods.many}"
    if left == 0 or bargain in scene.used:
        return
    scene.used.add(bargain)
    if goods not in scene.prices:
        scene.prices[goods] = scene.randint(goods.cheap, goods.dear)
    count = scene.randint(1, min(left, 9))
    scene.add_event(e.BuyGoods(who, count, goods, count * scene.prices[goods], seller))


def errand(scene: Scene, who: Person, place: Place) -> None:
    """Let someone go somewhere for a reason, and be busy there."""
    if scene.state.location.get(who) is place or place not in words.SITES:
        return
    scene.add_event(e.PlanErrand(who, scene.choose(words.ERRANDS_AT[place]), place))
    scene.add_event(e.Go(who, place), e.SO)
    if scene.toss(0.6):
        chores(scene, who, 1)


def chores(scene: Scene, who: Person, count: int) -> None:
    """Let someone be busy where they are."""
    for _ in range(count):
        do_chore(scene, who, chores_for(scene, scene.state.location.get(who)))


def change_weather(scene: Scene, who: Person | None = None) -> None:
    """Let the weather change, and be seen to."""
    change = scene.choose_skewed(words.WEATHERS)
    if (
        change.comes in scene.used
        or change.season not in ("any", scene.season)
        or scene.num_weather_changes == 2
    ):
        return
    if change in words.BY_DAY and scene.hour in ("dawn", "evening", "night"):
        return
    scene.used.add(change.comes)
    scene.num_weather_changes += 1
    scene.add_event(e.WeatherChange(change.comes))
    if scene.toss(0.4):
        scene.add_event(e.WeatherChange(capital(scene.choose(change.seen))))
    if who is not None and scene.toss(0.3):
        moods = lexicon.WEATHER_GOOD if change in words.FINE else lexicon.WEATHER_BAD
        scene.add_event(e.Feel(who, scene.choose_skewed(moods)), e.SO)


def remark(scene: Scene, who: Person) -> None:
    """Let someone say a word."""
    what = scene.choose_skewed(lexicon.REMARKS)
    if what not in scene.used and scene.try_claim_phrase(what):
        scene.used.add(what)
        scene.add_event(e.Remark(who, what))


def sight(scene: Scene) -> None:
    """Let something be seen or heard, which is none of the things that the story is about."""
    what = scene.choose_skewed(words.in_season(words.SIGHTS, scene.season))
    if what not in scene.used and scene.try_claim_phrase(what):
        scene.used.add(what)
        scene.add_event(e.Sight(what))


def tell_last_deed(scene: Scene, who: Person, whom: Person) -> None:
    """Let someone tell another, who was not there, the last thing of note that they did."""
    if scene.state.location.get(who) is not scene.state.location.get(whom):
        scene.go(who, scene.state.location[whom])
    for event in reversed(scene.log[:-1]):
        if (
            event.__class__ in _NOTEWORTHY
            and event[0] is who
            and whom not in event
            and event not in scene.told_events
        ):
            scene.told_events.append(event)
            scene.add_event(e.Tell(who, whom, event))
            return


_NOTEWORTHY = frozenset((e.Take, e.Put, e.Find, e.Break, e.Mend, e.Buy, e.BuyGoods, e.UseGoods, e.Give))


def chores_for(scene: Scene, place: Place | None) -> tuple[str, ...]:
    """Return what people are busy with in a kind of place."""
    phrases = words.CHORES_IN.get(place, lexicon.STOP_CHORES) if place is not None else lexicon.INDOOR_CHORES
    return words.in_season(phrases, scene.season)


def do_chore(scene: Scene, who: Person, phrases: tuple[str, ...]) -> None:
    """Let someone be busy with what they have not done yet."""
    chore = scene.choose_skewed(phrases)
    if (done := f"{who.name} {chore}") not in scene.used and scene.try_claim_phrase(chore):
        scene.used.add(done)
        scene.add_event(e.Chore(who, chore))


def capital(sentence: str) -> str:
    """Begin with a capital."""
    return sentence[0].upper() + sentence[1:]
