"""The text of a story: turns a log into sentences.

Consecutive deeds of one person may share a sentence ("and", "then", "after doing"), and
so may a cause and its effect ("so", "because"). The time of day starts the sentence of
the next event. The text mentions hidden events only when they are revealed.
"""

from collections.abc import Callable
from typing import Any

from albertine.world import events as e
from albertine.world.cast import Person, Thing
from albertine.world.english.clauses import CLAUSES, ClauseForm
from albertine.world.english.grammar import GERUND, PAST, PLUPERFECT, PRESENT, SINGULAR
from albertine.world.english.speaker import Speaker

_DEEDS = frozenset(
    (
        e.Go,
        e.Take,
        e.Put,
        e.Give,
        e.Return,
        e.Find,
        e.BuyGoods,
        e.Buy,
        e.UseGoods,
        e.ShareGoods,
        e.Mend,
        e.Chore,
    )
)
# Events whose sentence can start with a time of day.
_TIMED = _DEEDS | {e.Meet, e.Lose, e.Seek, e.Miss, e.Break, e.WeatherChange, e.Sight}
# Sentences without persons, so that pronouns after them still refer to the sentence before.
_IMPERSONAL = frozenset((e.WeatherChange, e.Sight, e.AnimalAct, e.Aside))
# Facts in the present tense.
_LASTING = frozenset((e.VillageSite, e.Near, e.BuiltOf, e.HasOrnament, e.RunsPlace, e.CountAtPlace))
_THEN = ("then", "after that,", "soon", "a little later,", "next", "at last", "by and by", "presently")
_SAID = ("said", "told", "said", "whispered", "called")
_REVEALED = ("it turned out that ", "now it came out that ", "", "the truth was that ", "in fact, ")


class StoryText:
    """The text of one log.

    Attributes:
        sentences: the sentences, in order.
        sentence_of_event: for each event, the index of the sentence that tells it, or -1.
        form_of_event: for each event, the form that tells it, if it has one.
    """

    def __init__(self, speaker: Speaker, log: list[e.Event], links: list[int]):
        self.speaker = speaker
        self.sentences: list[str] = []
        self.sentence_of_event = [-1] * len(log)
        self.form_of_event: list[ClauseForm | None] = [None] * len(log)
        self._log, self._links = log, links
        self._used_details: set[ClauseForm] = set()
        self._opener = ""
        self._at = 0
        self._random = speaker.random
        while self._at < len(log):
            self._at += self._render_next()

    def _render_next(self) -> int:
        """Render the next event, or the next two in one sentence; return how many were rendered."""
        at, log = self._at, self._log
        event = log[at]
        kind = event.__class__
        if kind is e.TimeOfDay:
            self._opener = event.phrase  # type: ignore[union-attr]
        elif kind is e.Hidden:
            pass  # told when it is revealed
        elif (special := _SPECIAL.get(kind)) is not None:
            self._add_sentence(special(self, event))
        elif at + 1 < len(log) and (joined := self._joined(event, log[at + 1], self._links[at + 1])):
            self.sentence_of_event[at + 1] = len(self.sentences)
            self._add_sentence(joined)
            return 2
        else:
            self._add_sentence(self._single_event(event, self._links[at]))
        return 1

    def _add_sentence(self, sentence: str) -> None:
        """Append a sentence, with a capital and a full stop."""
        if self._opener and self._log[self._at].__class__ in _TIMED:
            sentence = f"{self._opener}, {sentence}"
            self._opener = ""
        self.sentence_of_event[self._at] = len(self.sentences)
        last = sentence[-1]
        self.sentences.append(
            sentence[0].upper()
            + sentence[1:]
            + ("" if last == "." or (last == '"' and sentence[-2] in ".?!") else ".")
        )
        if self._log[self._at].__class__ not in _IMPERSONAL:
            self.speaker.end_sentence()

    # --- one event

    def _single_event(self, event: Any, link: int) -> str:
        """Return a sentence that tells one event."""
        forms = CLAUSES[event.__class__]
        random = self._random
        if event.__class__ in _LASTING:
            return self.clause(event, forms.plain, PRESENT)
        if event.__class__ is e.IsKin and self.speaker.me is not None:
            return self.clause(event, forms.plain, PRESENT)  # in a letter the relation still holds
        if self.speaker.exact:
            return self.clause(event, forms.plain)
        if self._opener and event.__class__ in _TIMED:
            return self.clause(event, forms.joined or forms.plain)
        if link:
            word = (
                ("so " if link == e.SO else "but ")
                if random() < 0.6
                else ("that was why " if link == e.SO else "still, ")
            )
            return word + self.clause(event, forms.joined or forms.plain)
        if random() < 0.1 and self.sentences and event.__class__ in _DEEDS:
            return f"{_THEN[int(random() * 8)]} {self.clause(event, forms.joined)}"
        # A person who was just mentioned stays the subject: no "done by her".
        return self.clause(
            event, forms.active if self.speaker.is_recently_mentioned(event[0]) else forms.all_forms
        )

    def clause(self, event: Any, forms: tuple[ClauseForm, ...], tense: int = PAST) -> str:
        """Return an event told in a random one of the forms."""
        form = forms[int(self._random() * len(forms))]
        if form.adds_detail:
            if form in self._used_details:  # each detail appears once per story
                form = CLAUSES[event.__class__].plain[0]
            self._used_details.add(form)
        speaker = self.speaker
        person = SINGULAR
        said = ""
        if form.subject_field >= 0:
            subject = event[form.subject_field]
            if isinstance(subject, Thing):
                if form.subject_leads:
                    said = speaker.thing(subject)
            else:
                person = speaker.person(subject)
                if form.subject_leads:
                    said = speaker.as_subject(subject)
        if form.number_field >= 0:
            person = SINGULAR if event[form.number_field] == 1 else 1
        return said + self._predicate(form, event, tense, person)

    def _predicate(self, form: ClauseForm, event: Any, tense: int, person: int) -> str:
        speaker = self.speaker
        said = []
        for part in form.parts[tense][person]:
            if isinstance(part, str):
                said.append(part)
            else:
                say, field = part
                said.append(say(speaker, event[field]))
        if not self.form_of_event[self._at]:
            self.form_of_event[self._at] = form
        note = _NOTES.get(event.__class__)
        if note is not None:
            note(speaker, event)
        return "".join(said)

    # --- two events

    def _joined(self, first: Any, second: Any, link: int) -> str:
        """Return two consecutive events in one sentence, or an empty string if they do not fit together."""
        one, two = first.__class__, second.__class__
        chance = self._random()
        if link:
            if (
                chance < 0.75
                and two in CLAUSES
                and one in CLAUSES
                and self._leading(one)
                and self._leading(two)
            ):
                return self._linked(first, second, link)
            return ""
        if chance > 0.42 or one not in _DEEDS or two not in _DEEDS or one is two or first[0] is not second[0]:
            return ""
        return self._same_subject(first, second)

    def _linked(self, first: Any, second: Any, link: int) -> str:
        clause, chance = self.clause, self._random()
        cause, effect = self._leading(first.__class__), self._leading(second.__class__)
        if link == e.BUT:
            if chance < 0.7:
                before = clause(first, cause)
                return f"{before}, but {self._second(second, effect)}"
            before = clause(first, cause)
            return f"although {before}, {self._second(second, effect)}"
        if chance < 0.5:
            before = clause(first, cause)
            return f"{before}, so {self._second(second, effect)}"
        if chance < 0.75:
            before = clause(first, cause)
            return f"because {before}, {self._second(second, effect)}"
        after = self._second(second, effect)
        return f"{after} because {clause(first, cause)}"

    def _second(self, event: Any, forms: tuple[ClauseForm, ...]) -> str:
        self._at += 1
        said = self.clause(event, forms)
        self._at -= 1
        return said

    def _same_subject(self, first: Any, second: Any) -> str:
        """Return two deeds of one person in a sentence that names the person once."""
        speaker, chance = self.speaker, self._random()
        one, two = first.__class__, second.__class__
        who: Person = first[0]
        person = speaker.person(who)
        if chance < 0.6:
            before = speaker.as_subject(who) + self._pick(self._leading(one), first, PAST, person)
            word = " and" if chance < 0.4 else (" and then" if chance < 0.5 else ", then")
            return f"{before}{word}{self._pick_second(self._leading(two), second, PAST, person)}"
        if chance < 0.8:
            before = self._pick(self._one_verb(one), first, GERUND, person)
            after = speaker.as_subject(who) + self._pick_second(self._leading(two), second, PAST, person)
            return f"after{before}, {after}"
        before = speaker.as_subject(who) + self._pick(self._leading(one), first, PAST, person)
        return f"{before} before{self._pick_second(self._one_verb(two), second, GERUND, person)}"

    def _leading(self, kind: type) -> tuple[ClauseForm, ...]:
        """Return the forms that start with the acting person."""
        return CLAUSES[kind].full if self.speaker.exact else CLAUSES[kind].joined

    def _one_verb(self, kind: type) -> tuple[ClauseForm, ...]:
        """Return the leading forms with one verb."""
        return CLAUSES[kind].full_simple if self.speaker.exact else CLAUSES[kind].simple

    def _pick(self, forms: tuple[ClauseForm, ...], event: Any, tense: int, person: int) -> str:
        return self._predicate(forms[int(self._random() * len(forms))], event, tense, person)

    def _pick_second(self, forms: tuple[ClauseForm, ...], event: Any, tense: int, person: int) -> str:
        self._at += 1
        said = self._pick(forms, event, tense, person)
        self._at -= 1
        return said

    # --- event types with their own rules

    def _sight(self, event: e.Sight | e.WeatherChange) -> str:
        return event.what[0].lower() + event.what[1:] if self._opener else event.what

    def _letter(self, event: e.Letter) -> str:
        """Return the start of a letter; from here on the writer is "I" and the reader "you"."""
        speaker = self.speaker
        speaker.me = speaker.you = None
        begun = self.clause(event, CLAUSES[e.Letter].plain)
        speaker.me, speaker.you, speaker.here = event.who, event.whom, None
        return begun

    def _reveal(self, event: e.Reveal) -> str:
        word = _REVEALED[int(self._random() * len(_REVEALED))]
        self.speaker.forget()
        forms = CLAUSES[event.what.__class__]
        return word + self.clause(event.what, forms.joined, PLUPERFECT)

    def _tell(self, event: e.Tell) -> str:
        """Return an event as someone tells it, in direct or in reported speech."""
        who, whom, what = event
        speaker = self.speaker
        forms = CLAUSES[what.__class__]
        told_by_third = speaker.me is None
        if told_by_third and (who.gender == whom.gender or self._random() < 0.6):
            speaker.me, speaker.you = who, whom
            before = speaker._before
            speaker.forget()
            quoted = self.clause(what, forms.joined)
            speaker.me = speaker.you = None
            speaker._now, speaker._before = [None, None, None, None], before
            said = _SAID[int(self._random() * len(_SAID))]
            quoted = quoted[0].upper() + quoted[1:]
            if said == "told":
                return f'{speaker.as_subject(who)} told {speaker.as_object(whom)}: "{quoted}."'
            return f'"{quoted}," {speaker.as_subject(who)} {said} to {speaker.as_object(whom)}'
        begun = f"{speaker.as_subject(who)} told {speaker.as_object(whom)} that "
        if who.gender != whom.gender and speaker.me is not who:
            speaker.set_pronoun_referent(who)
        return begun + self.clause(what, forms.joined, PLUPERFECT)


def _note_here(speaker: Speaker, event: e.Go | e.Meet) -> None:
    speaker.here = event.place


def _note_owner(speaker: Speaker, event: e.Owns | e.Buy) -> None:
    speaker.owners[event.thing] = event.who


def _note_trade(speaker: Speaker, event: e.Works) -> None:
    speaker.trades[event.who] = event.trade


_NOTES: dict[type, Callable[[Speaker, Any], None]] = {
    e.Go: _note_here,
    e.Meet: _note_here,
    e.Owns: _note_owner,
    e.Buy: _note_owner,
    e.Works: _note_trade,
}
_SPECIAL: dict[type, Callable[[StoryText, Any], str]] = {
    e.Letter: StoryText._letter,
    e.Aside: StoryText._sight,
    e.Sight: StoryText._sight,
    e.WeatherChange: StoryText._sight,
    e.Reveal: StoryText._reveal,
    e.Tell: StoryText._tell,
}
