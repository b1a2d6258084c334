"""Hostile values, drawn with hypothesis from a seed: scalars, texts and trees of JSON."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

# JSON text that `json.dumps` cannot write. A tree holds its name, which `json_text` replaces.
VERBATIM: dict[str, str] = {
    "@brackets@": "[" * 100_000 + "]" * 100_000,
    "@braces@": '{"a":' * 2_000 + "0" + "}" * 2_000,
    "@digits@": "9" * 5_000,
    "@exponent@": "1e999",
    "@duplicate@": '{"a": 1, "a": 2}',
    "@unquoted@": "undefined",
}

_NUMBERS = (
    0, 1, -1, 2, 3, 7, 255, 65_536, 100_000, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64,
    -(2**63), 10**30, 10**400, 0.5, -0.0, 1e-320, 1e38, 1e308, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
_TEXTS = (
    "", " ", "\0", "\n", "\r\n", "\t", "\x1b[31mred\x1b[0m", "\x9b31m", "\u2028", "\u202e", "\ufeff",
    "\ud800", "\udcff", "a\ud83d", "nan", "NaN", "inf", "-1", "0", "1e999", "None", "null", "true",
    "../..", "/", ".", "a/b", "%s%n", "{0}", "[bold]", "[MASK]", "[CLS]", "<pad>", "__class__",
    "\N{GRINNING FACE}", "e\u0301" * 30, "\u1112\u1161\u11ab", "x" * 300, "y" * 100_000, "line\nfeed",
    "quote\"'", "back\\slash", "a,b;c\td", "s3://", "s3://key:secret@bucket/x", "s3://bucket/../x",
    "https://host/x?X-Amz-Signature=0", "hf://a@b",
)  # fmt: skip

scalars: SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(_NUMBERS),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(_TEXTS),
    st.text(st.characters(exclude_categories=()), max_size=12),
)
trees: SearchStrategy[Any] = st.recursive(
    st.one_of(scalars, st.sampled_from(sorted(VERBATIM))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(_TEXTS), st.text(max_size=4)), inner, max_size=3),
    ),
    max_leaves=6,
)


@dataclass(frozen=True)
class HostileValues:
    """Values from which edits choose.

    Attributes:
        scalars: values without structure.
        texts: texts.
        trees: JSON values, some of them nested.
    """

    scalars: list[Any]
    texts: list[str]
    trees: list[Any]


def draw_hostile_values(draw_seed: int) -> HostileValues:
    """Return the values that a seed determines."""
    texts = st.one_of(st.sampled_from(_TEXTS), st.text(st.characters(exclude_categories=()), max_size=40))
    return HostileValues(
        scalars=[*_NUMBERS, *_TEXTS, *_drawn(scalars, draw_seed)],
        texts=[*_TEXTS, *_drawn(texts, draw_seed)],
        trees=_drawn(trees, draw_seed),
    )


def _drawn(strategy: SearchStrategy[T], draw_seed: int) -> list[T]:
    """Return 200 values of a strategy, or fewer if it has fewer."""
    values: list[T] = []

    def collect(value: T) -> None:
        values.append(value)

    run: Callable[[], None] = seed(draw_seed)(
        settings(
            max_examples=200,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(given(strategy)(collect))
    )
    run()
    return values
