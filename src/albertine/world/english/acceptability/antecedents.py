"""Words that need an antecedent: reflexives, reciprocals, bound possessives, negative polarity items."""

from collections.abc import Mapping
from typing import Final

from albertine.world.english.acceptability.phrases import (
    Chooser,
    PhenomenonMaker,
    at_place,
    numbered,
    optional,
    some_participle,
    some_person,
    two_persons,
)
from albertine.world.english.acceptability.words import (
    DO_TO_ONESELF,
    DO_TO_PEOPLE,
    KINSMEN,
    KINSWOMEN,
    MEN,
    NAMES,
    OFTEN,
    ONES_OWN,
    PLACES,
    SAID,
    TRADES,
    WOMEN,
)
from albertine.world.english.grammar import verb
from albertine.world.english.lexicon import VILLAGES


def _reflexive(rng: Chooser, fits: bool) -> str:
    """Reflexives: Mara said Tobias hurt himself. *Mara said Tobias hurt herself."""
    man, himself = rng.cross(fits)
    speaker, agent = rng.name(NAMES), rng.name(MEN if man else WOMEN)
    action = f"had {some_participle(rng, DO_TO_ONESELF)} {'himself' if himself else 'herself'}"
    where = optional(rng.toss(), at_place(rng))
    return f"{speaker} {rng.one(SAID)} that {agent} {action}{where}."


def _possessor(rng: Chooser, fits: bool) -> str:
    """Reflexives of a possessive phrase: Mara's brother blamed himself. *Mara's brother blamed herself."""
    man, himself = rng.cross(fits)
    owner, relation = rng.name(NAMES), rng.one(KINSMEN if man else KINSWOMEN)
    head = f"{owner}'s {relation}" if rng.toss() else f"the {relation} of {owner}"
    action = f"{rng.one(OFTEN)} {some_participle(rng, DO_TO_ONESELF)}"
    return f"{head} had {action} {'himself' if himself else 'herself'}."


def _pronoun(rng: Chooser, fits: bool) -> str:
    """Reflexives of a pronoun: Mara knew they had hurt themselves. *Mara knew they had hurt himself."""
    left, right = rng.cross(fits)
    pair = rng.two((("he", "himself"), ("she", "herself"), ("we", "ourselves"), ("they", "themselves")))
    action = f"had {some_participle(rng, DO_TO_ONESELF)}"
    return (
        f"{some_person(rng)} {rng.one(SAID)} that {pair[left][0]} {action} {pair[right][1]} {at_place(rng)}."
    )


def _reciprocal(rng: Chooser, fits: bool) -> str:
    """Reciprocals: The aunts of the clerk met each other. *The aunt of the clerks met each other."""
    many, mutual = rng.cross(fits)
    kin, oneself = rng.one(((KINSWOMEN, "herself"), (KINSMEN, "himself")))
    head = f"the {numbered(rng.one(kin), many)} of the {numbered(rng.one(TRADES), rng.toss())}"
    action = f"{verb(rng.one(DO_TO_ONESELF)).past} {'each other' if mutual else oneself}"
    return f"{head} {action} {at_place(rng)}."


def _own(rng: Chooser, fits: bool) -> str:
    """Bound possessives: Mara, who met Tobias, lost her way. *Mara, who met Tobias, lost his way."""
    man, his = rng.cross(fits)
    head, other = rng.name(MEN if man else WOMEN), rng.name(NAMES)
    action = rng.one(ONES_OWN).replace("_", "his" if his else "her")
    return f"{head}, who had {some_participle(rng, DO_TO_PEOPLE)} {other} {at_place(rng)}, {action}."


def _polarity(rng: Chooser, fits: bool) -> str:
    """Negative polarity items: The clerk who had often written had not called in years.

    *The clerk who had not written had often called in years. Both sentences negate one
    clause and assert the other; the structure decides whether "not" licenses "in years".
    """
    item = rng.one(("in years", "in ages", "at all"))
    often = rng.one(("often", "always", "sometimes", "regularly"))
    action, other_action = _deniable(rng), _deniable(rng)
    if rng.toss():
        # A relative clause in the main clause: the item belongs to the main clause, which ends the sentence.
        inner, outer = (often, "not") if fits else ("not", often)
        return f"the {rng.one(TRADES)} who had {inner} {action} had {outer} {other_action} {item}."
    # Two coordinated clauses: the item may be in either.
    item_first, not_first = rng.cross(fits)
    first, second = ("not", often) if not_first else (often, "not")
    agent, other = two_persons(rng)
    return (
        f"{agent} had {first} {action}{optional(item_first, item)}, "
        f"but {other} had {second} {other_action}{optional(not item_first, item)}."
    )


def _deniable(rng: Chooser) -> str:
    """Return a participle phrase that fits both "often" and "not ... in years"."""
    return rng.one(
        (
            f"helped {some_person(rng)}",
            f"written to {some_person(rng)}",
            f"visited {rng.one(PLACES)[1]}",
            f"spoken about {rng.one(VILLAGES)}",
        )
    )


ANTECEDENT_MAKERS: Final[Mapping[str, PhenomenonMaker]] = {
    "reflexive": _reflexive,
    "possessor": _possessor,
    "pronoun": _pronoun,
    "reciprocal": _reciprocal,
    "own": _own,
    "polarity": _polarity,
}
