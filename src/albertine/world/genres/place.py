"""The genre of a village description: the village, its buildings and other sites, and the people there.

Each site has a cell of a grid, so that directions are consistent: going north and then
south leads back to the same site.
"""

from albertine.world import events as e
from albertine.world.cast import Place
from albertine.world.english import lexicon, words
from albertine.world.scene import Scene

_DIRECTIONS = {(0, 1): "north", (1, 0): "east", (0, -1): "south", (-1, 0): "west"}
_START, _MIDDLE, _END = range(3)  # of the text
_TRADE_AT = {place: trade for trade, place in words.TRADES}


def plan(scene: Scene) -> None:
    """Plan a description that goes from one site to the next."""
    village = scene.choose_skewed(words.VILLAGES)
    scene.title = village.name
    scene.places = scene.sample_skewed(words.SITES, max(4, min(12, scene.length // 3)))
    village_site = e.VillageSite(village, scene.choose_skewed(words.RIVERS), scene.choose_skewed(words.HILLS))
    part = scene.randint(_START, _END)  # the part of the text that says where the village is
    grid = {(0, 0): scene.places[0]}
    is_mentioned = part == _START
    if is_mentioned:
        scene.add_event(village_site)
    _describe(scene, scene.places[0])
    for place in scene.places[1:]:
        if part == _MIDDLE and not is_mentioned and scene.toss(0.3):
            scene.add_event(village_site)
            is_mentioned = True
        _add_to_grid(scene, grid, place)
        _describe(scene, place)
    if not is_mentioned:
        scene.add_event(village_site)
    for _ in range(scene.length - len(scene.log)):
        _describe(scene, scene.choose(scene.places))


def _add_to_grid(scene: Scene, grid: dict[tuple[int, int], Place], place: Place) -> None:
    """Give a site a free cell of the grid, next to a site that was described before."""
    while True:
        (x, y), neighbour = list(grid.items())[-1 if scene.toss(0.6) else scene.randint(0, len(grid) - 1)]
        (dx, dy), direction = scene.choose(list(_DIRECTIONS.items()))
        if (x + dx, y + dy) not in grid:
            grid[x + dx, y + dy] = place
            scene.add_event(e.Near(place, direction, neighbour))
            return


def _describe(scene: Scene, place: Place) -> None:
    """Add a fact of a random kind about a site, unless the text already has a fact of that kind about it."""
    draw = scene.random()
    fact: e.Event
    if place not in words.BUILDINGS or draw > 0.85:
        _describe_count(scene, place)
        return
    if draw < 0.35:
        fact = e.BuiltOf(place, scene.choose_skewed(lexicon.MATERIALS))
    elif draw < 0.6:
        ornament = scene.choose_skewed(lexicon.ORNAMENTS)
        # An ornament and a count must not contradict each other: "seven narrow windows", "four windows".
        mentioned = [what for what in lexicon.COUNTED_INDOORS if what[:-1] in ornament]  # in the singular
        if any(f"{what} {place}" in scene.used for what in mentioned):
            return
        scene.used.update(f"{what} {place}" for what in mentioned)
        fact = e.HasOrnament(place, ornament)
    else:
        trade = _TRADE_AT.get(place)
        if trade is None:
            return
        fact = e.HasWorker(scene.new_person(), trade, place)
    if (key := f"{type(fact).__name__} {place}") not in scene.used:
        scene.used.add(key)
        scene.add_event(fact)


def _describe_count(scene: Scene, place: Place) -> None:
    """Add the number of something at a site, unless the text has given it."""
    what = scene.choose_skewed(
        lexicon.COUNTED_INDOORS if place in words.BUILDINGS else lexicon.COUNTED_OUTDOORS
    )
    if (key := f"{what} {place}") not in scene.used:
        scene.used.add(key)
        scene.add_event(e.CountAtPlace(place, scene.randint(2, 12), what))
