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
    """One compiled form of a clause about an event."""

    text: str
    adds_detail: bool  # adds a detail that is not in the event
    subject_field: int  # index of the field that the verbs agree with, or -1
    number_field: int  # index of the number that the verbs agree with instead, or -1
    subject_leads: bool  # starts with the subject, which can be omitted after "and"
    has_one_verb: bool  # has one verb, right after the subject: can be a gerund
    fields: frozenset[int]  # indices of the fields that the form mentions
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


_PLACEHOLDER = re.compile(r"\{[^}]*\}|\[[^\]]*\]")


def _slot(spec: str, fields: tuple[str, ...], rendered_subject: str) -> Slot:
    """Return the renderer and field index of a slot; a subject rendered before becomes a pronoun."""
    if spec == "manner":
        return Speaker.manner, 0
    article, _, rest = spec.partition(" ")
    if article == "a":
        return Speaker.with_article, fields.index(rest)
    name, mark = re.fullmatch(r"([a-z]+)(.*)", spec).groups()  # type: ignore[union-attr]
    renderer = _REPEATED_SUBJECT_RENDERERS.get(mark) if name == rendered_subject and name != "thing" else None
    return renderer or _SLOT_RENDERERS.get((name, mark), Speaker.plain), fields.index(name)


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
    ("thing", ".repaired"): Speaker.repaired,
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


def compile_form(text: str, fields: tuple[str, ...], adds_detail: bool) -> ClauseForm:
    """Return a form compiled for events or claims with the given fields."""
    placeholders = _PLACEHOLDER.findall(text)
    slots = [placeholder[1:-1] for placeholder in placeholders if placeholder[0] == "{"]
    verbs = [placeholder[1:-1] for placeholder in placeholders if placeholder[0] == "["]
    marked_subjects = [slot for slot in slots if slot.endswith("=")]
    subject_leads = text.startswith("{") and re.fullmatch(r"who|whom|thing", slots[0]) is not None
    subject = slots[0] if subject_leads else (marked_subjects[0][:-1] if marked_subjects else "")
    naming_slots = [slot for slot in slots if slot != "spot@"]  # names the place but not the spot
    mentioned = {
        fields.index(name)
        for spec in (*naming_slots, *verbs)
        for name in re.findall(r"[a-z]+", spec)
        if name in fields
    }
    return ClauseForm(
        text=text,
        adds_detail=adds_detail,
        subject_field=fields.index(subject) if subject else -1,
        number_field=fields.index("number") if any(spec.endswith(":number") for spec in verbs) else -1,
        subject_leads=subject_leads,
        has_one_verb=subject_leads
        and len(verbs) == 1
        and len(placeholders) > 1
        and placeholders[1][0] == "["
        and " was " not in text,
        fields=frozenset(mentioned),
        parts=tuple(
            tuple(
                _compile_parts(text, fields, subject, subject_leads, tense, person)
                for person in range(PERSONS)
            )
            for tense in range(TENSES)
        ),
    )


def _compile_parts(
    text: str, fields: tuple[str, ...], subject: str, subject_leads: bool, tense: int, person: int
) -> tuple[Part, ...]:
    """Return the parts of a form in one tense and person; the caller renders a leading subject."""
    placeholders, literals = _PLACEHOLDER.findall(text), _PLACEHOLDER.split(text)
    parts: list[Part] = []
    rendered_subject = subject if subject_leads else ""
    for index, literal in enumerate(literals):
        if literal:
            parts.append(literal)
        if index == len(placeholders):
            break
        spec = placeholders[index][1:-1]
        if placeholders[index][0] == "[":
            parts.append(_verb(spec, fields, tense, person))
        elif index or not subject_leads:
            parts.append(_slot(spec, fields, rendered_subject))
            rendered_subject = rendered_subject or (subject if spec == f"{subject}=" else "")
    return _merged(parts)


def _merged(parts: list[Part]) -> tuple[Part, ...]:
    """Return parts with adjacent literals joined."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return tuple(merged)


def _forms(event_type: Any) -> ClauseForms:
    fields: tuple[str, ...] = event_type._fields
    all_forms = [
        (text[0], compile_form(text.lstrip("~+"), fields, text[0] == "+")) for text in FORMS[event_type]
    ]
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
