"""Minimal pairs made from English sentences: one form is swapped so that it no longer agrees.

"He was late." becomes "He were late.", "an old house" becomes "a old house". The text alone decides, without
a parser, so a pair is made only where the words next to the form leave no doubt:

- A verb is swapped if a subject pronoun stands directly before it. The pronouns that may also be objects
  ("it", "you") and the demonstratives count only at the start of a sentence.
- A third person verb is not swapped where a subjunctive may follow ("if he were", "I ask that she have"),
  nor is "it was" ("it were better"), nor a verb whose pronoun follows "or", "nor", "than" or "nobody but".
- "This" and "these" are swapped before a few nouns that are neither verbs nor adverbs of time.
- "A" and "an" are swapped before words whose first sound has no two pronunciations ("historic") and no
  older usage ("an European").

Limits: some pairs are sentences of a dialect ("they was") or of an older language ("he were wise to go").
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class AgreementPair:
    """A sentence and a form in it that is swapped.

    Attributes:
        kind: the forms that are swapped, such as "was, were".
        before: the text before the form.
        good: the form in the sentence.
        bad: the form that does not agree.
        after: the text after the form.
    """

    kind: str
    before: str
    good: str
    bad: str
    after: str

    @property
    def good_sentence(self) -> str:
        """The sentence itself."""
        return f"{self.before}{self.good}{self.after}"

    @property
    def bad_sentence(self) -> str:
        """The sentence with the form that does not agree."""
        return f"{self.before}{self.bad}{self.after}"


# Pronouns, and the form that agrees with them and one that does not.
_VERBS = {
    "is, are": {
        "i": ("am", "is"),
        **dict.fromkeys(("he", "she", "it", "this"), ("is", "are")),
        **dict.fromkeys(("we", "you", "they", "these", "those"), ("are", "is")),
    },
    "was, were": {
        **dict.fromkeys(("i", "he", "she"), ("was", "were")),
        **dict.fromkeys(("we", "you", "they", "these", "those"), ("were", "was")),
    },
    "has, have": {
        **dict.fromkeys(("he", "she", "it", "this"), ("has", "have")),
        **dict.fromkeys(("i", "we", "you", "they", "these", "those"), ("have", "has")),
    },
    "does, do": {
        **dict.fromkeys(("he", "she", "it", "this"), ("does", "do")),
        **dict.fromkeys(("i", "we", "you", "they", "these", "those"), ("do", "does")),
    },
}
_ONLY_AT_START = ("it", "you", "this", "these", "those")
_PRONOUN_AND_VERB = re.compile(
    r"(?<!\bor )(?<!\bnor )(?<!\bthan )(?<!\w but )"  # which may join two subjects
    r"\b(?P<pronoun>[Hh]e|[Ss]he|[Ii]t|[Ii]|[Ww]e|[Yy]ou|[Tt]hey|[Tt]his|[Tt]hese|[Tt]hose) "
    r"(?P<verb>am|is|are|was|were|has|have|does|do)(?![\w'\u2019])"
)
_SUBJUNCTIVE_FORMS = ("were", "have", "do")
_MAY_TAKE_SUBJUNCTIVE = re.compile(
    r"\b(if|though|although|unless|lest|whether|till|until|ere|before|wish\w*|would|rather|suppos\w+|provided"
    r"|that|insist\w*|demand\w*|suggest\w*|propos\w*|recommend\w*|requir\w*|request\w*|ask\w*|order\w*|urge\w*"
    r"|desir\w*|advis\w*)\b",
    re.IGNORECASE,
)


def _verb_pairs(sentence: str) -> Iterator[AgreementPair]:
    may_be_subjunctive = bool(_MAY_TAKE_SUBJUNCTIVE.search(sentence))
    for match in _PRONOUN_AND_VERB.finditer(sentence):
        pronoun, verb = match["pronoun"].lower(), match["verb"]
        is_at_start = not any(map(str.isalnum, sentence[: match.start("pronoun")]))
        if pronoun in _ONLY_AT_START and not is_at_start:
            continue
        for kind, forms in _VERBS.items():
            good, bad = forms.get(pronoun, ("", ""))
            if verb == good and not (bad in _SUBJUNCTIVE_FORMS and may_be_subjunctive):
                yield _pair(kind, sentence, match.span("verb"), bad)


_PLURALS = {
    "man": "men", "woman": "women", "child": "children", "girl": "girls", "boy": "boys", "lady": "ladies",
    "gentleman": "gentlemen", "friend": "friends", "fellow": "fellows", "creature": "creatures",
    "thing": "things", "letter": "letters", "word": "words", "story": "stories", "idea": "ideas",
    "opinion": "opinions", "circumstance": "circumstances", "world": "worlds", "country": "countries",
    "city": "cities", "town": "towns", "village": "villages", "church": "churches", "river": "rivers",
    "street": "streets", "room": "rooms", "garden": "gardens", "poem": "poems", "person": "persons",
}  # fmt: skip
_AGREEING = {**dict.fromkeys(_PLURALS, "this"), **dict.fromkeys(_PLURALS.values(), "these")}
_DEMONSTRATIVE_AND_NOUN = re.compile(
    rf"\b(?P<form>[Tt]h(?:is|ese)) (?P<noun>{'|'.join(_AGREEING)})\b(?!['\u2019-])"
    r"(?! (?!(?:is|was|has|does)\b)\w+s\b)"  # "these garden walls"
)


def _demonstrative_pairs(sentence: str) -> Iterator[AgreementPair]:
    for match in _DEMONSTRATIVE_AND_NOUN.finditer(sentence):
        form = match["form"].lower()
        if form == _AGREEING[match["noun"]]:
            yield _pair("this, these", sentence, match.span("form"), "these" if form == "this" else "this")


# A word of three letters or more: shorter ones may be spelled out, as in "an MP".
_ARTICLE_AND_WORD = re.compile(r"(?<![\w'\u2019.-])(?P<form>[Aa]n?) (?P<word>[A-Za-z]{3,})\b")
_VOWEL_SOUND = re.compile(r"(?!eu|ew|once|one|u)[aeiou]", re.IGNORECASE)
_CONSONANT_SOUND = re.compile(r"[bcdfgjklmnpqrstvwz]\w*[aeiouy]", re.IGNORECASE)


def _article_pairs(sentence: str) -> Iterator[AgreementPair]:
    for match in _ARTICLE_AND_WORD.finditer(sentence):
        form, sound = match["form"], _VOWEL_SOUND if match["form"].lower() == "an" else _CONSONANT_SOUND
        if sound.match(match["word"]):
            yield _pair("a, an", sentence, match.span("form"), form[0] if len(form) == 2 else f"{form}n")


def _pair(kind: str, sentence: str, span: tuple[int, int], bad: str) -> AgreementPair:
    start, stop = span
    good = sentence[start:stop]
    return AgreementPair(
        kind, sentence[:start], good, bad.capitalize() if good[0].isupper() else bad, sentence[stop:]
    )


_FINDERS: tuple[Callable[[str], Iterator[AgreementPair]], ...] = (
    _verb_pairs,
    _demonstrative_pairs,
    _article_pairs,
)


def agreement_pairs(sentences: Iterable[str], max_per_kind: int) -> list[AgreementPair]:
    """Return minimal pairs made from English sentences, at most one from each, sorted by kind.

    Each form of a kind is the swapped one equally often, so a model that prefers the more frequent form is
    correct in half of the pairs. A sentence with several forms gives a pair of which there are few so far.
    """
    by_form: dict[tuple[str, str], list[AgreementPair]] = defaultdict(list)
    for sentence in sentences:
        candidates = [pair for find in _FINDERS for pair in find(sentence)]
        if not candidates:
            continue
        pair = min(candidates, key=lambda candidate: len(by_form[_swapped_form(candidate)]))
        if len(by_form[_swapped_form(pair)]) < max_per_kind // 2:
            by_form[_swapped_form(pair)].append(pair)
    pairs = []
    for kind in sorted({kind for kind, _ in by_form}):
        forms = [by_form[kind, form] for form in kind.split(", ")]
        count = min(map(len, forms))
        pairs += [
            pair
            for alternating in zip(*(form[:count] for form in forms), strict=True)
            for pair in alternating
        ]
    return pairs


def _swapped_form(pair: AgreementPair) -> tuple[str, str]:
    return pair.kind, pair.bad.lower()
