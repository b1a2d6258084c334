"""A run of a story's events told anew, to someone who knows the names and nothing else.

What is kept back, told twice or spoken in letters is left out, so that the excerpt
says what its events say: no more, no less.
"""

from collections.abc import Callable
from typing import NamedTuple

from albertine.world import events as e
from albertine.world.english.speaker import Speaker
from albertine.world.english.telling import Telling
from albertine.world.stories import Story

_TOLD = frozenset(
    (
        *(e.Lives, e.Works, e.HasTrait, e.IsKin, e.Owns, e.Lies, e.Stands, e.Has, e.HasStall),
        *(
            e.Go,
            e.Take,
            e.Put,
            e.Give,
            e.Return,
            e.Lose,
            e.Find,
            e.Buy,
            e.BuyGoods,
            e.Use,
            e.Share,
            e.Break,
            e.Mend,
        ),
        *(e.Feel, e.Seek, e.Miss, e.Meet, e.Ask, e.Want, e.Chore, e.Sight, e.Weather),
        *(e.Found, e.Near, e.Built, e.Adorned, e.Run, e.Counted),
    )
)
_BREAKS_OFF = frozenset((e.Hidden, e.Reveal, e.Letter))


class Excerpt(NamedTuple):
    """Some events, and how each hangs together with the one before."""

    events: list[e.Event]
    links: list[int]


def excerpt(
    story: Story, random: Callable[[], float], least: int, most: int, anchors: frozenset[type]
) -> Excerpt | None:
    """Choose a run of so many events, around one of some kinds; None where that run is broken off."""
    log, links = story.log, story.scene.links
    near = [at for at, event in enumerate(log) if event.__class__ in anchors]
    if not near:
        return None
    wanted = least + int(random() * (most - least + 1))
    at = max(0, near[int(random() * len(near))] - int(random() * wanted))
    events: list[e.Event] = []
    kept: list[int] = []
    skipped = True
    while at < len(log) and len(events) < wanted:
        event = log[at]
        if event.__class__ in _BREAKS_OFF:
            return None
        if event.__class__ in _TOLD:
            events.append(event)
            kept.append(0 if skipped else links[at])
            skipped = False
        else:
            skipped = True
        at += 1
    return Excerpt(events, kept) if len(events) >= least else None


def told(chosen: Excerpt, random: Callable[[], float]) -> str:
    """Tell an excerpt by full names."""
    return " ".join(Telling(Speaker(random, exact=True), *chosen).sentences)
