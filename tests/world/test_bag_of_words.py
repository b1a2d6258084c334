"""Tests that a bag of words does not solve the tasks of the little world."""

import pytest

from albertine.world import bag_of_words
from albertine.world.tasks import baselines, glue, race, squad

# The highest dev score allowed for a bag of words after about a thousand training examples.
MAX_SCORES = {
    "CoLA": 0.25,
    "SST-2": 0.70,
    "MRPC": 0.65,
    "STS-B": 0.85,
    "QQP": 0.85,
    "MNLI": 0.65,
    "QNLI": 0.78,
    "RTE": 0.65,
    "WNLI": 0.60,
}


def examples(
    name: str, train: int, dev: int
) -> tuple[glue.GlueTaskSpec, list[glue.GlueExample], list[glue.GlueExample]]:
    """Return a task, and the given numbers of examples of its train and dev splits."""
    task = next(task for task in glue.TASKS if task.name == name)
    seen: set[tuple[str, ...]] = set()
    held_out = next(split for split in task.splits if split.partition == "dev")
    rows = list(glue.make_examples(task, held_out, dev, 0, seen))
    return task, list(glue.make_examples(task, task.splits[-1], train, 0, seen)), rows


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MAX_SCORES])
def test_bag_of_words_scores_on_glue(name: str) -> None:
    assert baselines.glue_baseline(*examples(name, 1500, 400)) < MAX_SCORES[name]


@pytest.mark.slow
@pytest.mark.parametrize(("level", "max_score"), [("middle", 0.7), ("high", 0.55)])
def test_bag_of_words_scores_on_race(level: str, max_score: float) -> None:
    train, held_out = (
        race.make_articles(level, split, count, 0) for split, count in (("train", 900), ("dev", 400))
    )
    assert baselines.race_baseline(train, held_out) < max_score


@pytest.mark.slow
def test_bag_of_words_scores_on_squad() -> None:
    train, held_out = (
        squad.make_paragraphs(split, count, 0) for split, count in (("train", 900), ("dev", 400))
    )
    assert baselines.squad_baseline(train, held_out) < 0.75


def test_features_of_one_text_and_of_two() -> None:
    assert bag_of_words.features(["The cat sat"]) == ["cat", "cat sat", "sat", "the", "the cat"]
    assert bag_of_words.features(["a b", "b c"]) == ["0:a", "0:a b", "0:b", "1:b", "1:b c", "1:c", "both:b"]
