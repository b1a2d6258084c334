"""Tests of gold answers: each is derived again from the log by an independent reader."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from albertine.world import events as e
from albertine.world import facts
from albertine.world.cast import Place, Spot, Thing
from albertine.world.english.grammar import number_in_words
from albertine.world.stories import CORPUS_GENRES, make_story
from albertine.world.tasks import glue, inference, race, squad
from albertine.world.tasks.queries import EventQuery, could_answer
from albertine.world.tasks.state_questions import StateQuestion

from .independent_reader import ReplayedState

TASKS = {task.name: task for task in glue.TASKS}


def make_examples(name: str, count: int = 400, file: str = "train") -> list[glue.GlueExample]:
    task = TASKS[name]
    split = next(split for split in task.splits if split.file == file)
    return list(glue.make_examples(task, split, count, 11, set()))


# --- inference


def truth_from_events(events: Sequence[Any], claim: Any) -> bool | None:
    """Return whether a claim is true according to some events; None if they do not decide it."""
    if isinstance(claim, inference.EventOrder):
        positions = [events.index(event) if event in events else None for event in claim]
        return None if None in positions else positions[0] < positions[1]  # type: ignore[operator]
    if isinstance(claim, facts.InDirection):
        return _direction(events, claim)
    state = ReplayedState(events, strict=False, owners_hold_at_start=False)
    known: object
    if isinstance(claim, facts.AtPlace):
        known, claimed = state.people.get(claim.who.name), claim.place.the
    elif isinstance(claim, facts.HasThing):
        known, claimed = state.things.get(claim.thing.name), claim.who.name
    elif isinstance(claim, facts.AtSpot):
        known, claimed = state.things.get(claim.thing.name), str(claim.spot)
    elif isinstance(claim, facts.IsIntact):
        broken = state.broken.get(claim.thing.name)
        return None if broken is None else not broken
    else:
        count = state.stock.get((claim.who.name, claim.goods.many))
        if count is None:
            return isinstance(claim, facts.HasMore) if _at_least(events, claim) > claim.number else None
        return count > claim.number if isinstance(claim, facts.HasMore) else count == claim.number
    return None if known is None else known == claimed


def _at_least(events: Sequence[Any], claim: Any) -> int:
    """Return the minimum number of goods of a person whose number at the start is unknown."""
    count = 0
    for event in events:
        if getattr(event, "goods", None) is claim.goods and not isinstance(event, e.HasGoods):
            receiver_field = {"ShareGoods": "whom", "BuyGoods": "who"}.get(type(event).__name__, "")
            giver_field = {"ShareGoods": "who", "BuyGoods": "whom", "UseGoods": "who"}.get(
                type(event).__name__, ""
            )
            if receiver_field and getattr(event, receiver_field) is claim.who:
                count += event.number
            elif giver_field and getattr(event, giver_field) is claim.who:
                count = max(0, count - event.number)
    return count


def _direction(events: Sequence[Any], claim: facts.InDirection) -> bool | None:
    """Return whether a claim about a direction is true, by the transitive closure of all directions."""
    relations: set[tuple[str, str, str]] = set()
    for event in events:
        if isinstance(event, e.Near):
            relations.add((event.place.name, event.direction, event.other.name))
            relations.add(
                (
                    event.other.name,
                    {"north": "south", "south": "north"}.get(event.direction)
                    or {"east": "west", "west": "east"}[event.direction],
                    event.place.name,
                )
            )
    for _ in range(len(events)):
        relations |= {(a, d, z) for a, d, b in relations for c, f, z in relations if b == c and d == f}
    directions = {d for a, d, b in relations if (a, b) == (claim.place.name, claim.other.name)}
    assert len(directions) == 1
    return claim.direction in directions


@pytest.mark.parametrize(("name", "file"), [("MNLI", "train"), ("MNLI", "dev_mismatched"), ("RTE", "train")])
def test_inference_labels_are_true(name: str, file: str) -> None:
    labels = {True: "entailment", None: "neutral", False: "contradiction"}
    examples = make_examples(name, 600, file)
    for example in examples:
        generated = example.generated
        truth = truth_from_events(generated.events, generated.claim)
        if not generated.affirmed and truth is not None:
            truth = not truth
        assert generated.label == labels[truth], example.texts
        assert generated.label == example.label or example.label == "not_entailment"
        assert (example.label == "entailment") is (truth is True)
    families = Counter(
        (type(example.generated.claim).__name__, example.generated.affirmed) for example in examples
    )
    assert min(families.values()) > 8, "every claim type is affirmed and denied"


@pytest.mark.parametrize("event_type", [e.Break, e.Repair])
def test_nobody_who_works_on_a_fixture_is_said_to_be_elsewhere(event_type: Any) -> None:
    stories = (make_story(5, "text", number, ("report",)) for number in range(200))
    events = [event for story in stories for event in story.log if isinstance(event, event_type)]
    assert len(events) > 10
    for event in events:
        knowledge = facts.ReaderKnowledge([event])
        assert set(event.who.members) <= knowledge.placed_by_others


def test_an_ornament_answers_how_many_there_are() -> None:
    stories = (make_story(5, "text", number, ("place",)) for number in range(100))
    ornament = next(
        event
        for story in stories
        for event in story.log
        if isinstance(event, e.HasOrnament) and event.ornament == "seven narrow windows"
    )
    for what, is_answered in (("windows", True), ("bells", False)):
        query = EventQuery(e.CountAtPlace(ornament.place, 3, what), "number")
        assert could_answer(query, ornament) is is_answered


def test_premises_mention_their_events() -> None:
    for example in make_examples("RTE", 300):
        premise = example.texts[0]
        for event in example.generated.events:
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
        denied.setdefault(example.label, []).append(not example.generated.affirmed)
    for label, is_denied in denied.items():
        assert 0.42 < sum(is_denied) / len(is_denied) < 0.58, label


# --- pairs


def _parts(event: Any) -> dict[str, Any]:
    return {"kind": type(event).__name__, **event._asdict()}


def test_paraphrases_come_from_the_same_events() -> None:
    for example in make_examples("MRPC"):
        first, second = example.generated.origins
        assert (first == second) is (example.label == "1")
        assert example.texts[0] != example.texts[1]
    assert 0.4 < sum(example.label == "1" for example in make_examples("MRPC")) / 400 < 0.6


def test_similarity_is_the_share_of_facts() -> None:
    scores = []
    for example in make_examples("STS-B"):
        first, second = map(_parts, example.generated.origins)
        common = [name for name in first if name in second and first[name] == second[name]]
        score = 5 * len(common) / len(set(first) | set(second))
        assert float(example.label) == pytest.approx(score, abs=1e-3)
        scores.append(score)
    assert min(scores) == 0
    assert max(scores) == 5
    assert len(set(scores)) > 8


def test_meetings_are_symmetric() -> None:
    for name in ("MRPC", "STS-B", "QQP"):
        for example in make_examples(name):
            first, second = example.generated.origins
            for first_event, second_event in zip(_events(first), _events(second), strict=True):
                if isinstance(first_event, e.Meet) and isinstance(second_event, e.Meet):
                    assert (first_event.who, first_event.whom) != (second_event.whom, second_event.who)


def _events(origin: Any) -> tuple[Any, ...]:
    if isinstance(origin, EventQuery):
        return (origin.event,)
    return (origin,) if hasattr(origin, "_fields") else origin


def answers_in_log(query: EventQuery, log: Sequence[Any]) -> set[str]:
    """Return the answers to a query: from events of its type that agree in all named fields."""
    events = [event.what if isinstance(event, e.Hidden) else event for event in log]
    return {
        str(getattr(event, query.answer_field))
        for event in events
        if type(event) is type(query.event)
        and all(str(getattr(event, name)) == str(getattr(query.event, name)) for name in _named(query))
    }


def _named(query: EventQuery) -> list[str]:
    """Return the fields whose words occur in a wording of the question."""
    return [
        name
        for name in query.event._fields
        if name != query.answer_field
        and any(_word(getattr(query.event, name)) in wording for wording in query.wordings())
    ]


def _word(value: Any) -> str:
    if isinstance(value, int):
        return number_in_words(value)
    if isinstance(value, Place):
        return value.the
    return value if isinstance(value, str) else getattr(value, "many", "") or value.name


def test_duplicate_questions_have_one_answer() -> None:
    for example in make_examples("QQP"):
        first, second = example.generated.origins
        assert example.texts[0] != example.texts[1]
        same = first.answer_field == second.answer_field and first.event == second.event
        assert same is (example.label == "1"), example.texts


def test_qnli_labels_are_true() -> None:
    for example in make_examples("QNLI"):
        query, event = example.generated.origins
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
        for question in paragraph.answerable:
            for span in question.answers:
                assert text[span.start : span.start + len(span.text)] == span.text
                is_count = (
                    isinstance(question.origin, EventQuery) and question.origin.answer_field == "number"
                )
                assert not (is_count and text[span.start + len(span.text) :].startswith(" pence"))
            kinds[type(question.origin).__name__] += 1
            gold_values = _gold(question.origin, paragraph.story.log)
            assert len(gold_values) == 1, question.question
            gold = next(iter(gold_values))
            for span in question.answers:
                assert _says(span.text, gold, question.question), (question.question, span, gold)
    assert kinds["EventQuery"] > 300
    assert kinds["StateQuestion"] > 100


def _says(span: str, gold: str, question: str) -> bool:
    """Return whether a span means a gold value: a number, a price, or words of a name."""
    if gold.isdigit():
        money = re.search(r"[Hh]ow much|price|cost", question)
        return span == (_pence(gold) if money else number_in_words(int(gold)))
    bare = span.removeprefix("the ")
    return f" {bare} " in f" {gold} " or span.split()[0] == gold  # or the first name in a full name


def _gold(origin: Any, log: Sequence[Any]) -> set[str]:
    """Return the answers to a query or state question according to the independent reader."""
    if isinstance(origin, EventQuery):
        return answers_in_log(origin, log)
    assert isinstance(origin, StateQuestion)
    state = ReplayedState(log[: origin.num_events], strict=False)
    claim = origin.claim
    if isinstance(claim, facts.AtPlace):
        return {state.people[claim.who.name]}
    if isinstance(claim, facts.HasExactly):
        return {str(state.stock[claim.who.name, claim.goods.many])}
    return {state.things[claim.thing.name]}  # type: ignore[union-attr]


def _in_words(gold: str) -> list[str]:
    return [number_in_words(int(gold)), "a"] if gold.isdigit() else gold.split()


def test_unanswerable_questions_have_no_answer(paragraphs: list[squad.SquadParagraph]) -> None:
    questions = [(question, paragraph) for paragraph in paragraphs for question in paragraph.unanswerable]
    assert len(questions) > 200
    for question, paragraph in questions:
        assert not question.answers
        assert not answers_in_log(question.origin, paragraph.story.log), question.question
        text = squad.context_text(paragraph.story)
        for span in question.plausible_answers:
            assert text[span.start : span.start + len(span.text)] == span.text


# --- RACE


@pytest.mark.parametrize("level", race.LEVELS)
def test_exactly_one_option_is_correct(level: str) -> None:
    answer_counts: Counter[int] = Counter()
    for article in race.make_articles(level, "dev", 400, 2):
        log = article.story.log
        for question in article.questions:
            assert len(set(question.options)) == 4
            answer_counts[question.answer_index] += 1
            if isinstance(question.origin, (EventQuery, StateQuestion)):
                gold = _gold(question.origin, log)
                matching = [option for option in question.options if _names(option, gold)]
                assert matching == [question.options[question.answer_index]], (question, gold)
    assert min(answer_counts.values()) > 60, "the answer is equally often A, B, C and D"


def _names(option: str, gold: set[str]) -> bool:
    """Return whether an option means a gold value, perhaps in words or with an article or preposition."""
    bare = re.sub(r"^(the|an?|in|at|on|by) ", "", option)
    return any(
        bare in (value, re.sub(r"^(the|in|at|on|by) ", "", value))
        or option in [*_in_words(value), _pence(value)]
        for value in gold
    )


def _pence(value: str) -> str:
    return ("a penny" if value == "1" else f"{number_in_words(int(value))} pence") if value.isdigit() else ""


def test_high_level_questions_are_true_of_their_story() -> None:
    counts: Counter[str] = Counter()
    for article in race.make_articles("high", "train", 500, 6):
        log = article.story.log
        events = [event.what if isinstance(event, e.Hidden) else event for event in log]
        for question in article.questions:
            if question.question in ("Which of these did not happen?", "Which of these is true?"):
                _, answer, wrong_actions = question.origin
                happened = question.question.endswith("true?")
                assert (answer in events) is happened
                assert all((event in events) is not happened for event in wrong_actions)
                counts["happened"] += 1
            elif question.question.startswith("Which of these happened"):
                answer, chosen = question.origin
                positions = [log.index(event) for event in chosen]
                expected = min(positions) if "first" in question.question else max(positions)
                assert log.index(answer) == expected
                counts["order"] += 1
    assert min(counts["happened"], counts["order"]) > 20


# --- splits


@pytest.mark.parametrize("name", [task.name for task in glue.TASKS])
def test_splits_are_disjoint_and_independent_of_sizes(name: str) -> None:
    task = TASKS[name]
    seen: set[tuple[str, ...]] = set()
    rows = {split.file: list(glue.make_examples(task, split, 60, 7, seen)) for split in task.splits}
    texts = [example.texts for examples in rows.values() for example in examples]
    assert len(texts) == len(set(texts)) == 60 * len(task.splits)
    seen_by_fewer: set[tuple[str, ...]] = set()
    fewer_rows = {
        split.file: list(glue.make_examples(task, split, 40, 7, seen_by_fewer)) for split in task.splits
    }
    first = task.splits[0].file
    assert [example.texts for example in fewer_rows[first]] == [example.texts for example in rows[first]][:40]


@pytest.mark.slow
def test_labels_are_balanced() -> None:
    for task in glue.TASKS:
        if task.labels:
            counts = Counter(example.label for example in make_examples(task.name, 600))
            for label in task.labels:
                assert 0.35 / (len(task.labels) / 2) < counts[label] / 600 < 0.65 / (len(task.labels) / 2), (
                    task.name
                )


def test_corpus_and_task_stories_are_disjoint() -> None:
    corpus = {" ".join(make_story(4, "text", index, CORPUS_GENRES).sentences) for index in range(300)}
    for paragraph in squad.make_paragraphs("train", 200, 4):
        assert squad.context_text(paragraph.story) not in corpus
