"""Episodes: short sequences of events that many genres share, such as losing and finding a thing.

Each function adds the events of one episode to a scene. An episode that may happen only
once in a story adds nothing the second time.
"""

from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import lexicon, words
from albertine.world.english.grammar import capital
from albertine.world.scene import Scene


def times_of_day(scene: Scene) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return consecutive parts of the day, each with its phrases; more of them for a longer story."""
    count = max(1, min(len(words.HOURS), scene.length // scene.randint(5, 9)))
    first = scene.randint(0, len(words.HOURS) - count)
    return words.HOURS[first : first + count]


def introduce_thing(scene: Scene, who: Person) -> Thing:
    """Add a new thing, which `who` owns or which is somewhere; return it."""
    thing = scene.new_thing()
    if scene.toss(0.4):
        scene.add_event(e.Owns(who, thing))
    else:
        scene.add_event(e.ThingAt(thing, scene.choose_spot(scene.choose(scene.places))))
    return thing


def obtain(scene: Scene, who: Person, thing: Thing) -> bool:
    """Make `who` get a thing from its spot or its holder; return whether that succeeded."""
    holder_or_spot = scene.state.holder_or_spot[thing]
    if holder_or_spot is who:
        return True
    if isinstance(holder_or_spot, Spot):
        scene.go(who, holder_or_spot.place)
        scene.add_event(e.Take(who, thing, holder_or_spot))
        return True
    place = scene.state.location.get(holder_or_spot)
    if place is None:
        return False
    scene.go(who, place)
    scene.add_event(e.Give(holder_or_spot, thing, who))
    return True


def move_thing(scene: Scene, who: Person, thing: Thing) -> None:
    """Make `who` carry a thing to another place."""
    if obtain(scene, who, thing):
        scene.go(who, scene.other_place(scene.state.location.get(who)))
        scene.add_event(e.Put(who, thing, scene.choose_spot(scene.state.location[who])))


def give_thing(scene: Scene, giver: Person, thing: Thing, taker: Person) -> None:
    """Make `giver` give a thing to `taker`, who may want it first."""
    if thing in scene.handed_over or scene.state.holder_or_spot[thing] is taker:
        return
    scene.handed_over.add(thing)
    if scene.toss(0.3):
        scene.add_event(e.Want(taker, thing))
    if not obtain(scene, giver, thing):
        return
    if scene.state.location.get(taker) is None:
        scene.go(taker, scene.state.location[giver])
    scene.go(giver, scene.state.location[taker])
    is_return = scene.state.owner.get(thing) is taker
    scene.add_event(e.Return(giver, thing, taker) if is_return else e.Give(giver, thing, taker))
    if scene.toss(0.6):
        scene.add_event(e.Feel(taker, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)


def lose_thing(scene: Scene, who: Person, thing: Thing) -> None:
    """Make `who` lose a thing, miss it and look for it, until they or another person find it."""
    if thing.a in scene.used:  # a thing is lost at most once
        return
    scene.used.add(thing.a)
    if scene.state.location.get(who) is None:
        scene.go(who, scene.choose(scene.places))
    if not obtain(scene, who, thing):
        return
    lost_in = scene.state.location[who]
    spot = scene.choose_spot(lost_in)
    scene.add_event(e.Lose(who, thing, spot))
    wrong_place = scene.other_place(lost_in)
    scene.go(who, wrong_place)
    if scene.toss(0.5):
        do_chores(scene, who, 1)
    scene.add_event(e.Miss(who, thing))
    if scene.toss(0.5):
        scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.BAD_MOODS)), e.SO)
    if scene.toss(0.7):
        scene.add_event(e.Seek(who, thing, scene.choose_spot(wrong_place)))
    finder = scene.other_person(who) if scene.toss(0.4) and len(scene.people) > 1 else who
    if finder is not who:
        if scene.state.location.get(finder) is wrong_place:
            scene.add_event(e.Ask(who, finder, thing))
        scene.go(finder, lost_in)
        scene.add_event(e.Find(finder, thing, spot))
        scene.go(finder, scene.state.location[who])
        is_return = scene.state.owner.get(thing) is who
        scene.add_event(e.Return(finder, thing, who) if is_return else e.Give(finder, thing, who))
    else:
        scene.go(who, lost_in)
        scene.add_event(e.Find(who, thing, spot))
    if scene.toss(0.8):
        scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)


def break_fixture(scene: Scene, who: Person, thing: Fixture, repairer: Person) -> None:
    """Make `who` break a fixture, and usually `repairer` repair it."""
    if thing in scene.state.broken or thing.name in scene.used:
        return
    scene.used.add(thing.name)
    scene.go(who, thing.place)
    scene.add_event(e.Break(who, thing))
    if scene.toss(0.6):
        scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.BAD_MOODS)), e.SO)
    if repairer is not who:
        where = scene.state.location.get(repairer)
        if where is not None and where is not thing.place:
            scene.go(who, where)
            scene.add_event(e.Tell(who, repairer, e.Break(who, thing)))
        elif scene.toss(0.5):
            scene.add_event(e.Feel(repairer, scene.choose_skewed(lexicon.BAD_MOODS)), e.SO)
    if scene.toss(0.75):
        scene.go(repairer, thing.place)
        scene.add_event(e.Repair(repairer, thing))
        if scene.toss(0.6):
            scene.add_event(e.Feel(who, scene.choose_skewed(lexicon.GOOD_MOODS)), e.SO)


def use_and_share_goods(scene: Scene, who: Person, goods: Goods, others: list[Person]) -> None:
    """Make `who` use some of their goods and share some with one of `others` in the same place."""
    state = scene.state
    left = state.stock.get((who, goods), 0)
    if left >= 2 and scene.toss(0.7):  # the wording "one of the eggs" needs at least two
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


def buy_goods(scene: Scene, who: Person, seller: Person, goods: Goods) -> None:
    """Make `who` buy goods from a seller in the same place, each kind of goods once."""
    left = scene.state.stock.get((seller, goods), 12)  # 12 if unknown
    bargain = f"{who.name} {goods.many}"
    if left == 0 or bargain in scene.used:
        return
    scene.used.add(bargain)
    if goods not in scene.prices:
        scene.prices[goods] = scene.randint(goods.lowest_price, goods.highest_price)
    count = scene.randint(1, min(left, 9))
    scene.add_event(e.BuyGoods(who, count, goods, count * scene.prices[goods], seller))


def run_errand(scene: Scene, who: Person, place: Place) -> None:
    """Make `who` go to a site for a reason, and perhaps do a chore there."""
    if scene.state.location.get(who) is place or place not in words.SITES:
        return
    scene.add_event(e.PlanErrand(who, scene.choose(words.ERRANDS_AT[place]), place))
    scene.add_event(e.Go(who, place), e.SO)
    if scene.toss(0.6):
        do_chores(scene, who, 1)


def do_chores(scene: Scene, who: Person, count: int) -> None:
    """Make `who` do `count` chores where they are."""
    for _ in range(count):
        do_chore(scene, who, chores_for(scene, scene.state.location.get(who)))


def change_weather(scene: Scene, who: Person | None = None) -> None:
    """Change the weather, at most twice in a story; it may affect the mood of `who`."""
    change = scene.choose_skewed(words.WEATHERS)
    if (
        change.sentence in scene.used
        or change.season not in ("any", scene.season)
        or scene.num_weather_changes == 2
    ):
        return
    if change in words.BY_DAY and scene.hour in ("dawn", "evening", "night"):
        return
    scene.used.add(change.sentence)
    scene.num_weather_changes += 1
    scene.add_event(e.WeatherChange(change.sentence))
    if scene.toss(0.4):
        scene.add_event(e.WeatherChange(capital(scene.choose(change.signs))))
    if who is not None and scene.toss(0.3):
        moods = lexicon.WEATHER_GOOD if change in words.FINE else lexicon.WEATHER_BAD
        scene.add_event(e.Feel(who, scene.choose_skewed(moods)), e.SO)


def add_remark(scene: Scene, who: Person) -> None:
    """Make `who` say a remark that is new in the story."""
    remark = scene.choose_skewed(lexicon.REMARKS)
    if remark not in scene.used and scene.try_claim_phrase(remark):
        scene.used.add(remark)
        scene.add_event(e.Remark(who, remark))


def add_sight(scene: Scene) -> None:
    """Add a sight or sound that has nothing to do with the things of the story."""
    sight = scene.choose_skewed(words.in_season(words.SIGHTS, scene.season))
    if sight not in scene.used and scene.try_claim_phrase(sight):
        scene.used.add(sight)
        scene.add_event(e.Sight(sight))


def tell_last_action(scene: Scene, who: Person, whom: Person) -> None:
    """Make `who` tell `whom`, whose place is known, their last noteworthy action without `whom`.

    Adds nothing if there is no such action or if it was told before.
    """
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


_NOTEWORTHY = frozenset((e.Take, e.Put, e.Find, e.Break, e.Repair, e.Buy, e.BuyGoods, e.UseGoods, e.Give))


def chores_for(scene: Scene, place: Place | None) -> tuple[str, ...]:
    """Return the chores that fit a place and the season."""
    phrases = words.CHORES_IN.get(place, lexicon.STOP_CHORES) if place is not None else lexicon.INDOOR_CHORES
    return words.in_season(phrases, scene.season)


def do_chore(scene: Scene, who: Person, chores: tuple[str, ...]) -> None:
    """Make `who` do one of `chores`, unless they have done it before."""
    chore = scene.choose_skewed(chores)
    if (done := f"{who.name} {chore}") not in scene.used and scene.try_claim_phrase(chore):
        scene.used.add(done)
        scene.add_event(e.Chore(who, chore))
