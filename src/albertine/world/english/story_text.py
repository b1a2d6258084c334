"""The text of a story: sentences for the events of a log.

Consecutive actions of one person may share a sentence ("and", "then", "after doing"), and
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

# Actions that can follow "then", and of which one sentence can have two by the same person.
_SEQUENTIAL_DEEDS = frozenset(
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
        e.Repair,
        e.Chore,
    )
)
# Events whose sentence can start with a time of day.
_TIMED = _SEQUENTIAL_DEEDS | {e.Meet, e.Lose, e.Seek, e.Miss, e.Break, e.WeatherChange, e.Sight}
# Sentences without persons, so that pronouns after them still refer to the sentence before.
_IMPERSONAL = frozenset((e.WeatherChange, e.Sight, e.Aside))
# Facts in the present tense.
_LASTING = frozenset((e.VillageSite, e.Near, e.BuiltOf, e.HasOrnament, e.HasWorker, e.CountAtPlace))
_THEN = ("then", "after that,", "soon", "a little later,", "next", "at last", "by and by", "presently")
_SAID = ("said", "told", "said", "whispered", "called")
_REVEALED = ("it turned out that ", "now it came out that ", "", "the truth was that ", "in fact, ")


class StoryText:
    """The text of one log.

    Attributes:
        sentences: the sentences, in order.
        sentence_of_event: for each event, the index of its sentence, or -1.
        form_of_event: for each event, its clause form, if it has one.
    """

    def __init__(self, speaker: Speaker, log: list[e.Event], links: list[int]):
        self.speaker = speaker
        self.sentences: list[str] = []
        self.sentence_of_event = [-1] * len(log)
        self.form_of_event: list[ClauseForm | None] = [None] * len(log)
        self._log, self._links = log, links
        self._used_details: set[ClauseForm] = set()
        self._opener = ""
        self._index = 0
        self._random = speaker.random
        while self._index < len(log):
            self._index += self._render_next()

    def _render_next(self) -> int:
        """Render the next event, or the next two in one sentence; return how many were rendered."""
        index, log = self._index, self._log
        event = log[index]
        event_type = event.__class__
        if event_type is e.TimeOfDay:
            self._opener = event.phrase  # type: ignore[union-attr]
        elif event_type is e.Hidden:
            pass  # its sentence follows when it is revealed
        elif (special := _SPECIAL.get(event_type)) is not None:
            self._add_sentence(special(self, event))
        elif index + 1 < len(log) and (joined := self._joined(event, log[index + 1], self._links[index + 1])):
            self.sentence_of_event[index + 1] = len(self.sentences)
            self._add_sentence(joined)
            return 2
        else:
            self._add_sentence(self._single_event(event, self._links[index]))
        return 1

    def _add_sentence(self, sentence: str) -> None:
        """Append a sentence, with a capital and a full stop."""
        if self._opener and self._log[self._index].__class__ in _TIMED:
            sentence = f"{self._opener}, {sentence}"
            self._opener = ""
        self.sentence_of_event[self._index] = len(self.sentences)
        last = sentence[-1]
        self.sentences.append(
            sentence[0].upper()
            + sentence[1:]
            + ("" if last == "." or (last == '"' and sentence[-2] in ".?!") else ".")
        )
        if self._log[self._index].__class__ not in _IMPERSONAL:
            self.speaker.end_sentence()

    # --- one event

    def _single_event(self, event: Any, link: int) -> str:
        """Return a sentence for one event."""
        forms = CLAUSES[event.__class__]
        random = self._random
        if event.__class__ in _LASTING:
            return self.clause(event, forms.plain, PRESENT)
        if event.__class__ is e.HasRelation and self.speaker.me is not None:
            return self.clause(event, forms.plain, PRESENT)  # in a letter the relation still holds
        if self.speaker.exact:
            return self.clause(event, forms.plain)
        if self._opener and event.__class__ in _TIMED:
            return self.clause(event, forms.joined or forms.plain)
        if link:
            connective = (
                ("so " if link == e.SO else "but ")
                if random() < 0.6
                else ("that was why " if link == e.SO else "still, ")
            )
            return connective + self.clause(event, forms.joined or forms.plain)
        if random() < 0.1 and self.sentences and event.__class__ in _SEQUENTIAL_DEEDS:
            return f"{_THEN[int(random() * 8)]} {self.clause(event, forms.joined)}"
        # A person who was just mentioned stays the subject: no "done by her".
        return self.clause(
            event, forms.active if self.speaker.is_recently_mentioned(event[0]) else forms.all_forms
        )

    def clause(self, event: Any, forms: tuple[ClauseForm, ...], tense: int = PAST) -> str:
        """Return an event as a clause, in a random one of the forms."""
        form = forms[int(self._random() * len(forms))]
        if form.adds_detail:
            if form in self._used_details:  # each detail appears once per story
                form = CLAUSES[event.__class__].plain[0]
            self._used_details.add(form)
        speaker = self.speaker
        person = SINGULAR
        subject_text = ""
        if form.subject_field >= 0:
            subject = event[form.subject_field]
            if isinstance(subject, Thing):
                if form.subject_leads:
                    subject_text = speaker.thing(subject)
            else:
                person = speaker.person(subject)
                if form.subject_leads:
                    subject_text = speaker.as_subject(subject)
        if form.number_field >= 0:
            person = SINGULAR if event[form.number_field] == 1 else 1
        return subject_text + self._predicate(form, event, tense, person)

    def _predicate(self, form: ClauseForm, event: Any, tense: int, person: int) -> str:
        """Return the clause without a leading subject; record the form and new facts about the cast."""
        speaker = self.speaker
        texts = []
        for part in form.parts[tense][person]:
            if isinstance(part, str):
                texts.append(part)
            else:
                render, field = part
                texts.append(render(speaker, event[field]))
        if not self.form_of_event[self._index]:
            self.form_of_event[self._index] = form
        note = _NOTES.get(event.__class__)
        if note is not None:
            note(speaker, event)
        return "".join(texts)

    # --- two events

    def _joined(self, first: Any, second: Any, link: int) -> str:
        """Return two consecutive events in one sentence, or an empty string if they do not fit together."""
        first_type, second_type = first.__class__, second.__class__
        draw = self._random()
        if link:
            if (
                draw < 0.75
                and second_type in CLAUSES
                and first_type in CLAUSES
                and self._leading(first_type)
                and self._leading(second_type)
            ):
                return self._linked(first, second, link)
            return ""
        if (
            draw > 0.42
            or first_type not in _SEQUENTIAL_DEEDS
            or second_type not in _SEQUENTIAL_DEEDS
            or first_type is second_type
            or first[0] is not second[0]
        ):
            return ""
        return self._same_subject(first, second)

    def _linked(self, first: Any, second: Any, link: int) -> str:
        """Return a cause and its effect, or two contrasting events, in one sentence."""
        clause, draw = self.clause, self._random()
        cause, effect = self._leading(first.__class__), self._leading(second.__class__)
        if link == e.BUT:
            if draw < 0.7:
                cause_text = clause(first, cause)
                return f"{cause_text}, but {self._second(second, effect)}"
            cause_text = clause(first, cause)
            return f"although {cause_text}, {self._second(second, effect)}"
        if draw < 0.5:
            cause_text = clause(first, cause)
            return f"{cause_text}, so {self._second(second, effect)}"
        if draw < 0.75:
            cause_text = clause(first, cause)
            return f"because {cause_text}, {self._second(second, effect)}"
        effect_text = self._second(second, effect)
        return f"{effect_text} because {clause(first, cause)}"

    def _second(self, event: Any, forms: tuple[ClauseForm, ...]) -> str:
        self._index += 1
        text = self.clause(event, forms)
        self._index -= 1
        return text

    def _same_subject(self, first: Any, second: Any) -> str:
        """Return two actions of one person in a sentence that names the person once."""
        speaker, draw = self.speaker, self._random()
        first_type, second_type = first.__class__, second.__class__
        who: Person = first[0]
        person = speaker.person(who)
        if draw < 0.6:
            first_text = speaker.as_subject(who) + self._pick(self._leading(first_type), first, PAST, person)
            connective = " and" if draw < 0.4 else (" and then" if draw < 0.5 else ", then")
            second_text = self._pick_second(self._leading(second_type), second, PAST, person)
            return f"{first_text}{connective}{second_text}"
        if draw < 0.8:
            first_text = self._pick(self._one_verb(first_type), first, GERUND, person)
            second_text = speaker.as_subject(who) + self._pick_second(
                self._leading(second_type), second, PAST, person
            )
            return f"after{first_text}, {second_text}"
        first_text = speaker.as_subject(who) + self._pick(self._leading(first_type), first, PAST, person)
        return f"{first_text} before{self._pick_second(self._one_verb(second_type), second, GERUND, person)}"

    def _leading(self, kind: type) -> tuple[ClauseForm, ...]:
        """Return the forms that start with the acting person."""
        return CLAUSES[kind].full if self.speaker.exact else CLAUSES[kind].joined

    def _one_verb(self, kind: type) -> tuple[ClauseForm, ...]:
        """Return the leading forms with one verb."""
        return CLAUSES[kind].full_simple if self.speaker.exact else CLAUSES[kind].simple

    def _pick(self, forms: tuple[ClauseForm, ...], event: Any, tense: int, person: int) -> str:
        return self._predicate(forms[int(self._random() * len(forms))], event, tense, person)

    def _pick_second(self, forms: tuple[ClauseForm, ...], event: Any, tense: int, person: int) -> str:
        self._index += 1
        text = self._pick(forms, event, tense, person)
        self._index -= 1
        return text

    # --- event types with their own rules

    def _finished_sentence(self, event: e.Sight | e.WeatherChange) -> str:
        return event.what[0].lower() + event.what[1:] if self._opener else event.what

    def _letter(self, event: e.Letter) -> str:
        """Return the start of a letter; from here on the writer is "I" and the recipient "you"."""
        speaker = self.speaker
        speaker.me = speaker.you = None
        opening = self.clause(event, CLAUSES[e.Letter].plain)
        speaker.me, speaker.you, speaker.here = event.who, event.whom, None
        return opening

    def _reveal(self, event: e.Reveal) -> str:
        opening = _REVEALED[int(self._random() * len(_REVEALED))]
        self.speaker.forget()
        forms = CLAUSES[event.what.__class__]
        return opening + self.clause(event.what, forms.joined, PLUPERFECT)

    def _tell(self, event: e.Tell) -> str:
        """Return an event that one person tells another, in direct or in reported speech."""
        who, whom, what = event
        speaker = self.speaker
        forms = CLAUSES[what.__class__]
        is_narrated = speaker.me is None
        if is_narrated and (who.gender == whom.gender or self._random() < 0.6):
            speaker.me, speaker.you = who, whom
            previous_referents = speaker._before
            speaker.forget()
            quoted = self.clause(what, forms.joined)
            speaker.me = speaker.you = None
            speaker._now, speaker._before = [None, None, None, None], previous_referents
            verb = _SAID[int(self._random() * len(_SAID))]
            quoted = quoted[0].upper() + quoted[1:]
            if verb == "told":
                return f'{speaker.as_subject(who)} told {speaker.as_object(whom)}: "{quoted}."'
            return f'"{quoted}," {speaker.as_subject(who)} {verb} to {speaker.as_object(whom)}'
        opening = f"{speaker.as_subject(who)} told {speaker.as_object(whom)} that "
        if who.gender != whom.gender and speaker.me is not who:
            speaker.set_pronoun_referent(who)
        return opening + self.clause(what, forms.joined, PLUPERFECT)


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
    e.Aside: StoryText._finished_sentence,
    e.Sight: StoryText._finished_sentence,
    e.WeatherChange: StoryText._finished_sentence,
    e.Reveal: StoryText._reveal,
    e.Tell: StoryText._tell,
}
