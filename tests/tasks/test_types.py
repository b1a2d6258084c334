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
from albertine.model.span_head import SpanOutput
from albertine.tasks.examples import (
    AnswerText,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from albertine.tasks.sequences import strip_from_samples
from albertine.tasks.settings import SequenceSettings
from albertine.tasks.types.classification import Classification
from albertine.tasks.types.multiple_choice import MultipleChoice
from albertine.tasks.types.passage_windows import AnswerPosition
from albertine.tasks.types.regression import Regression
from albertine.tasks.types.span_extraction import SpanExtraction
from albertine.tasks.types.tagging import Tagging
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from tests.conftest import made_up_sentences

texts = st.lists(
    st.sampled_from([*"kalomi renTAS", " ", "é", "Ç", '"', ".", "1,2", "漢", "[MASK]"]), max_size=40
).map("".join)


@pytest.fixture(scope="module")
def our_tokenizer(tokenizer: Path) -> Tokenizer:
    return load_tokenizer(tokenizer)


@pytest.fixture(scope="module")
def hf_tokenizer(tokenizer: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(tokenizer)


@given(one=texts, other=texts, length=st.integers(8, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_single_and_pair_inputs_match_transformers(
    our_tokenizer: Tokenizer, hf_tokenizer: Any, one: str, other: str, length: int
) -> None:
    if "[MASK]" in one + other:  # to them that is one piece; to us, what a person wrote
        one, other = (text.replace("[MASK]", "mask") for text in (one, other))
    other = other or "ka"  # an empty second text is none to them
    kind = Classification(our_tokenizer, ("a", "b"), length, ("accuracy",), 0.0)
    alone, pair = kind.encode([TextExample("", "", (one,), "a"), TextExample("", "", (one, other), "b")])
    for sheet, given_ in ((alone, (one,)), (pair, (one, other))):
        expected = hf_tokenizer(*given_, truncation=True, max_length=length)
        (sample,) = sheet.samples
        assert len(sample.ids[0]) <= length
        assert sample.ids[0].tolist() == expected["input_ids"]
        assert sample.segments[0].tolist() == expected["token_type_ids"]
    assert [sheet.samples[0].target for sheet in (alone, pair)] == [0, 1]


def test_special_tokens_in_text_are_encoded_as_unknown(our_tokenizer: Tokenizer) -> None:
    special = set(vars(our_tokenizer.special_ids).values()) - {our_tokenizer.special_ids.unk}
    (sheet,) = Classification(our_tokenizer, ("a", "b"), 60, ("accuracy",), 0.0).encode(
        [TextExample("", "", ("[MASK] ka [SEP]",))]
    )
    assert special.isdisjoint(sheet.samples[0].ids[0][1:-1].tolist())
    spans = SpanExtraction(
        our_tokenizer, SequenceSettings(), 60, 0.0, allows_no_answer=False, answerable=False
    )
    (sheet,) = spans.encode([QuestionExample("", "", "[SEP]?", "[MASK] ka [CLS] lo")])
    inside = sheet.samples[0].ids[0].tolist()
    assert [one for one in inside if one in special] == [
        our_tokenizer.special_ids.cls,
        *[our_tokenizer.special_ids.sep] * 2,
    ]


def test_unknown_label_is_an_error_with_location(our_tokenizer: Tokenizer) -> None:
    kind = Classification(our_tokenizer, ("good", "bad"), 20, ("accuracy",), 0.0)
    with pytest.raises(InputError, match=r"a.csv, line 3: label fine is new; the model knows good, bad"):
        kind.encode([TextExample("a.csv, line 3", "1", ("x",), "fine")])


def test_classification_and_regression_predictions(our_tokenizer: Tokenizer) -> None:
    kind = Classification(our_tokenizer, ("x", "y"), 20, ("accuracy", "f1"), 0.0)
    examples = [TextExample("", str(at), ("ka",), "xy"[at % 2]) for at in range(4)]
    rows = [np.array([0.75, 0.25], np.float32), np.array([0.5, 0.5], np.float32)] * 2
    answers = [kind.prediction(one, None, [row]) for one, row in zip(examples, rows, strict=True)]  # type: ignore[arg-type]
    assert answers[0] == {"label": "x", "probability": 0.75, "probabilities": {"x": 0.75, "y": 0.25}}
    assert kind.compute_metrics(examples, answers) == {"accuracy": 0.5, "f1": 0.0}
    assert kind.collapse_reason(examples * 5, answers * 5) == "every prediction is x"
    assert kind.collapse_reason(examples, answers) is None  # too few to judge by
    assert (
        kind.collapse_reason(examples[:1] * 19 + examples[1:2], answers * 5) is None
    )  # that is nearly all there is
    numbers = Regression(our_tokenizer, 20, ("pearson",), 0.0)
    valued = [TextExample("", "", ("ka",), value=float(at)) for at in range(4)]
    same = [{"value": 1.5 + 0.001 * at} for at in range(4)]
    assert numbers.collapse_reason(valued * 5, same * 5) == "every prediction is about 1.5"
    assert numbers.compute_metrics(valued, [{"value": 2.0 * at} for at in range(4)]) == pytest.approx(
        {"pearson": 1.0}
    )
    with pytest.raises(InputError, match="line 1: has no label, which training and evaluation need"):
        kind.compute_metrics([TextExample("line 1", "", ("ka",))], answers[:1])


def test_long_sentences_are_split_and_every_word_is_tagged(our_tokenizer: Tokenizer) -> None:
    words = tuple(" ".join(made_up_sentences(3, 8)).split())
    tags = tuple("AB"[len(word) % 2] for word in words)
    kind = Tagging(our_tokenizer, ("A", "B"), 24, 0.0)
    (sheet,) = kind.encode([TaggedExample("", "", words, tags)])
    assert len(sheet.samples) > 2
    assert all(len(one.ids[0]) <= 24 for one in sheet.samples)
    whole = our_tokenizer.encode_batch(list(words))
    assert [id_ for one in sheet.samples for id_ in one.ids[0][1:-1].tolist()] == [
        i for w in whole for i in w
    ]
    rows = []
    for sample in sheet.samples:  # as if the network knew
        each = np.zeros((len(sample.ids[0]), 2), np.float32)
        each[np.arange(len(each)), np.maximum(sample.target[0], 0)] = 1
        rows.append(each.reshape(-1))
    answer = kind.prediction(TaggedExample("", "", words), sheet, rows)
    assert tuple(answer["tags"]) == tags
    assert kind.target_counts(sheet.samples) == (len(words),)
    (untold,) = kind.encode([TaggedExample("", "", words)])
    assert kind.prediction(TaggedExample("", "", words), untold, rows)["tags"] == answer["tags"]


def test_word_without_tokens_is_encoded_as_unknown(our_tokenizer: Tokenizer) -> None:
    kind = Tagging(our_tokenizer, ("A", "B"), 24, 0.0)
    (sheet,) = kind.encode([TaggedExample("", "", ("ka", "\u200d", "lo"), ("A", "B", "A"))])
    assert kind.target_counts(sheet.samples) == (3,)


def test_context_is_truncated_before_question_and_option(our_tokenizer: Tokenizer) -> None:
    passage, question, options = (
        " ".join(made_up_sentences(1, 30)),
        "ka lo mi?",
        ("ren tas", "vu", "dor wel shi gon"),
    )
    (sheet,) = MultipleChoice(our_tokenizer, 3, 40, 0.0).encode(
        [MultipleChoiceExample("", "", passage, question, options, 1)]
    )
    (sample,) = sheet.samples
    for ids, types, option in zip(sample.ids, sample.segments, options, strict=True):
        assert len(ids) == 40
        asked = our_tokenizer.encode(question, add_special_tokens=False) + our_tokenizer.encode(
            option, add_special_tokens=False
        )
        assert ids[types == 1].tolist() == [*asked, our_tokenizer.special_ids.sep]
        assert (
            ids[types == 0].tolist()[1:-1]
            == our_tokenizer.encode(passage, add_special_tokens=False)[: 40 - 3 - len(asked)]
        )
    with pytest.raises(InputError, match="b: 2 options, where others have 3"):
        MultipleChoice(our_tokenizer, 3, 40, 0.0).encode(
            [MultipleChoiceExample("b", "", passage, question, options[:2], 1)]
        )


# Spans.


def span_extraction(own: Tokenizer, **changes: Any) -> SpanExtraction:
    reading = SequenceSettings(stride=10, max_question_length=8, max_answer_length=6, num_candidates=5)
    given_ = {"allows_no_answer": False, "answerable": False, **changes}
    return SpanExtraction(own, reading, 40, 0.0, **given_)


def oracle_scores(kind: SpanExtraction, sheet: Any, strength: float = 5.0) -> list[Any]:
    """Return the scores of a network that knows where the answers are."""
    strip = strip_from_samples(sheet.samples)
    start, end = torch.zeros(2, len(strip.tokens))
    for at, sample in enumerate(sheet.samples):
        base = int(strip.offsets[at])
        start[base + sample.target.start] += strength
        end[base + sample.target.end] += strength
    answerable = torch.tensor([4.0 * sample.target.answerable - 2 for sample in sheet.samples])
    output = SpanOutput(start, end, answerable if kind.head_settings.answerable else None, None)
    return kind.sample_scores(output, strip)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_answer_is_a_verbatim_substring_of_the_context(our_tokenizer: Tokenizer, data: st.DataObject) -> None:
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
    kind = span_extraction(our_tokenizer)
    example = QuestionExample("", "q", "ka lo?", passage, (AnswerText(text, start),))
    (sheet,) = kind.encode([example])
    # Every token of the passage is best in one window, and windows overlap as asked.
    best = [window.char_offsets[flag] for window in sheet.details for flag in [window.is_max_context]]
    assert sum(len(one) for one in best) == len(our_tokenizer.encode_with_offsets([passage])[0][0])
    found = [one.target for one in sheet.samples if one.target.answerable]
    if not found or kind._sequence.max_answer_length < found[0].end - found[0].start + 1:
        return
    answer = kind.prediction(example, sheet, oracle_scores(kind, sheet))
    assert answer["answer"] == text
    assert answer["start"] == start
    assert answer["candidates"][0]["text"] == text


def test_long_context_is_split_into_overlapping_windows(our_tokenizer: Tokenizer) -> None:
    passage = " ".join(made_up_sentences(5, 20))
    place = passage.index(" ", len(passage) // 2) + 1
    text = passage[place:].split()[0]
    kind = span_extraction(our_tokenizer)
    (sheet,) = kind.encode([QuestionExample("", "", "ka?", passage, (AnswerText(text, place),))])
    firsts = [window.char_offsets[0, 0] for window in sheet.details]
    assert len(firsts) > 3
    assert all(a < b for a, b in pairwise(firsts))
    assert all(len(one.ids[0]) <= 40 for one in sheet.samples)
    assert sheet.details[-1].char_offsets[-1, 1] == len(passage)
    told = [one.target for one in sheet.samples]
    assert 1 <= sum(one.answerable for one in told) < len(told)
    assert all(one == AnswerPosition(0, 0, 0) for one in told if not one.answerable)


def test_max_answer_length(our_tokenizer: Tokenizer) -> None:
    kind = span_extraction(our_tokenizer)
    passage = " ".join(made_up_sentences(6, 2))
    example = QuestionExample("", "", "ka?", passage, (AnswerText(passage, 0),))
    (sheet,) = kind.encode([replace(example, context=passage[:60], answers=(AnswerText(passage[:60], 0),))])
    answer = kind.prediction(replace(example, context=passage[:60]), sheet, oracle_scores(kind, sheet))
    tokens = our_tokenizer.encode_with_offsets([answer["answer"]])[0][0]
    assert len(tokens) <= 6


@pytest.mark.parametrize("answerable", [True, False])
def test_unanswerable_questions_and_threshold(our_tokenizer: Tokenizer, answerable: bool) -> None:
    kind = span_extraction(our_tokenizer, allows_no_answer=True, answerable=answerable)
    passage = "Ka has the lo. Mi has no lo."
    examples = [
        QuestionExample("", "1", "Who?", passage, (AnswerText("Ka", 0),)),
        QuestionExample("", "2", "Where?", passage, ()),
        QuestionExample("", "3", "Who not?", passage, (AnswerText("Mi", 15),)),
    ]
    sheets = kind.encode(examples)
    answers = [
        kind.prediction(one, sheet, oracle_scores(kind, sheet))
        for one, sheet in zip(examples, sheets, strict=True)
    ]
    assert [one["answer"] for one in answers] == ["Ka", "", "Mi"]
    assert answers[1]["no_answer_score"] > answers[0]["no_answer_score"]
    # A network that is always sure can still be told apart by a threshold that dev gives.
    doubtful = [{**one, "no_answer_score": one["no_answer_score"] + 50} for one in answers]
    assert kind.fit_threshold(examples, doubtful)
    assert kind.no_answer_threshold >= 40
    assert kind.compute_metrics(examples, doubtful)["f1"] == 1.0
    assert kind.collapse_reason(examples * 7, [{"answer": ""}] * 21) == "every prediction is none"


def test_empty_context_gives_empty_answer(our_tokenizer: Tokenizer) -> None:
    kind = span_extraction(our_tokenizer)
    example = QuestionExample("", "", "Who?", " ")
    (sheet,) = kind.encode([example])
    strip = strip_from_samples(sheet.samples)
    scores = SpanOutput(torch.zeros(len(strip.tokens)), torch.zeros(len(strip.tokens)), None, None)
    assert kind.prediction(example, sheet, kind.sample_scores(scores, strip))["answer"] == ""
