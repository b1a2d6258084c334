"""Excerpts: some consecutive events of a story, as a text of their own with full names.

Hidden events, reported events and letters are excluded, so that the text of an excerpt
has exactly the facts of its events.
"""

from collections.abc import Callable
from typing import NamedTuple

from albertine.world import events as e
from albertine.world.english.speaker import Speaker
from albertine.world.english.story_text import StoryText
from albertine.world.stories import Story

_INCLUDED_EVENTS = frozenset(
    (
        *(e.Lives, e.Works, e.HasTrait, e.HasRelation, e.Owns),
        *(e.ThingAt, e.FixtureAt, e.HasGoods, e.HasStall),
        *(e.Go, e.Take, e.Put, e.Give, e.Return, e.Lose, e.Find, e.Break, e.Repair),
        *(e.Buy, e.BuyGoods, e.UseGoods, e.ShareGoods),
        *(e.Feel, e.Seek, e.Miss, e.Meet, e.Ask, e.Want, e.Chore, e.Sight, e.WeatherChange),
        *(e.VillageSite, e.Near, e.BuiltOf, e.HasOrnament, e.HasWorker, e.CountAtPlace),
    )
)
_EXCLUDING_EVENTS = frozenset((e.Hidden, e.Reveal, e.Letter))


class Excerpt(NamedTuple):
    """Some events of a story, and the link of each to the event before it."""

    events: list[e.Event]
    links: list[int]


def choose_excerpt(
    story: Story, random: Callable[[], float], min_events: int, max_events: int, anchors: frozenset[type]
) -> Excerpt | None:
    """Return a random excerpt around an event of one of the anchor types.

    None if the story has no such event, or if the excerpt would be too short or would
    contain a hidden event, a reveal or a letter.
    """
    log, links = story.log, story.scene.links
    anchor_positions = [index for index, event in enumerate(log) if event.__class__ in anchors]
    if not anchor_positions:
        return None
    num_events = min_events + int(random() * (max_events - min_events + 1))
    index = max(0, anchor_positions[int(random() * len(anchor_positions))] - int(random() * num_events))
    events: list[e.Event] = []
    kept_links: list[int] = []
    skipped = True
    while index < len(log) and len(events) < num_events:
        event = log[index]
        if event.__class__ in _EXCLUDING_EVENTS:
            return None
        if event.__class__ in _INCLUDED_EVENTS:
            events.append(event)
            kept_links.append(0 if skipped else links[index])
            skipped = False
        else:
            skipped = True
        index += 1
    return Excerpt(events, kept_links) if len(events) >= min_events else None


def excerpt_text(excerpt: Excerpt, random: Callable[[], float]) -> str:
    """Return the text of an excerpt, with full names."""
    return " ".join(StoryText(Speaker(random, exact=True), *excerpt).sentences)
