"""Stories: each a pure function of a seed, a stream of stories and its number in it.

So any story can be told again alone, in any process, and two streams (the text, the
tasks' own stories) never share one.
"""

from functools import cached_property
from random import Random

from albertine.world import events as e
from albertine.world.english.speaker import Speaker
from albertine.world.english.story_text import StoryText
from albertine.world.genres import household, journey, letters, manual, market, mystery, place, report
from albertine.world.scene import Scene

GENRES = {
    "household": household.plan,
    "journey": journey.plan,
    "market": market.plan,
    "letters": letters.plan,
    "mystery": mystery.plan,
    "place": place.plan,
    "report": report.plan,
    "manual": manual.plan,
}
CORPUS_GENRES = ("household", "journey", "market", "letters", "mystery", "place")
EXTRA_GENRES = ("report",)
OTHER_GENRES = ("manual",)
MIN_SENTENCES, MAX_SENTENCES = 6, 60  # sentences
_MIN_EVENTS, _EVENT_RANGE = 12, 62  # events, of which two may share a sentence


class Story:
    """A story: what happened in it, and how it is told, once somebody asks."""

    def __init__(self, genre: str, scene: Scene):
        self.genre = genre
        self.scene = scene

    @property
    def log(self) -> list[e.Event]:
        """What happened."""
        return self.scene.log

    @property
    def sentences(self) -> list[str]:
        """The text."""
        return self.rendered.sentences

    @cached_property
    def rendered(self) -> StoryText:
        """How it is told."""
        scene = self.scene
        speaker = Speaker(scene.random, repeated_kinds=frozenset(scene.repeated_kinds))
        return StoryText(speaker, scene.log, scene.links)


def make_story(seed: int, stream: str, number: int, genres: tuple[str, ...]) -> Story:
    """Make a story."""
    rng = Random(f"{seed} {stream} {number}")
    while True:
        candidate = _plan_story(rng, genres)
        if MIN_SENTENCES <= len(candidate.sentences) <= MAX_SENTENCES:
            return candidate


def make_story_of_any_length(seed: int, stream: str, number: int, genres: tuple[str, ...]) -> Story:
    """Make a story for what happens in it alone, of any length."""
    return _plan_story(Random(f"{seed} {stream} {number}"), genres)


def _plan_story(rng: Random, genres: tuple[str, ...]) -> Story:
    genre = genres[int(rng.random() * len(genres))]
    scene = Scene(rng, int(_MIN_EVENTS + _EVENT_RANGE * rng.random() ** 4))
    GENRES[genre](scene)
    return Story(genre, scene)
