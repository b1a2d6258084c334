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
    village = scene.pick(words.VILLAGES)
    scene.title = village.name
    scene.places = scene.some(words.SITES, max(4, min(12, scene.length // 3)))
    found = e.Found(village, scene.pick(words.RIVERS), scene.pick(words.HILLS))
    when = scene.between(0, 2)
    grid = {(0, 0): scene.places[0]}
    if when == 0:
        scene.do(found)
    _describe(scene, scene.places[0])
    for place in scene.places[1:]:
        if when == 1 and scene.toss(0.3):
            scene.do(found)
            when = 0
        _place(scene, grid, place)
        _describe(scene, place)
    if when:
        scene.do(found)
    for _ in range(scene.length - len(scene.log)):
        _describe(scene, scene.any(scene.places))


def _place(scene: Scene, grid: dict[tuple[int, int], Place], place: Place) -> None:
    """Put a building beside one that has been told of, where nothing stands yet."""
    while True:
        (x, y), other = list(grid.items())[-1 if scene.toss(0.6) else scene.between(0, len(grid) - 1)]
        (right, up), direction = scene.any(list(_DIRECTIONS.items()))
        if (x + right, y + up) not in grid:
            grid[x + right, y + up] = place
            scene.do(e.Near(place, direction, other))
            return


def _describe(scene: Scene, place: Place) -> None:
    """Say something of a building that has not been said."""
    draw = scene.random()
    fact: e.Event
    if place not in words.BUILDINGS or draw > 0.85:
        _count(scene, place)
        return
    if draw < 0.35:
        fact = e.Built(place, scene.pick(lexicon.MATERIALS))
    elif draw < 0.6:
        ornament = scene.pick(lexicon.ORNAMENTS)
        mentioned = [what for what in lexicon.COUNTED_INDOORS if what[:-1] in ornament]
        if any(f"{what} {place}" in scene.seen for what in mentioned):
            return
        scene.seen.update(f"{what} {place}" for what in mentioned)  # which are not counted any more
        fact = e.Adorned(place, ornament)
    else:
        trade = _TRADE_AT.get(place)
        if trade is None:
            return
        fact = e.Run(scene.person(), trade.name, place)
    if (said := f"{type(fact).__name__} {place}") not in scene.seen:
        scene.seen.add(said)
        scene.do(fact)


def _count(scene: Scene, place: Place) -> None:
    what = scene.pick(lexicon.COUNTED_INDOORS if place in words.BUILDINGS else lexicon.COUNTED_OUTDOORS)
    if (said := f"{what} {place}") not in scene.seen:
        scene.seen.add(said)
        scene.do(e.Counted(place, scene.between(2, 12), what))
