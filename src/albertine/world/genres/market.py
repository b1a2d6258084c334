"""The genre of a market day: stalls with goods, customers with errands, prices."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Goods, Person, Thing
from albertine.world.english import words
from albertine.world.scene import Scene

Stall = tuple[Person, Goods]


def plan(scene: Scene) -> None:
    """Plan a market story."""
    village = scene.choose_skewed(words.VILLAGES)
    scene.title = f"Market day in {village.name}"
    scene.places = scene.sample_skewed(words.SITES, scene.randint(3, 5))
    square = scene.places[0]
    stalls = [_new_stall(scene) for _ in range(scene.randint(1, 3))]
    sellers = [seller for seller, _ in stalls]
    buyers = [scene.new_person() for _ in range(scene.randint(1, 3))]
    _introduce_cast(scene, buyers[0], stalls)
    for seller in scene.sample_skewed(sellers, len(sellers)):
        scene.add_event(e.HasStall(seller, square))
    times = ep.times_of_day(scene)
    events_per_time = max(3, (scene.length - len(scene.log)) // len(times))
    for time, phrases in times:
        scene.add_event(e.TimeOfDay(time, scene.choose(phrases)))
        for _ in scene.iterations_until(len(scene.log) + events_per_time):
            _add_episode(scene, scene.choose(buyers), scene.choose(stalls))


def _new_stall(scene: Scene) -> Stall:
    return scene.new_person(), scene.new_goods()


def _introduce_cast(scene: Scene, buyer: Person, stalls: list[Stall]) -> None:
    """Add two to five facts about sellers and buyers, in random order."""
    trait, habit = scene.choose_skewed(words.TRAITS)
    facts: list[e.Event] = [e.HasGoods(seller, scene.randint(6, 20), goods) for seller, goods in stalls]
    facts.append(e.HasTrait(scene.choose(scene.people), trait, habit))
    facts.append(e.Lives(buyer, scene.choose_skewed(words.VILLAGES)))
    relation = scene.choose_skewed(words.KIN)
    facts.append(e.HasRelation(buyer, relation[buyer.gender], stalls[0][0]))
    trade, place = scene.new_trade()
    facts.append(e.Works(buyer, trade, place))
    for fact in scene.sample_skewed(facts, scene.randint(2, 5)):
        scene.add_event(fact)


def _add_episode(scene: Scene, who: Person, stall: Stall) -> None:
    """Add one random episode of a customer, or nothing if the episode is impossible now."""
    seller, goods = stall
    square = scene.places[0]
    draw = scene.random()
    if draw < 0.3:
        _buy_from_stall(scene, who, stall)
    elif draw < 0.42:
        if len(scene.things) > 5:
            return
        thing = scene.new_thing()
        scene.add_event(e.Owns(seller, thing))
        scene.go(seller, square)
        scene.go(who, square)
        if scene.toss(0.4):
            scene.add_event(e.Want(who, thing))
        scene.add_event(e.Buy(who, thing, scene.randint(5, 40), seller))
        scene.handed_over.add(thing)
    elif draw < 0.55:
        ep.run_errand(scene, who, scene.other_place(scene.state.location.get(who)))
    elif draw < 0.65:
        other = scene.other_person(who)
        place = scene.state.location.get(other)
        if place is None:
            scene.go(who, scene.other_place(square))
            scene.add_event(e.Meet(who, other, scene.state.location[who]))
        else:
            ep.tell_last_action(scene, who, other)
    elif draw < 0.74:
        ep.lose_thing(scene, who, _held_thing(scene, who))
    elif draw < 0.8:
        scene.go(who, square)
        ep.do_chores(scene, who, scene.randint(1, 2))
    elif draw < 0.87:
        if scene.state.location.get(who) is not None:
            ep.use_and_share_goods(scene, who, goods, scene.people)
    elif draw < 0.93:
        ep.change_weather(scene, who)
    elif draw < 0.97:
        ep.add_sight(scene)
    else:
        ep.add_remark(scene, who)


def _buy_from_stall(scene: Scene, who: Person, stall: Stall) -> None:
    """Make a customer buy goods at a stall; first add the number that the seller has, if it is unknown."""
    seller, goods = stall
    if (seller, goods) not in scene.state.stock:
        scene.add_event(e.HasGoods(seller, scene.randint(6, 20), goods))
    scene.go(seller, scene.places[0])
    scene.go(who, scene.places[0])
    ep.buy_goods(scene, who, seller, goods)


def _held_thing(scene: Scene, who: Person) -> Thing:
    """Return a thing that `who` holds, or a new one that they own."""
    held = [thing for thing in scene.things if scene.state.holder_or_spot[thing] is who]
    if held:
        return scene.choose(held)
    thing = scene.new_thing()
    scene.add_event(e.Owns(who, thing))
    return thing
