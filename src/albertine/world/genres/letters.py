"""The genre of letters: a person writes to another about a day, and may get a reply."""

from albertine.world import episodes as ep
from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan one letter, or a letter and its reply."""
    first_person, second_person = scene.new_person(), scene.new_person()
    villages = scene.sample_skewed(words.VILLAGES, 2)
    scene.title = f"Letters from {villages[0].name}"
    scene.reserve_word("letter")  # otherwise a thing "letter" could be confused with the letter itself
    letters = 1 if scene.length < 24 else 2
    for index in range(letters):
        writer, recipient = (first_person, second_person) if index == 0 else (second_person, first_person)
        scene.add_event(e.Letter(writer, recipient, villages[index]))
        scene.places = scene.sample_skewed(
            words.ROOMS if scene.toss(0.5) else words.SITES, scene.randint(3, 4)
        )
        scene.people = [writer, scene.new_person(), scene.new_person()][: scene.randint(2, 3)]
        scene.things = []
        _write_letter(
            scene, writer, recipient, scene.length * (index + 1) // letters, names_kinship=index == 0
        )


def _write_letter(
    scene: Scene, writer: Person, recipient: Person, until: int, *, names_kinship: bool
) -> None:
    """Add the events of one letter, until the log has `until` events.

    With `names_kinship`, the letter may say how its writer and its recipient are related.
    """
    kinship_by_gender = scene.choose_skewed(words.KIN)  # of the writer to the recipient
    companion = scene.people[1]
    trait, habit = scene.choose_skewed(words.TRAITS)
    trade, place = scene.new_trade()
    goods = scene.new_goods("eat")
    fixture = scene.new_fixture(scene.choose(scene.places))
    facts: list[e.Event] = [
        e.HasRelation(companion, scene.choose_skewed(("neighbour", "friend", "cousin", "guest")), writer),
        e.HasTrait(companion, trait, habit),
        e.Works(companion, trade, place),
        e.FixtureAt(fixture, fixture.place),
    ]
    if names_kinship:
        facts.append(e.HasRelation(writer, kinship_by_gender[writer.gender], recipient))
    for fact in scene.sample_skewed(facts, scene.randint(1, 2)):
        scene.add_event(fact)
    part_index = scene.randint(0, 2)
    for _ in scene.iterations_until(until):
        if scene.toss(0.2) and part_index < len(words.HOURS):
            part, phrases = words.HOURS[part_index]
            scene.add_event(e.TimeOfDay(part, scene.choose(phrases)))
            part_index += 1
        _add_episode(
            scene, writer if scene.toss(0.5) else scene.choose(scene.people), companion, goods, fixture
        )


def _add_episode(scene: Scene, who: Person, companion: Person, goods: Goods, fixture: Fixture) -> None:
    """Add one random episode in which `who` acts."""
    if scene.state.location.get(who) is None:
        scene.go(who, scene.choose(scene.places))
    draw = scene.random()
    if draw < 0.2:
        _address_recipient(scene)
    elif draw < 0.42:
        if scene.toss(0.4):
            scene.go(who, scene.choose(scene.places))
        ep.do_chores(scene, who, scene.randint(1, 2))
    elif draw < 0.54:
        held = [thing for thing in scene.things if scene.state.holder_or_spot[thing] is who]
        ep.lose_thing(scene, who, scene.choose(held) if held else ep.introduce_thing(scene, who))
    elif draw < 0.64:
        ep.give_thing(
            scene, who, ep.introduce_thing(scene, who), companion if who is not companion else scene.people[0]
        )
    elif draw < 0.72:
        ep.break_fixture(scene, who, fixture, scene.choose(scene.people))
    elif draw < 0.8:
        if (who, goods) not in scene.state.stock:
            scene.add_event(e.HasGoods(who, scene.randint(4, 15), goods))
        ep.use_and_share_goods(scene, who, goods, scene.people)
    elif draw < 0.88:
        ep.change_weather(scene, who)
    elif draw < 0.94:
        ep.run_errand(scene, who, scene.other_place(scene.state.location.get(who)))
    else:
        ep.add_sight(scene)


def _address_recipient(scene: Scene) -> None:
    """Make the writer address the recipient, unless the drawn sentence was used before."""
    line = scene.choose_skewed(lexicon.LETTER_LINES)
    if line not in scene.used:
        scene.used.add(line)
        scene.add_event(e.Aside(line))
