"""Examples become the sequences that `transformers` makes, and scores answers in the text's own words."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albertine.errors import InputError
from albertine.model.heads import SpanOutput
from albertine.tasks.examples import Answer, Choice, Labelled, Question, Tagged
from albertine.tasks.kinds.choices import Choices
from albertine.tasks.kinds.kind import strip_of
from albertine.tasks.kinds.labels import Labels, Numbers
from albertine.tasks.kinds.spans import Spans, Target
from albertine.tasks.kinds.tags import Tags
from albertine.tasks.settings import ReadingTask
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from tests.conftest import made_up

texts = st.lists(
    st.sampled_from([*"kalomi renTAS", " ", "é", "Ç", '"', ".", "1,2", "漢", "[MASK]"]), max_size=40
).map("".join)


@pytest.fixture(scope="module")
def own(tokenizer: Path) -> Tokenizer:
    return load_tokenizer(tokenizer)


@pytest.fixture(scope="module")
def theirs(tokenizer: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(tokenizer)


@given(one=texts, other=texts, length=st.integers(8, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_texts_and_pairs_are_framed_and_cut_as_transformers_does(
    own: Tokenizer, theirs: Any, one: str, other: str, length: int
) -> None:
    if "[MASK]" in one + other:  # to them that is one piece; to us, what a person wrote
        one, other = (text.replace("[MASK]", "mask") for text in (one, other))
    other = other or "ka"  # an empty second text is none to them
    kind = Labels(own, ("a", "b"), length, ("accuracy",), 0.0)
    alone, pair = kind.sheets([Labelled("", "", (one,), "a"), Labelled("", "", (one, other), "b")])
    for sheet, given_ in ((alone, (one,)), (pair, (one, other))):
        expected = theirs(*given_, truncation=True, max_length=length)
        (sample,) = sheet.samples
        assert len(sample.ids[0]) <= length
        assert sample.ids[0].tolist() == expected["input_ids"]
        assert sample.types[0].tolist() == expected["token_type_ids"]
    assert [sheet.samples[0].target for sheet in (alone, pair)] == [0, 1]


def test_a_special_piece_that_a_text_spells_is_no_special_piece(own: Tokenizer) -> None:
    special = set(vars(own.special).values()) - {own.special.unknown}
    (sheet,) = Labels(own, ("a", "b"), 60, ("accuracy",), 0.0).sheets(
        [Labelled("", "", ("[MASK] ka [SEP]",))]
    )
    assert special.isdisjoint(sheet.samples[0].ids[0][1:-1].tolist())
    spans = Spans(own, ReadingTask(), 60, 0.0, maybe_none=False, answerable=False)
    (sheet,) = spans.sheets([Question("", "", "[SEP]?", "[MASK] ka [CLS] lo")])
    inside = sheet.samples[0].ids[0].tolist()
    assert [one for one in inside if one in special] == [own.special.opening, *[own.special.closing] * 2]


def test_a_label_that_is_new_is_refused_with_its_place(own: Tokenizer) -> None:
    kind = Labels(own, ("good", "bad"), 20, ("accuracy",), 0.0)
    with pytest.raises(InputError, match=r"a.csv, line 3: label fine is new; the model knows good, bad"):
        kind.sheets([Labelled("a.csv, line 3", "1", ("x",), "fine")])


def test_labels_and_numbers_are_read(own: Tokenizer) -> None:
    kind = Labels(own, ("x", "y"), 20, ("accuracy", "f1"), 0.0)
    examples = [Labelled("", str(at), ("ka",), "xy"[at % 2]) for at in range(4)]
    rows = [np.array([0.75, 0.25], np.float32), np.array([0.5, 0.5], np.float32)] * 2
    answers = [kind.answer(one, None, [row]) for one, row in zip(examples, rows, strict=True)]  # type: ignore[arg-type]
    assert answers[0] == {"label": "x", "probability": 0.75, "probabilities": {"x": 0.75, "y": 0.25}}
    assert kind.assess(examples, answers) == {"accuracy": 0.5, "f1": 0.0}
    assert kind.collapsed(examples * 5, answers * 5) == "every answer is x"
    assert kind.collapsed(examples, answers) is None  # too few to judge by
    assert (
        kind.collapsed(examples[:1] * 19 + examples[1:2], answers * 5) is None
    )  # that is nearly all there is
    numbers = Numbers(own, 20, ("pearson",), 0.0)
    valued = [Labelled("", "", ("ka",), value=float(at)) for at in range(4)]
    same = [{"value": 1.5 + 0.001 * at} for at in range(4)]
    assert numbers.collapsed(valued * 5, same * 5) == "every answer is about 1.5"
    assert numbers.assess(valued, [{"value": 2.0 * at} for at in range(4)]) == pytest.approx({"pearson": 1.0})
    with pytest.raises(InputError, match="line 1: has no label, which training and scoring need"):
        kind.assess([Labelled("line 1", "", ("ka",))], answers[:1])


def test_every_word_has_a_tag_however_long_the_sentence(own: Tokenizer) -> None:
    words = tuple(" ".join(made_up(3, 8)).split())
    tags = tuple("AB"[len(word) % 2] for word in words)
    kind = Tags(own, ("A", "B"), 24, 0.0)
    (sheet,) = kind.sheets([Tagged("", "", words, tags)])
    assert len(sheet.samples) > 2
    assert all(len(one.ids[0]) <= 24 for one in sheet.samples)
    whole = own.batch(list(words))
    assert [id_ for one in sheet.samples for id_ in one.ids[0][1:-1].tolist()] == [
        i for w in whole for i in w
    ]
    rows = []
    for sample in sheet.samples:  # as if the network knew
        each = np.zeros((len(sample.ids[0]), 2), np.float32)
        each[np.arange(len(each)), np.maximum(sample.target[0], 0)] = 1
        rows.append(each.reshape(-1))
    answer = kind.answer(Tagged("", "", words), sheet, rows)
    assert tuple(answer["tags"]) == tags
    assert kind.counts(sheet.samples) == (len(words),)
    (untold,) = kind.sheets([Tagged("", "", words)])
    assert kind.answer(Tagged("", "", words), untold, rows)["tags"] == answer["tags"]


def test_a_word_of_nothing_is_a_word_all_the_same(own: Tokenizer) -> None:
    kind = Tags(own, ("A", "B"), 24, 0.0)
    (sheet,) = kind.sheets([Tagged("", "", ("ka", "\u200d", "lo"), ("A", "B", "A"))])
    assert kind.counts(sheet.samples) == (3,)


def test_question_and_option_stay_whole(own: Tokenizer) -> None:
    passage, question, options = " ".join(made_up(1, 30)), "ka lo mi?", ("ren tas", "vu", "dor wel shi gon")
    (sheet,) = Choices(own, 3, 40, 0.0).sheets([Choice("", "", passage, question, options, 1)])
    (sample,) = sheet.samples
    for ids, types, option in zip(sample.ids, sample.types, options, strict=True):
        assert len(ids) == 40
        asked = own.ids(question) + own.ids(option)
        assert ids[types == 1].tolist() == [*asked, own.special.closing]
        assert ids[types == 0].tolist()[1:-1] == own.ids(passage)[: 40 - 3 - len(asked)]
    with pytest.raises(InputError, match="b: 2 options, where others have 3"):
        Choices(own, 3, 40, 0.0).sheets([Choice("b", "", passage, question, options[:2], 1)])


# Spans.


def spans_of(own: Tokenizer, **changes: Any) -> Spans:
    reading = ReadingTask(stride=10, question_length=8, answer_length=6, best=5)
    given_ = {"maybe_none": False, "answerable": False, **changes}
    return Spans(own, reading, 40, 0.0, **given_)


def knowing(kind: Spans, sheet: Any, strength: float = 5.0) -> list[Any]:
    """Return the scores of a network that knows where the answers are."""
    strip = strip_of(sheet.samples)
    start, end = torch.zeros(2, len(strip.tokens))
    for at, sample in enumerate(sheet.samples):
        base = int(strip.offsets[at])
        start[base + sample.target.start] += strength
        end[base + sample.target.end] += strength
    answerable = torch.tensor([4.0 * sample.target.answerable - 2 for sample in sheet.samples])
    output = SpanOutput(start, end, answerable if kind.head.answerable else None, None)
    return kind.rows(output, strip)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_an_answer_comes_back_as_the_passage_has_it(own: Tokenizer, data: st.DataObject) -> None:
    words_ = data.draw(
        st.lists(
            st.sampled_from(
                ["ka", "Lo", "MIREN", "é", "cafe\u0301", "“tas”", "1,000", "vu,", "dor-wel", "ß", "  "]
            ),
            min_size=1,
            max_size=60,
        )
    )
    passage = " ".join(words_)
    places = [at for at, one in enumerate(passage) if at == 0 or passage[at - 1] == " "]
    start = data.draw(st.sampled_from(places))
    rest = passage[start:].split()
    if not rest or passage[start] == " ":
        return
    text = rest[0]
    kind = spans_of(own)
    example = Question("", "q", "ka lo?", passage, (Answer(text, start),))
    (sheet,) = kind.sheets([example])
    # Every token of the passage is best in one window, and windows overlap as asked.
    best = [window.spans[flag] for window in sheet.notes for flag in [window.best]]
    assert sum(len(one) for one in best) == len(own.placed([passage])[0][0])
    found = [one.target for one in sheet.samples if one.target.answerable]
    if not found or kind._reading.answer_length < found[0].end - found[0].start + 1:
        return
    answer = kind.answer(example, sheet, knowing(kind, sheet))
    assert answer["answer"] == text
    assert answer["start"] == start
    assert answer["best"][0]["text"] == text


def test_windows_slide_over_a_long_passage(own: Tokenizer) -> None:
    passage = " ".join(made_up(5, 20))
    place = passage.index(" ", len(passage) // 2) + 1
    text = passage[place:].split()[0]
    kind = spans_of(own)
    (sheet,) = kind.sheets([Question("", "", "ka?", passage, (Answer(text, place),))])
    firsts = [window.spans[0, 0] for window in sheet.notes]
    assert len(firsts) > 3
    assert all(a < b for a, b in pairwise(firsts))
    assert all(len(one.ids[0]) <= 40 for one in sheet.samples)
    assert sheet.notes[-1].spans[-1, 1] == len(passage)
    told = [one.target for one in sheet.samples]
    assert 1 <= sum(one.answerable for one in told) < len(told)
    assert all(one == Target(0, 0, 0) for one in told if not one.answerable)


def test_an_answer_is_no_longer_than_allowed(own: Tokenizer) -> None:
    kind = spans_of(own)
    passage = " ".join(made_up(6, 2))
    example = Question("", "", "ka?", passage, (Answer(passage, 0),))
    (sheet,) = kind.sheets([replace(example, passage=passage[:60], answers=(Answer(passage[:60], 0),))])
    answer = kind.answer(replace(example, passage=passage[:60]), sheet, knowing(kind, sheet))
    tokens = own.placed([answer["answer"]])[0][0]
    assert len(tokens) <= 6


@pytest.mark.parametrize("answerable", [True, False])
def test_no_answer_is_an_answer(own: Tokenizer, answerable: bool) -> None:
    kind = spans_of(own, maybe_none=True, answerable=answerable)
    passage = "Ka has the lo. Mi has no lo."
    examples = [
        Question("", "1", "Who?", passage, (Answer("Ka", 0),)),
        Question("", "2", "Where?", passage, ()),
        Question("", "3", "Who not?", passage, (Answer("Mi", 15),)),
    ]
    sheets = kind.sheets(examples)
    answers = [
        kind.answer(one, sheet, knowing(kind, sheet)) for one, sheet in zip(examples, sheets, strict=True)
    ]
    assert [one["answer"] for one in answers] == ["Ka", "", "Mi"]
    assert answers[1]["no_answer"] > answers[0]["no_answer"]
    # A network that is always sure can still be told apart by a threshold that dev gives.
    doubtful = [{**one, "no_answer": one["no_answer"] + 50} for one in answers]
    assert kind.settle(examples, doubtful)
    assert kind.threshold >= 40
    assert kind.assess(examples, doubtful)["f1"] == 1.0
    assert kind.collapsed(examples * 7, [{"answer": ""}] * 21) == "every answer is none"


def test_an_empty_passage_has_no_answer(own: Tokenizer) -> None:
    kind = spans_of(own)
    example = Question("", "", "Who?", " ")
    (sheet,) = kind.sheets([example])
    strip = strip_of(sheet.samples)
    scores = SpanOutput(torch.zeros(len(strip.tokens)), torch.zeros(len(strip.tokens)), None, None)
    assert kind.answer(example, sheet, kind.rows(scores, strip))["answer"] == ""
