"""Tests of gold answers: each is derived again from the log by an independent reader."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from albertine.world import events as e
from albertine.world import facts
from albertine.world.cast import Place, Spot, Thing
from albertine.world.english.grammar import number
from albertine.world.stories import CORPUS_GENRES, make_story
from albertine.world.tasks import glue, inference, race, squad
from albertine.world.tasks.queries import EventQuery
from albertine.world.tasks.state_questions import StateQuestion

from .independent_reader import History

TASKS = {task.name: task for task in glue.TASKS}


def make_examples(name: str, count: int = 400, file: str = "train") -> list[glue.GlueExample]:
    task = TASKS[name]
    split = next(split for split in task.splits if split.file == file)
    return list(glue.make_examples(task, split, count, 11, set()))


# --- inference


def truth_from_events(events: Sequence[Any], claim: Any) -> bool | None:
    """Return whether a claim is true according to some events; None if they do not decide it."""
    if isinstance(claim, inference.EventOrder):
        at = [events.index(event) if event in events else None for event in claim]
        return None if None in at else at[0] < at[1]  # type: ignore[operator]
    if isinstance(claim, facts.InDirection):
        return _direction(events, claim)
    past = History(events, strict=False, known_at_start=False)
    known: object
    if isinstance(claim, facts.AtPlace):
        known, claimed = past.people.get(claim.who.name), claim.place.the
    elif isinstance(claim, facts.HasThing):
        known, claimed = past.things.get(claim.thing.name), claim.who.name
    elif isinstance(claim, facts.LiesAt):
        known, claimed = past.things.get(claim.thing.name), str(claim.spot)
    elif isinstance(claim, facts.IsIntact):
        broken = past.broken.get(claim.thing.name)
        return None if broken is None else not broken
    else:
        left = past.stock.get((claim.who.name, claim.goods.many))
        if left is None:
            return isinstance(claim, facts.HasMore) if _at_least(events, claim) > claim.number else None
        return left > claim.number if isinstance(claim, facts.HasMore) else left == claim.number
    return None if known is None else known == claimed


def _at_least(events: Sequence[Any], claim: Any) -> int:
    """Return the least number of goods that someone has whose number at the start is unknown."""
    left = 0
    for event in events:
        if getattr(event, "goods", None) is claim.goods and not isinstance(event, e.Has):
            got = {"ShareGoods": "whom", "BuyGoods": "who"}.get(type(event).__name__, "")
            gave = {"ShareGoods": "who", "BuyGoods": "whom", "UseGoods": "who"}.get(type(event).__name__, "")
            if got and getattr(event, got) is claim.who:
                left += event.number
            elif gave and getattr(event, gave) is claim.who:
                left = max(0, left - event.number)
    return left


def _direction(events: Sequence[Any], claim: facts.InDirection) -> bool | None:
    """Decide a claim about directions by the transitive closure of all that the events say."""
    north_of: set[tuple[str, str, str]] = set()
    for event in events:
        if isinstance(event, e.Near):
            north_of.add((event.place.name, event.direction, event.other.name))
            north_of.add(
                (
                    event.other.name,
                    {"north": "south", "south": "north"}.get(event.direction)
                    or {"east": "west", "west": "east"}[event.direction],
                    event.place.name,
                )
            )
    for _ in range(len(events)):
        north_of |= {(a, d, z) for a, d, b in north_of for c, f, z in north_of if b == c and d == f}
    found = {d for a, d, b in north_of if (a, b) == (claim.place.name, claim.other.name)}
    assert len(found) == 1
    return claim.direction in found


@pytest.mark.parametrize(("name", "file"), [("MNLI", "train"), ("MNLI", "dev_mismatched"), ("RTE", "train")])
def test_inference_labels_are_true(name: str, file: str) -> None:
    labels = {True: "entailment", None: "neutral", False: "contradiction"}
    examples = make_examples(name, 600, file)
    for example in examples:
        origin = example.origin
        found = truth_from_events(origin.events, origin.claim)
        if not origin.affirmed and found is not None:
            found = not found
        assert origin.label == labels[found], example.texts
        assert origin.label == example.label or example.label == "not_entailment"
        assert (example.label == "entailment") is (found is True)
    families = Counter((type(example.origin.claim).__name__, example.origin.affirmed) for example in examples)
    assert min(families.values()) > 8, "every claim type is affirmed and denied"


def test_premises_mention_their_events() -> None:
    for example in make_examples("RTE", 300):
        premise = example.texts[0]
        for event in example.origin.events:
            for value in event:
                if isinstance(value, Thing):
                    assert value.kind in premise
                if isinstance(value, Spot) and not isinstance(event, e.Seek):
                    assert value.name in premise
                    assert value.place.name in premise


def test_polarity_does_not_predict_the_label() -> None:
    """Denied claims are equally frequent under every label."""
    denied: dict[str, list[bool]] = {}
    for example in make_examples("MNLI", 1500):
        denied.setdefault(example.label, []).append(not example.origin.affirmed)
    for label, found in denied.items():
        assert 0.42 < sum(found) / len(found) < 0.58, label


# --- pairs


def _parts(event: Any) -> dict[str, Any]:
    return {"kind": type(event).__name__, **event._asdict()}


def test_paraphrases_come_from_the_same_events() -> None:
    for example in make_examples("MRPC"):
        one, other = example.origin.origins
        assert (one == other) is (example.label == "1")
        assert example.texts[0] != example.texts[1]
    assert 0.4 < sum(example.label == "1" for example in make_examples("MRPC")) / 400 < 0.6


def test_similarity_is_the_share_of_facts() -> None:
    scores = []
    for example in make_examples("STS-B"):
        one, other = map(_parts, example.origin.origins)
        same = [name for name in one if name in other and one[name] == other[name]]
        score = 5 * len(same) / len(set(one) | set(other))
        assert float(example.label) == pytest.approx(score, abs=1e-3)
        scores.append(score)
    assert min(scores) == 0
    assert max(scores) == 5
    assert len(set(scores)) > 8


def test_meetings_are_symmetric() -> None:
    for name in ("MRPC", "STS-B", "QQP"):
        for example in make_examples(name):
            one, other = example.origin.origins
            for first, second in zip(_events(one), _events(other), strict=True):
                if isinstance(first, e.Meet) and isinstance(second, e.Meet):
                    assert (first.who, first.whom) != (second.whom, second.who)


def _events(origin: Any) -> tuple[Any, ...]:
    if isinstance(origin, EventQuery):
        return (origin.event,)
    return (origin,) if hasattr(origin, "_fields") else origin


def answers_in_log(query: EventQuery, log: Sequence[Any]) -> set[str]:
    """Return the answers to a query: from events of its type that agree in all named fields."""
    told = [event.what if isinstance(event, e.Hidden) else event for event in log]
    return {
        str(getattr(event, query.asked_field))
        for event in told
        if type(event) is type(query.event)
        and all(str(getattr(event, name)) == str(getattr(query.event, name)) for name in _named(query))
    }


def _named(query: EventQuery) -> list[str]:
    """Return the fields whose words occur in a wording of the question."""
    return [
        name
        for name in query.event._fields
        if name != query.asked_field
        and any(_word(getattr(query.event, name)) in wording for wording in query.wordings())
    ]


def _word(value: Any) -> str:
    if isinstance(value, int):
        return number(value)
    if isinstance(value, Place):
        return value.the
    return value if isinstance(value, str) else getattr(value, "many", "") or value.name


def test_duplicate_questions_have_one_answer() -> None:
    for example in make_examples("QQP"):
        one, other = example.origin.origins
        assert example.texts[0] != example.texts[1]
        same = one.asked_field == other.asked_field and one.event == other.event
        assert same is (example.label == "1"), example.texts


def test_qnli_labels_are_true() -> None:
    for example in make_examples("QNLI"):
        query, event = example.origin.origins
        fits = type(event) is type(query.event) and all(
            getattr(event, name) == getattr(query.event, name) for name in _named(query)
        )
        assert fits is (example.label == "entailment"), example.texts


# --- SQuAD


@pytest.fixture(scope="module")
def paragraphs() -> list[squad.SquadParagraph]:
    return squad.make_paragraphs("dev", 800, 3)


def test_spans_are_answers(paragraphs: list[squad.SquadParagraph]) -> None:
    kinds: Counter[str] = Counter()
    for paragraph in paragraphs:
        text = squad.context_text(paragraph.story)
        for asked in paragraph.answerable:
            for span in asked.answers:
                assert text[span.start : span.start + len(span.text)] == span.text
            kinds[type(asked.origin).__name__] += 1
            wanted = _gold(asked.origin, paragraph.story.log)
            assert len(wanted) == 1, asked.question
            gold = next(iter(wanted))
            for span in asked.answers:
                assert _says(span.text, gold, asked.question), (asked.question, span, gold)
    assert kinds["EventQuery"] > 300
    assert kinds["StateQuestion"] > 100


def _says(span: str, gold: str, question: str) -> bool:
    """Return whether a span is a value: a number, a price, or words of a name."""
    if gold.isdigit():
        money = re.search(r"[Hh]ow much|price|cost", question)
        return span == (_pence(gold) if money else number(int(gold)))
    bare = span.removeprefix("the ")
    return f" {bare} " in f" {gold} " or span.split()[0] == gold  # or the first name in a full name


def _gold(origin: Any, log: Sequence[Any]) -> set[str]:
    if isinstance(origin, EventQuery):
        return answers_in_log(origin, log)
    assert isinstance(origin, StateQuestion)
    past = History(log[: origin.num_events], strict=False)
    claim = origin.claim
    if isinstance(claim, facts.AtPlace):
        return {past.people[claim.who.name]}
    if isinstance(claim, facts.HasExactly):
        return {str(past.stock[claim.who.name, claim.goods.many])}
    return {past.things[claim.thing.name]}  # type: ignore[union-attr]


def _in_words(gold: str) -> list[str]:
    return [number(int(gold)), "a"] if gold.isdigit() else gold.split()


def test_unanswerable_questions_have_no_answer(paragraphs: list[squad.SquadParagraph]) -> None:
    opened = [(asked, paragraph) for paragraph in paragraphs for asked in paragraph.unanswerable]
    assert len(opened) > 200
    for asked, paragraph in opened:
        assert not asked.answers
        assert not answers_in_log(asked.origin, paragraph.story.log), asked.question
        text = squad.context_text(paragraph.story)
        for span in asked.plausible_answers:
            assert text[span.start : span.start + len(span.text)] == span.text


# --- RACE


@pytest.mark.parametrize("level", race.LEVELS)
def test_exactly_one_option_is_correct(level: str) -> None:
    rights: Counter[int] = Counter()
    for article in race.make_articles(level, "dev", 400, 2):
        log = article.story.log
        for choice in article.questions:
            assert len(set(choice.options)) == 4
            rights[choice.answer_index] += 1
            if isinstance(choice.origin, (EventQuery, StateQuestion)):
                gold = _gold(choice.origin, log)
                right = [option for option in choice.options if _names(option, gold)]
                assert right == [choice.options[choice.answer_index]], (choice, gold)
    assert min(rights.values()) > 60, "the answer is equally often A, B, C and D"


def _names(option: str, gold: set[str]) -> bool:
    """Return whether an option is a value, perhaps in words or with an article or preposition."""
    bare = re.sub(r"^(the|an?|in|at|on|by) ", "", option)
    return any(
        bare in (value, re.sub(r"^(the|in|at|on|by) ", "", value))
        or option in [*_in_words(value), _pence(value)]
        for value in gold
    )


def _pence(value: str) -> str:
    return ("a penny" if value == "1" else f"{number(int(value))} pence") if value.isdigit() else ""


def test_high_level_questions_are_true_of_their_story() -> None:
    seen: Counter[str] = Counter()
    for article in race.make_articles("high", "train", 500, 6):
        log = article.story.log
        told = [event.what if isinstance(event, e.Hidden) else event for event in log]
        for choice in article.questions:
            if choice.question in ("Which of these did not happen?", "Which of these is true?"):
                _, right, wrong = choice.origin
                happened = choice.question.endswith("true?")
                assert (right in told) is happened
                assert all((event in told) is not happened for event in wrong)
                seen["happened"] += 1
            elif choice.question.startswith("Which of these happened"):
                right, chosen = choice.origin
                ends = [log.index(event) for event in chosen]
                wanted = min(ends) if "first" in choice.question else max(ends)
                assert log.index(right) == wanted
                seen["order"] += 1
    assert min(seen["happened"], seen["order"]) > 20


# --- splits


@pytest.mark.parametrize("name", [task.name for task in glue.TASKS])
def test_splits_are_disjoint_and_independent_of_sizes(name: str) -> None:
    task = TASKS[name]
    seen: set[tuple[str, ...]] = set()
    rows = {split.file: list(glue.make_examples(task, split, 60, 7, seen)) for split in task.splits}
    texts = [example.texts for examples in rows.values() for example in examples]
    assert len(texts) == len(set(texts)) == 60 * len(task.splits)
    fewer: set[tuple[str, ...]] = set()
    again = {split.file: list(glue.make_examples(task, split, 40, 7, fewer)) for split in task.splits}
    first = task.splits[0].file
    assert [example.texts for example in again[first]] == [example.texts for example in rows[first]][:40]


def test_labels_are_balanced() -> None:
    for task in glue.TASKS:
        if task.labels:
            counts = Counter(example.label for example in make_examples(task.name, 600))
            for label in task.labels:
                assert 0.35 / (len(task.labels) / 2) < counts[label] / 600 < 0.65 / (len(task.labels) / 2), (
                    task.name
                )


def test_corpus_and_task_stories_are_disjoint() -> None:
    corpus = {" ".join(make_story(4, "text", number_, CORPUS_GENRES).sentences) for number_ in range(300)}
    for paragraph in squad.make_paragraphs("train", 200, 4):
        assert squad.context_text(paragraph.story) not in corpus
