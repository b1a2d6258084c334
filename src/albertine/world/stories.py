"""Stories: each a pure function of a seed, a stream of stories and its number in it.

So any story can be told again alone, in any process, and two streams (the text, the
tasks' own stories) never share one.
"""

from functools import cached_property
from random import Random

from albertine.world import events as e
from albertine.world.english.speaker import Speaker
from albertine.world.english.telling import Telling
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
CORPUS = ("household", "journey", "market", "letters", "mystery", "place")
EXTRA = ("report",)
OTHER = ("manual",)
SHORTEST, LONGEST = 6, 60  # sentences
_LEAST, _SPREAD = 12, 62  # events, of which two may share a sentence


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
        return self.telling.sentences

    @cached_property
    def telling(self) -> Telling:
        """How it is told."""
        scene = self.scene
        speaker = Speaker(scene.random, twins=frozenset(scene.twins))
        return Telling(speaker, scene.log, scene.links)


def story(seed: int, stream: str, number: int, genres: tuple[str, ...]) -> Story:
    """Make a story."""
    chance = Random(f"{seed} {stream} {number}")
    while True:
        made = _planned(chance, genres)
        if SHORTEST <= len(made.sentences) <= LONGEST:
            return made


def untold(seed: int, stream: str, number: int, genres: tuple[str, ...]) -> Story:
    """Make a story for what happens in it alone, of any length."""
    return _planned(Random(f"{seed} {stream} {number}"), genres)


def _planned(chance: Random, genres: tuple[str, ...]) -> Story:
    genre = genres[int(chance.random() * len(genres))]
    scene = Scene(chance, int(_LEAST + _SPREAD * chance.random() ** 4))
    GENRES[genre](scene)
    return Story(genre, scene)
