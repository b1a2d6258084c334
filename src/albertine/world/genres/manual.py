"""The genre of a handbook page: a recipe or a craft, step by step; another domain than stories.

The order of its steps matters: ingredients are washed and drained before they go into
the pot, and the dish is served last.
"""

from albertine.world import events as e
from albertine.world.english import lexicon
from albertine.world.english.grammar import capital, listed, number_in_words, with_article
from albertine.world.scene import Scene


def plan(scene: Scene) -> None:
    """Plan a handbook page."""
    if scene.toss(0.55):
        _add_recipe(scene)
    else:
        _add_craft(scene)


def _add_recipe(scene: Scene) -> None:
    """Add a recipe: the ingredients, the preparation of each, the cooking."""
    dish, basket = scene.choose(lexicon.DISHES)
    parts = scene.sample_skewed(basket.split(), max(2, min(5, scene.length // 4)))
    heat = scene.choose(lexicon.HEATS)
    scene.title = f"{capital(parts[0])} {dish}"
    amounts = [f"{number_in_words(scene.randint(2, 12))} ounces of {part}" for part in parts]
    _add_sentence(scene, f"For {with_article(dish)} you need {listed(amounts)}")
    for part in parts:
        first, then = scene.choose(lexicon.PREPARED)
        _add_sentence(scene, f"{first} the {part}")
        if scene.toss(0.6):
            pronoun = "them" if part.endswith("s") else "it"
            _add_sentence(scene, f"{then} {pronoun} when that is done")
        if scene.toss(0.3):
            _add_sentence(scene, scene.choose_skewed(lexicon.CAUTIONS))
    _add_sentence(scene, f"Now put the {parts[0]} into {with_article(scene.choose(lexicon.VESSELS))}")
    for part in parts[1:]:
        minutes = number_in_words(scene.randint(2, 20))
        _add_sentence(
            scene, f"{scene.choose(('Add', 'Stir in', 'Lay on'))} the {part} after {minutes} minutes"
        )
    _add_sentence(scene, f"{heat} it all for {number_in_words(scene.randint(2, 9) * 5)} minutes")
    if scene.toss(0.5):
        _add_sentence(scene, scene.choose_skewed(lexicon.CAUTIONS))
    _add_sentence(scene, f"Take the {dish} from the fire and let it stand")
    _add_sentence(
        scene, f"Serve it {scene.choose(('hot', 'cold', 'warm', 'with bread', 'at once', 'with cream'))}"
    )


def _add_craft(scene: Scene) -> None:
    """Add the steps of a craft, with cautions between them."""
    steps = [step.strip() for step in scene.choose(lexicon.CRAFTS).split("|")]
    scene.title = steps[-1]
    ordinals = lexicon.ORDINALS
    for index, step in enumerate(steps):
        draw = scene.random()
        if draw < 0.3:
            _add_sentence(scene, f"The {ordinals[index]} step is this: {step[0].lower()}{step[1:]}")
        elif draw < 0.6 and index:
            number, before = number_in_words(index), steps[index - 1]
            _add_sentence(
                scene, f"Only when you are done with step {number} ({before.lower()}): {step.lower()}"
            )
        else:
            _add_sentence(scene, step)
        for _ in range(scene.randint(0, 2)):
            _add_sentence(scene, scene.choose_skewed(lexicon.CAUTIONS))
    for _ in scene.iterations_until(7):
        _add_sentence(scene, scene.choose_skewed(lexicon.CAUTIONS))


def _add_sentence(scene: Scene, sentence: str) -> None:
    """Add a sentence unless it was used before."""
    if sentence not in scene.used:
        scene.used.add(sentence)
        scene.add_event(e.Sight(sentence))
