"""A description of a place: where it lies, what stands where, of what it is built, who works there.

Buildings stand on a grid, so that north of south of a thing is the thing again.
"""

from albertine.world import events as e
from albertine.world.cast import Place
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene

_DIRECTIONS = {(0, 1): "north", (1, 0): "east", (0, -1): "south", (-1, 0): "west"}
_TRADE_AT = {place: trade for trade, place in words.TRADES}


def plan(scene: Scene) -> None:
    """Plan a description, as a walk from one building to the next."""
    village = scene.choose_skewed(words.VILLAGES)
    scene.title = village.name
    scene.places = scene.sample_skewed(words.SITES, max(4, min(12, scene.length // 3)))
    found = e.VillageSite(village, scene.choose_skewed(words.RIVERS), scene.choose_skewed(words.HILLS))
    when = scene.randint(0, 2)
    grid = {(0, 0): scene.places[0]}
    if when == 0:
        scene.add_event(found)
    _describe(scene, scene.places[0])
    for place in scene.places[1:]:
        if when == 1 and scene.toss(0.3):
            scene.add_event(found)
            when = 0
        _place_building(scene, grid, place)
        _describe(scene, place)
    if when:
        scene.add_event(found)
    for _ in range(scene.length - len(scene.log)):
        _describe(scene, scene.choose(scene.places))


def _place_building(scene: Scene, grid: dict[tuple[int, int], Place], place: Place) -> None:
    """Put a building beside one that has been told of, where nothing stands yet."""
    while True:
        (x, y), other = list(grid.items())[-1 if scene.toss(0.6) else scene.randint(0, len(grid) - 1)]
        (right, up), direction = scene.choose(list(_DIRECTIONS.items()))
        if (x + right, y + up) not in grid:
            grid[x + right, y + up] = place
            scene.add_event(e.Near(place, direction, other))
            return


def _describe(scene: Scene, place: Place) -> None:
    """Say something of a building that has not been said."""
    draw = scene.random()
    fact: e.Event
    if place not in words.BUILDINGS or draw > 0.85:
        _count(scene, place)
        return
    if draw < 0.35:
        fact = e.BuiltOf(place, scene.choose_skewed(lexicon.MATERIALS))
    elif draw < 0.6:
        ornament = scene.choose_skewed(lexicon.ORNAMENTS)
        mentioned = [what for what in lexicon.COUNTED_INDOORS if what[:-1] in ornament]
        if any(f"{what} {place}" in scene.used for what in mentioned):
            return
        scene.used.update(f"{what} {place}" for what in mentioned)  # which are not counted any more
        fact = e.HasOrnament(place, ornament)
    else:
        trade = _TRADE_AT.get(place)
        if trade is None:
            return
        fact = e.RunsPlace(scene.new_person(), trade.name, place)
    if (said := f"{type(fact).__name__} {place}") not in scene.used:
        scene.used.add(said)
        scene.add_event(fact)


def _count(scene: Scene, place: Place) -> None:
    what = scene.choose_skewed(
        lexicon.COUNTED_INDOORS if place in words.BUILDINGS else lexicon.COUNTED_OUTDOORS
    )
    if (said := f"{what} {place}") not in scene.used:
        scene.used.add(said)
        scene.add_event(e.CountAtPlace(place, scene.randint(2, 12), what))
