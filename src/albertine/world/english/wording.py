"""The wording of questions and claims: full names everywhere, no pronouns."""

from functools import cache
from typing import Any

from albertine.world.cast import Person
from albertine.world.english.clauses import CLAUSES, ClauseForm, compile_form
from albertine.world.english.grammar import PAST, PRESENT, SINGULAR, capital
from albertine.world.english.speaker import Speaker

_NO_OPTIONAL_WORDING = 0.999  # above the probability of any optional pronoun, trade or owner


def _skip_options() -> float:
    """Return, in place of a random number, one with which the speaker takes no optional wording."""
    return _NO_OPTIONAL_WORDING


_SPEAKER = Speaker(_skip_options, exact=True)


@cache
def _compiled(text: str, event_type: Any) -> ClauseForm:
    return compile_form(text, event_type._fields, False)


def worded(text: str, source: Any) -> str:
    """Return a wording with its slots filled from an event or a claim."""
    return _rendered(_compiled(text, source.__class__), source, PAST)


def sentence(text: str, source: Any) -> str:
    """Return a filled wording as a sentence, with a capital and a full stop or question mark."""
    filled = capital(worded(text, source))
    return filled if filled.endswith("?") else f"{filled}."


def clause(event: Any, choice: float, *, lasting: bool = False) -> str:
    """Return a clause for an event without context; `choice` in [0, 1) selects the form."""
    forms = CLAUSES[event.__class__].plain
    return _rendered(forms[int(choice * len(forms))], event, PRESENT if lasting else PAST)


def predicate(event: Any, choice: float) -> str:
    """Return the clause of an event without its subject; empty if no form allows that."""
    forms = CLAUSES[event.__class__].full
    if not forms:
        return ""
    _SPEAKER.forget()
    parts = forms[int(choice * len(forms))].parts[PAST][SINGULAR]
    rendered = "".join(part if isinstance(part, str) else part[0](_SPEAKER, event[part[1]]) for part in parts)
    return rendered.strip()


def _rendered(form: ClauseForm, event: Any, tense: int) -> str:
    _SPEAKER.forget()
    rendered, person = "", SINGULAR
    if form.subject_field >= 0:
        subject = event[form.subject_field]
        if isinstance(subject, Person):
            person = _SPEAKER.person(subject)
            rendered = _SPEAKER.name(subject) if form.subject_leads else ""
        elif form.subject_leads:
            rendered = _SPEAKER.the_thing(subject)
    if form.number_field >= 0:
        person = SINGULAR if event[form.number_field] == 1 else 1
    rendered += "".join(
        part if isinstance(part, str) else part[0](_SPEAKER, event[part[1]])
        for part in form.parts[tense][person]
    )
    _SPEAKER.end_sentence()
    return rendered
