"""Stories: each a pure function of a seed, the name of a stream and a number in that stream.

So any process can generate any single story again, and two streams (the corpus, the
split of a task) never share a story.
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
# The folders of a written world, which are also the names of the streams of their stories.
GENRES_BY_FOLDER = {"text": CORPUS_GENRES, "text-extra": ("report",), "text-other": ("manual",)}
# Raise it if the same seed gives other stories or tasks, so that studies do not mix two worlds.
WORLD_VERSION = 2
MIN_SENTENCES, MAX_SENTENCES = 6, 60
_MIN_EVENTS, _EVENT_RANGE = 12, 62  # counts of events; a sentence tells one or two of them


class Story:
    """A story: its events, and its text, which is generated on first access."""

    def __init__(self, genre: str, scene: Scene):
        self.genre = genre
        self.scene = scene

    @property
    def log(self) -> list[e.Event]:
        """The events, in order."""
        return self.scene.log

    @property
    def sentences(self) -> list[str]:
        """The sentences of the text."""
        return self.rendered.sentences

    @cached_property
    def rendered(self) -> StoryText:
        """The text, with the sentence and form of each event."""
        scene = self.scene
        speaker = Speaker(scene.random, repeated_kinds=frozenset(scene.repeated_kinds))
        return StoryText(speaker, scene.log, scene.links)


def make_story(seed: int, stream: str, number: int, genres: tuple[str, ...]) -> Story:
    """Return a story of one of the genres, with MIN_SENTENCES to MAX_SENTENCES sentences."""
    rng = Random(f"{seed} {stream} {number}")
    while True:
        candidate = _plan_story(rng, genres)
        if MIN_SENTENCES <= len(candidate.sentences) <= MAX_SENTENCES:
            return candidate


def make_story_of_any_length(seed: int, stream: str, number: int, genres: tuple[str, ...]) -> Story:
    """Return a story of any length, without generating its text: for its events alone."""
    return _plan_story(Random(f"{seed} {stream} {number}"), genres)


def _plan_story(rng: Random, genres: tuple[str, ...]) -> Story:
    genre = genres[int(rng.random() * len(genres))]
    scene = Scene(rng, int(_MIN_EVENTS + _EVENT_RANGE * rng.random() ** 4))
    GENRES[genre](scene)
    return Story(genre, scene)
