"""The wordings of claims about the end of a story or excerpt, affirmed and denied.

The wordings of one polarity are paraphrases of each other.
"""

from typing import NamedTuple

from albertine.world import facts


class ClaimWording(NamedTuple):
    """The wordings that affirm a claim and those that deny it."""

    affirmed: tuple[str, ...]
    denied: tuple[str, ...]


CLAIMS: dict[type, ClaimWording] = {
    facts.AtPlace: ClaimWording(
        (
            "{who} was {place@} at the end",
            "at the end, {who} was {place@}",
            "in the end {who} was to be found {place@}",
        ),
        (
            "{who} was not {place@} at the end",
            "at the end, {who} was not {place@}",
            "in the end {who} was not to be found {place@}",
        ),
    ),
    facts.HasThing: ClaimWording(
        (
            "{who} was carrying {thing} at the end",
            "{thing} was with {who} at the end",
            "in the end it was {who} who carried {thing}",
        ),
        (
            "{who} was not carrying {thing} at the end",
            "{thing} was not with {who} at the end",
            "in the end it was not {who} who carried {thing}",
        ),
    ),
    facts.AtSpot: ClaimWording(
        (
            "{thing} was {spot} at the end",
            "at last, {thing} was lying {spot}",
            "in the end {thing} was {spot}",
        ),
        (
            "{thing} was not {spot} at the end",
            "at last, {thing} was not lying {spot}",
            "in the end {thing} was not {spot}",
        ),
    ),
    facts.HasExactly: ClaimWording(
        (
            "{who} had exactly {number} {goods} at the end",
            "the number of {goods.many} that {who} had at the end was {number}",
            "in the end {who} was left with exactly {number} {goods}",
        ),
        (
            "{who} did not have exactly {number} {goods} at the end",
            "the number of {goods.many} that {who} had at the end was not {number}",
            "in the end {who} was not left with exactly {number} {goods}",
        ),
    ),
    facts.HasMore: ClaimWording(
        (
            "{who} had more than {number} {goods} at the end",
            "the number of {goods.many} that {who} had at the end was above {number}",
        ),
        (
            "{who} did not have more than {number} {goods} at the end",
            "the number of {goods.many} that {who} had at the end was not above {number}",
        ),
    ),
    facts.IsIntact: ClaimWording(
        ("{thing} was in good order at the end", "in the end, nothing was wrong with {thing}"),
        ("{thing} was not in good order at the end", "in the end, something was wrong with {thing}"),
    ),
    facts.InDirection: ClaimWording(
        ("{place} is {direction} of {other}", "to get from {other} to {place} you go {direction}"),
        ("{place} is not {direction} of {other}", "to get from {other} to {place} you do not go {direction}"),
    ),
}

# Two events in order: {1} and {2} stand for their clauses.
ORDER = ClaimWording(
    ("{1} before {2}", "{2} after {1}", "first {1}, and later {2}"),
    ("{2} before {1}", "{1} after {2}", "first {2}, and later {1}"),
)
