"""Compiled clause forms: each form of `forms.py` is parsed once into a sequence of parts.

A part is literal text or a slot: a method of the speaker and the index of the event's
field that it renders. Verbs are inflected beforehand for every tense and person.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from albertine.world.english.forms import FORMS
from albertine.world.english.grammar import PERSONS, TENSES, inflected
from albertine.world.english.speaker import Speaker

Slot = tuple[Callable[[Speaker, Any], str], int]  # the renderer, and the index of the field
Part = str | Slot


class ClauseForm(NamedTuple):
    """One compiled form of a clause that tells an event."""

    text: str
    adds_detail: bool  # adds a detail that is not in the event
    subject_field: int  # index of the field that the verbs agree with, or -1
    number_field: int  # index of the number that they agree with instead, or -1
    subject_leads: bool  # starts with the subject, which can be omitted after "and"
    has_one_verb: bool  # has one verb, right after the subject: can be a gerund
    fields: frozenset[int]  # indices of the fields that it mentions
    parts: tuple[tuple[tuple[Part, ...], ...], ...]  # [tense][person], without the leading subject


class ClauseForms(NamedTuple):
    """All compiled forms of one event type, and the subsets that a story needs."""

    plain: tuple[ClauseForm, ...]  # name every field
    joined: tuple[ClauseForm, ...]  # start with the first field as subject, and add no detail
    simple: tuple[ClauseForm, ...]  # joined forms with one verb
    full: tuple[ClauseForm, ...]  # both plain and joined
    full_simple: tuple[ClauseForm, ...]  # full forms with one verb
    active: tuple[ClauseForm, ...]  # all but passives
    all_forms: tuple[ClauseForm, ...]  # all forms


_TOKEN = re.compile(r"\{[^}]*\}|\[[^\]]*\]")


def _slot(spec: str, fields: tuple[str, ...], head: str) -> Slot:
    """Return the renderer and field index of a slot; repeated subjects are rendered as pronouns."""
    if spec == "manner":
        return Speaker.manner, 0
    article, _, rest = spec.partition(" ")
    if article == "a":
        return Speaker.with_article, fields.index(rest)
    name, mark = re.fullmatch(r"([a-z]+)(.*)", spec).groups()  # type: ignore[union-attr]
    said = _REPEATED_SUBJECT_RENDERERS.get(mark) if name == head and name != "thing" else None
    return said or _SLOT_RENDERERS.get((name, mark), Speaker.plain), fields.index(name)


_REPEATED_SUBJECT_RENDERERS = {
    "=": Speaker.subject_again,
    "'s": Speaker.possessive_again,
    "": Speaker.object_again,
}
_SLOT_RENDERERS: dict[tuple[str, str], Callable[[Speaker, Any], str]] = {
    ("thing", ""): Speaker.thing,
    ("thing", ".the"): Speaker.the_thing,
    ("thing", ".place"): Speaker.thing_place,
    ("thing", ".broken"): Speaker.broken,
    ("thing", ".mended"): Speaker.mended,
    ("goods", ""): Speaker.goods,
    ("goods", ".them"): Speaker.goods_them,
    ("goods", ".many"): Speaker.goods_many,
    ("goods", ".used"): Speaker.goods_used,
    ("spot", ""): Speaker.spot_at,
    ("spot", "-"): Speaker.spot_away,
    ("spot", "@"): Speaker.spot_place,
    ("number", ""): Speaker.number,
    ("price", ""): Speaker.price,
}
for _person in ("who", "whom"):
    _SLOT_RENDERERS[_person, ""] = Speaker.as_object
    _SLOT_RENDERERS[_person, "="] = Speaker.as_subject
    _SLOT_RENDERERS[_person, "'s"] = Speaker.possessive
for _place in ("place", "other"):
    _SLOT_RENDERERS[_place, ""] = Speaker.place_the
    _SLOT_RENDERERS[_place, "+"] = Speaker.place_new
    _SLOT_RENDERERS[_place, "@"] = Speaker.place_at
    _SLOT_RENDERERS[_place, ">"] = Speaker.place_to
    _SLOT_RENDERERS[_place, "-"] = Speaker.place_away


def _verb(spec: str, fields: tuple[str, ...], tense: int, person: int) -> Part:
    """Return an inflected verb, or a slot that inflects the verb in a field."""
    base = spec.partition(":")[0]
    name, _, attribute = base.partition(".")
    if attribute:
        return lambda _, value: inflected(getattr(value, attribute), tense, person), fields.index(name)
    if name == "chore":
        return lambda _, value: phrase_in(value, tense, person), fields.index(name)
    return inflected(base, tense, person)


def compile_form(text: str, fields: tuple[str, ...], colour: bool) -> ClauseForm:
    """Return a form compiled for events or claims with the given fields."""
    tokens = _TOKEN.findall(text)
    literals = _TOKEN.split(text)
    slots = [token[1:-1] for token in tokens if token[0] == "{"]
    heads = [slot for slot in slots if slot.endswith("=")]
    leads = text.startswith("{") and re.fullmatch(r"who|whom|thing", slots[0]) is not None
    head = slots[0] if leads else (heads[0][:-1] if heads else "")
    verbs = [token[1:-1] for token in tokens if token[0] == "["]
    variants = []
    for tense in range(TENSES):
        row = []
        for person in range(PERSONS):
            parts: list[Part] = []
            said = head if leads else ""
            for index, literal in enumerate(literals):
                if literal:
                    parts.append(literal)
                if index == len(tokens):
                    break
                spec = tokens[index][1:-1]
                if tokens[index][0] == "[":
                    parts.append(_verb(spec, fields, tense, person))
                elif index or not leads:
                    parts.append(_slot(spec, fields, said))
                    said = said or (head if spec == f"{head}=" else "")
            row.append(_merged(parts))
        variants.append(tuple(row))
    named = [slot for slot in slots if slot != "spot@"]  # names the place but not the spot
    mentioned = {
        fields.index(name) for slot in named for name in re.findall(r"[a-z]+", slot) if name in fields
    }
    mentioned |= {
        fields.index(name) for spec in verbs for name in re.findall(r"[a-z]+", spec) if name in fields
    }
    return ClauseForm(
        text=text,
        adds_detail=colour,
        subject_field=fields.index(head) if head else -1,
        number_field=fields.index("number") if any(spec.endswith(":number") for spec in verbs) else -1,
        subject_leads=leads,
        has_one_verb=leads
        and len(verbs) == 1
        and len(tokens) > 1
        and tokens[1][0] == "["
        and " was " not in text,
        fields=frozenset(mentioned),
        parts=tuple(variants),
    )


def _merged(parts: list[Part]) -> tuple[Part, ...]:
    """Return parts with adjacent literals joined."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return tuple(merged)


def _forms(kind: Any) -> ClauseForms:
    fields: tuple[str, ...] = kind._fields
    all_forms = [(text[0], compile_form(text.lstrip("~+"), fields, text[0] == "+")) for text in FORMS[kind]]
    plain = tuple(form for mark, form in all_forms if mark not in "~+")
    joined = tuple(
        form for mark, form in all_forms if mark != "+" and form.subject_leads and form.subject_field == 0
    )
    full = tuple(form for form in plain if form in joined)
    return ClauseForms(
        plain=plain,
        joined=joined,
        simple=tuple(form for form in joined if form.has_one_verb),
        full=full,
        full_simple=tuple(form for form in full if form.has_one_verb),
        active=tuple(
            form
            for _, form in all_forms
            if form.subject_field == fields.index("who") or not form.subject_leads
        )
        if "who" in fields
        else tuple(form for _, form in all_forms),
        all_forms=tuple(form for _, form in all_forms),
    )


CLAUSES: dict[type, ClauseForms] = {kind: _forms(kind) for kind in FORMS}


@cache
def phrase_in(phrase: str, tense: int, person: int) -> str:
    """Return a phrase that starts with its verb, inflected."""
    base, _, rest = phrase.partition(" ")
    return f"{inflected(base, tense, person)} {rest}" if rest else inflected(base, tense, person)
