"""Acceptability (CoLA): grammatical sentences, and sentences with exactly one error.

A phenomenon is a dependency between two positions of a sentence: the number of a subject
and of its verb, a question word and its gap, *both* and *and*. Each position is filled in
one of two ways, and the sentence is acceptable if and only if they match:

    The keys in the box were old.      The key in the box was old.
    *The key in the box were old.      *The keys in the box was old.

All four combinations are drawn equally often, so each filler is as frequent in acceptable
sentences as in unacceptable ones. Unrelated words separate the two positions. Therefore
neither a word nor a bigram predicts the label; only a parse does.

Gold labels must be certain, so an unacceptable sentence must have no second reading. The
verbs here always need their object; names that are also words, or fit both genders, are
excluded; and errors that some speakers accept (*there was two*, *me and him went*, *they*
for one person) do not occur.

As usual in linguistics, a star in the docstrings marks an unacceptable sentence.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from albertine.world.english.acceptability.agreement import AGREEMENT_MAKERS
from albertine.world.english.acceptability.antecedents import ANTECEDENT_MAKERS
from albertine.world.english.acceptability.gaps import GAP_MAKERS
from albertine.world.english.acceptability.phrases import Chooser, PhenomenonMaker
from albertine.world.english.acceptability.verb_arguments import ARGUMENT_MAKERS
from albertine.world.english.acceptability.word_pairs import WORD_PAIR_MAKERS
from albertine.world.english.grammar import capital


class AcceptabilityExample(NamedTuple):
    """A sentence, whether it is acceptable, and the phenomenon that it tests."""

    sentence: str
    acceptable: bool
    phenomenon: str


_MAKERS: Final[Mapping[str, PhenomenonMaker]] = {
    **AGREEMENT_MAKERS,
    **ANTECEDENT_MAKERS,
    **GAP_MAKERS,
    **ARGUMENT_MAKERS,
    **WORD_PAIR_MAKERS,
}
PHENOMENA: Final[tuple[str, ...]] = tuple(_MAKERS)


def make_acceptability_example(random: Callable[[], float]) -> AcceptabilityExample:
    """Return a random sentence with its label; `random` returns numbers in [0, 1)."""
    rng = Chooser(random)
    phenomenon = rng.one(PHENOMENA)
    acceptable = rng.toss()
    return AcceptabilityExample(capital(_MAKERS[phenomenon](rng, acceptable)), acceptable, phenomenon)
