"""Tests of the task types: sequences equal those of `transformers`, and scores give predictions."""

import math
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
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.span_head import SpanOutput
from albertine.tasks.examples import (
    AnswerText,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from albertine.tasks.sequences import EncodedExample, strip_from_samples
from albertine.tasks.settings import SequenceSettings
from albertine.tasks.types.classification import Classification
from albertine.tasks.types.multiple_choice import MultipleChoice
from albertine.tasks.types.passage_windows import AnswerPosition
from albertine.tasks.types.regression import Regression
from albertine.tasks.types.span_extraction import SpanExtraction
from albertine.tasks.types.tagging import Tagging
from albertine.tasks.types.task_type import SampleScores, unknown_label_error
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from tests.conftest import made_up_sentences

texts = st.lists(
    st.sampled_from([*"kalomi renTAS", " ", "é", "Ç", '"', ".", "1,2", "漢", "[MASK]"]), max_size=40
).map("".join)


@pytest.fixture(scope="module")
def albertine_tokenizer(tokenizer: Path) -> Tokenizer:
    return load_tokenizer(tokenizer)


@pytest.fixture(scope="module")
def hf_tokenizer(tokenizer: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(tokenizer)


@given(first=texts, second=texts, max_length=st.integers(8, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_single_and_pair_inputs_match_transformers(
    albertine_tokenizer: Tokenizer, hf_tokenizer: Any, first: str, second: str, max_length: int
) -> None:
    # `transformers` encodes "[MASK]" in a text as the special token, and leaves out an empty second text, but
    # not one without tokens.
    first, second = (text.replace("[MASK]", "mask") for text in (first, second))
    if not albertine_tokenizer.encode(second, add_special_tokens=False):
        second = ""
    task_type = Classification(albertine_tokenizer, ("a", "b"), max_length, ("accuracy",), 0.0)
    single, pair = task_type.encode(
        [TextExample("", "", (first,), "a"), TextExample("", "", (first, second), "b")]
    )
    for encoded, inputs in ((single, (first,)), (pair, (first, second))):
        expected = hf_tokenizer(*inputs, truncation=True, max_length=max_length)
        (sample,) = encoded.samples
        assert len(sample.ids[0]) <= max_length
        assert sample.ids[0].tolist() == expected["input_ids"]
        assert sample.segments[0].tolist() == expected["token_type_ids"]
    assert [encoded.samples[0].target for encoded in (single, pair)] == [0, 1]


@pytest.mark.parametrize("second", ["", " "])
def test_second_text_without_tokens_is_left_out(albertine_tokenizer: Tokenizer, second: str) -> None:
    task_type = Regression(albertine_tokenizer, 20, ("pearson",), 0.0)
    single, pair = task_type.encode([TextExample("", "", ("ka lo",)), TextExample("", "", ("ka lo", second))])
    assert pair.samples[0].ids[0].tolist() == single.samples[0].ids[0].tolist()
    assert not pair.samples[0].segments[0].any()


def test_truncated_tokens_are_counted(albertine_tokenizer: Tokenizer) -> None:
    def num_tokens(text: str) -> int:
        return len(albertine_tokenizer.encode(text, add_special_tokens=False))

    short, long = "ka lo", " ".join(made_up_sentences(1, 30))
    classification = Classification(albertine_tokenizer, ("a", "b"), 40, ("accuracy",), 0.0)
    examples = [TextExample("", "", texts) for texts in ((short,), (long,), (short, long), (short, ""))]
    assert [encoded.num_truncated_tokens for encoded in classification.encode(examples)] == [
        0,
        num_tokens(long) + 2 - 40,
        num_tokens(short) + num_tokens(long) + 3 - 40,
        0,
    ]
    choice = MultipleChoice(albertine_tokenizer, 2, 40, 0.0)
    questions = [MultipleChoiceExample("", "", context, "mi?", ("vu", short)) for context in (short, long)]
    longest = num_tokens(long) + num_tokens("mi?") + num_tokens(short) + 3
    assert [encoded.num_truncated_tokens for encoded in choice.encode(questions)] == [0, longest - 40]
    # A long passage is read in windows, and a long sentence in parts: only a question or a word is truncated.
    span = span_extraction(albertine_tokenizer)
    spans = [QuestionExample("", "", question, long) for question in ("ka?", long)]
    assert [encoded.num_truncated_tokens for encoded in span.encode(spans)] == [0, num_tokens(long) - 8]
    tagging = Tagging(albertine_tokenizer, ("A", "B"), 24, 0.0)
    long_word = "kalomi" * 20
    sentences = [TaggedExample("", "", words) for words in (tuple(long.split()), ("ka", long_word))]
    assert [encoded.num_truncated_tokens for encoded in tagging.encode(sentences)] == [
        0,
        num_tokens(long_word) + 2 - 24,
    ]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"context": ["ka", "lo"], "options": ["mi", "vu"]}, "context: 2 texts for 1 list of options"),
        ({"question": ["ka"], "options": [["mi", "vu"]] * 2}, "question: 1 text for 2 lists of options"),
        ({"options": [["mi", "vu"], "lo"]}, "options: must be a list of texts, or a list of such lists"),
        ({"options": {"a": "mi"}}, "options: must be a list of texts, or a list of such lists"),
    ],
)
def test_inconsistent_inputs_of_multiple_choice(
    inputs: dict[str, Any], message: str, albertine_tokenizer: Tokenizer
) -> None:
    with pytest.raises(InputError, match=message):
        MultipleChoice(albertine_tokenizer, 2, 40, 0.0).parse_inputs(inputs)


def test_special_tokens_in_text_are_encoded_as_unknown(albertine_tokenizer: Tokenizer) -> None:
    special = set(vars(albertine_tokenizer.special_ids).values()) - {albertine_tokenizer.special_ids.unk}
    (encoded,) = Classification(albertine_tokenizer, ("a", "b"), 60, ("accuracy",), 0.0).encode(
        [TextExample("", "", ("[MASK] ka [SEP]",))]
    )
    assert special.isdisjoint(encoded.samples[0].ids[0][1:-1].tolist())
    span_extraction = SpanExtraction(
        albertine_tokenizer, SequenceSettings(), 60, 0.0, allows_no_answer=False, answerable=False
    )
    (encoded,) = span_extraction.encode([QuestionExample("", "", "[SEP]?", "[MASK] ka [CLS] lo")])
    ids = encoded.samples[0].ids[0].tolist()
    assert [token_id for token_id in ids if token_id in special] == [
        albertine_tokenizer.special_ids.cls,
        *[albertine_tokenizer.special_ids.sep] * 2,
    ]


def test_unknown_label_is_an_error_with_location(albertine_tokenizer: Tokenizer) -> None:
    task_type = Classification(albertine_tokenizer, ("good", "bad"), 20, ("accuracy",), 0.0)
    message = r"a.csv, line 3: label fine is not one of the model's: good, bad; correct it, or remove such"
    with pytest.raises(InputError, match=message):
        task_type.encode([TextExample("a.csv, line 3", "1", ("x",), "fine")])
    with pytest.raises(InputError, match="good, bad; write good"):
        task_type.encode([TextExample("a.csv, line 3", "1", ("x",), "Good")])


@pytest.mark.parametrize(
    ("label", "known", "has_advice"),
    [
        ("1", ("bad", "good"), True),
        ("2", ("bad", "good"), False),
        ("1" * 5000, ("bad", "good"), False),
        ("²", ("bad", "good"), False),
        ("1", ("bad", "3"), False),
    ],
)
def test_numbers_in_place_of_label_names_are_explained(
    label: str, known: tuple[str, ...], has_advice: bool
) -> None:
    message = str(unknown_label_error("a.csv, line 3", "label", label, known))
    assert ("the rows have numbers where the model has names" in message) == has_advice
    assert ("correct it, or remove such rows" in message) != has_advice


def test_classification_predictions(albertine_tokenizer: Tokenizer) -> None:
    task_type = Classification(albertine_tokenizer, ("x", "y"), 20, ("accuracy", "f1"), 0.0)
    examples = [TextExample("", str(index), ("ka",), "xy"[index % 2]) for index in range(4)]
    scores = [np.array([0.75, 0.25], np.float32), np.array([0.5, 0.5], np.float32)] * 2
    predictions = [
        task_type.prediction(example, None, [probabilities])  # type: ignore[arg-type]  # not used
        for example, probabilities in zip(examples, scores, strict=True)
    ]
    assert predictions[0] == {"label": "x", "probability": 0.75, "probabilities": {"x": 0.75, "y": 0.25}}
    assert task_type.compute_metrics(examples, predictions) == {"accuracy": 0.5, "f1": 0.0}
    assert task_type.collapse_reason(examples * 5, predictions * 5, 0.5) == "every prediction is x"
    too_few = task_type.collapse_reason(examples, predictions, 0.5)
    assert too_few is None
    nearly_one_label = examples[:1] * 19 + examples[1:2]
    entropy = -0.95 * math.log(0.95) - 0.05 * math.log(0.05)
    assert task_type.collapse_reason(nearly_one_label, predictions * 5, 0.9 * entropy) is None
    for loss in (entropy, 0.995 * entropy, math.nan):
        reason = task_type.collapse_reason(nearly_one_label, predictions * 5, loss)
        assert reason == "every prediction is x"
    assert task_type.collapse_reason(examples[:1] * 20, predictions * 5, 0.5) is None
    always_rare = [{"label": "y"}] * 20
    assert task_type.collapse_reason(nearly_one_label, always_rare, 0.1) == "every prediction is y"
    with pytest.raises(InputError, match="line 1: has no label, which training and evaluation need"):
        task_type.compute_metrics([TextExample("line 1", "", ("ka",))], predictions[:1])


def test_regression_predictions(albertine_tokenizer: Tokenizer) -> None:
    task_type = Regression(albertine_tokenizer, 20, ("pearson",), 0.0)
    examples = [TextExample("", "", ("ka",), value=float(index)) for index in range(4)]
    nearly_same = [{"value": 1.5 + 0.001 * index} for index in range(4)]
    assert task_type.collapse_reason(examples * 5, nearly_same * 5, 1.0) == "every prediction is about 1.502"
    proportional = [{"value": 2.0 * index} for index in range(4)]
    assert task_type.compute_metrics(examples, proportional) == pytest.approx({"pearson": 1.0})


def test_regression_standardizes_targets_and_folds_them_into_saved_weights(
    albertine_tokenizer: Tokenizer,
) -> None:
    task_type = Regression(albertine_tokenizer, 20, ("rmse",), 0.0)
    examples = [TextExample("", "", ("ka",), value=value) for value in (1813.0, 1851.0, 1922.0)]
    samples = [encoded.samples[0] for encoded in task_type.encode(examples)]
    assert task_type.target_transform == {}
    task_type.fit_target_transform(samples, "novels.csv")
    targets = task_type.targets(samples)
    assert float(targets.mean()) == pytest.approx(0, abs=1e-6)
    assert float(targets.std(correction=0)) == pytest.approx(1)
    pooled, weight, bias = torch.randn(3, 8), torch.randn(1, 8), torch.randn(1)
    saved = task_type.weights_to_save({"head.out.weight": weight, "head.out.bias": bias})
    standardized = torch.nn.functional.linear(pooled, weight, bias).squeeze(1)
    numbers = torch.nn.functional.linear(pooled, saved["head.out.weight"], saved["head.out.bias"]).squeeze(1)
    scores = task_type.sample_scores(PredictionOutput(standardized, None), None)  # type: ignore[arg-type]
    assert np.concatenate(scores) == pytest.approx(numbers.numpy(), rel=1e-5)
    nearly_same = [{"value": 1900 + 0.01 * index} for index in range(30)]
    collapse_reason = task_type.collapse_reason(examples * 10, nearly_same, 1.0)
    assert collapse_reason == "every prediction is about 1900"


def test_multiple_choice_that_always_gives_one_option(albertine_tokenizer: Tokenizer) -> None:
    task_type = MultipleChoice(albertine_tokenizer, 2, 40, 0.0)
    examples = [MultipleChoiceExample("", "", "", "", ("ka", "lo"), int(index == 0)) for index in range(20)]
    assert task_type.collapse_reason(examples, [{"option": 0}] * 20, 0.1) is None  # right in 19 cases
    assert task_type.collapse_reason(examples, [{"option": 1}] * 20, 0.1) == "every prediction is option B"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((3.0, 3.0), "a.csv: all numbers are 3; there must be at least two"),
        ((1.0, -1e200), "a.csv: the number -1e.200 is too large; divide all numbers"),
    ],
)
def test_numbers_that_cannot_be_standardized(
    albertine_tokenizer: Tokenizer, values: tuple[float, ...], message: str
) -> None:
    task_type = Regression(albertine_tokenizer, 20, ("rmse",), 0.0)
    encoded = task_type.encode([TextExample("", "", ("ka",), value=value) for value in values])
    with pytest.raises(InputError, match=message):
        task_type.fit_target_transform([one.samples[0] for one in encoded], "a.csv")


def test_long_sentences_are_split_and_every_word_is_tagged(albertine_tokenizer: Tokenizer) -> None:
    words = tuple(" ".join(made_up_sentences(3, 8)).split())
    tags = tuple("AB"[len(word) % 2] for word in words)
    task_type = Tagging(albertine_tokenizer, ("A", "B"), 24, 0.0)
    (encoded,) = task_type.encode([TaggedExample("", "", words, tags)])
    assert len(encoded.samples) > 2
    assert all(len(sample.ids[0]) <= 24 for sample in encoded.samples)
    expected_ids = [token_id for ids in albertine_tokenizer.encode_batch(list(words)) for token_id in ids]
    ids_without_special = [sample.ids[0][1:-1].tolist() for sample in encoded.samples]
    assert [token_id for ids in ids_without_special for token_id in ids] == expected_ids
    correct_scores = []
    for sample in encoded.samples:
        probabilities = np.zeros((len(sample.ids[0]), 2), np.float32)
        probabilities[np.arange(len(probabilities)), np.maximum(sample.target[0], 0)] = 1
        correct_scores.append(probabilities.reshape(-1))
    unlabeled = TaggedExample("", "", words)
    prediction = task_type.prediction(unlabeled, encoded, correct_scores)
    assert tuple(prediction["tags"]) == tags
    assert task_type.target_counts(encoded.samples) == (len(words),)
    (encoded_unlabeled,) = task_type.encode([unlabeled])
    assert task_type.prediction(unlabeled, encoded_unlabeled, correct_scores) == prediction


def test_word_without_tokens_is_encoded_as_unknown(albertine_tokenizer: Tokenizer) -> None:
    task_type = Tagging(albertine_tokenizer, ("A", "B"), 24, 0.0)
    (encoded,) = task_type.encode([TaggedExample("", "", ("ka", "\u200d", "lo"), ("A", "B", "A"))])
    assert task_type.target_counts(encoded.samples) == (3,)


def test_context_is_truncated_before_question_and_option(albertine_tokenizer: Tokenizer) -> None:
    passage, question = " ".join(made_up_sentences(1, 30)), "ka lo mi?"
    options = ("ren tas", "vu", "dor wel shi gon")
    task_type = MultipleChoice(albertine_tokenizer, 3, 40, 0.0)
    (encoded,) = task_type.encode([MultipleChoiceExample("", "", passage, question, options, 1)])
    (sample,) = encoded.samples
    passage_ids, question_ids = (
        albertine_tokenizer.encode(text, add_special_tokens=False) for text in (passage, question)
    )
    for ids, segments, option in zip(sample.ids, sample.segments, options, strict=True):
        assert len(ids) == 40
        second_ids = question_ids + albertine_tokenizer.encode(option, add_special_tokens=False)
        assert ids[segments == 1].tolist() == [*second_ids, albertine_tokenizer.special_ids.sep]
        assert ids[segments == 0].tolist()[1:-1] == passage_ids[: 40 - 3 - len(second_ids)]
    with pytest.raises(InputError, match="b: 2 options, where others have 3"):
        task_type.encode([MultipleChoiceExample("b", "", passage, question, options[:2], 1)])


@pytest.mark.parametrize("max_length", [60, 20, 12, 5])
@pytest.mark.parametrize("passage", ["", "vu ren tas dor wel shi gon ka lo mi"])
@pytest.mark.parametrize("question", ["", "ka lo mi?"])
def test_parts_are_passage_question_and_option(
    albertine_tokenizer: Tokenizer, passage: str, question: str, max_length: int
) -> None:
    options = ("ren tas", "", "dor wel shi gon")
    task_type = MultipleChoice(albertine_tokenizer, 3, max_length, 0.0)
    (encoded,) = task_type.encode([MultipleChoiceExample("", "", passage, question, options, 1)])
    (sample,) = encoded.samples
    passage_ids, question_ids = (
        albertine_tokenizer.encode(text, add_special_tokens=False) for text in (passage, question)
    )
    special = albertine_tokenizer.special_ids
    for ids, parts, option in zip(sample.ids, sample.parts, options, strict=True):
        first, second, third = (ids[start:end].tolist() for start, end in parts)
        assert ids.tolist() == [special.cls, *first, special.sep, *second, *third, special.sep]
        option_ids = albertine_tokenizer.encode(option, add_special_tokens=False)
        available = max_length - 3
        assert third == option_ids[-available:]
        assert second == (question_ids + option_ids)[-available:][: len(second)]
        assert len(second) == min(len(question_ids), available - len(third))
        assert first == passage_ids[: available - len(second) - len(third)]
    strip = strip_from_samples([sample, sample])
    assert strip.parts is not None
    assert strip.parts.tolist() == 2 * [parts.tolist() for parts in sample.parts]


# Span extraction.


def span_extraction(
    tokenizer: Tokenizer, *, allows_no_answer: bool = False, answerable: bool = False
) -> SpanExtraction:
    sequence = SequenceSettings(stride=10, max_question_length=8, max_answer_length=6, num_candidates=5)
    return SpanExtraction(
        tokenizer, sequence, 40, 0.0, allows_no_answer=allows_no_answer, answerable=answerable
    )


def correct_span_scores(task_type: SpanExtraction, encoded: EncodedExample) -> list[SampleScores]:
    """Return scores that are highest at the targets."""
    strip = strip_from_samples(encoded.samples)
    start, end = torch.zeros(2, len(strip.tokens))
    for index, sample in enumerate(encoded.samples):
        offset = int(strip.offsets[index])
        start[offset + sample.target.start] += 5.0
        end[offset + sample.target.end] += 5.0
    answerable = torch.tensor([4.0 * sample.target.answerable - 2 for sample in encoded.samples])
    output = SpanOutput(start, end, answerable if task_type.head_settings.answerable else None, None)
    return task_type.sample_scores(output, strip)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_answer_is_a_verbatim_substring_of_the_context(
    albertine_tokenizer: Tokenizer, data: st.DataObject
) -> None:
    words = data.draw(
        st.lists(
            st.sampled_from(
                ["ka", "Lo", "MIREN", "é", "cafe\u0301", "“tas”", "1,000", "vu,", "dor-wel", "ß", "  "]
            ),
            min_size=1,
            max_size=60,
        )
    )
    passage = " ".join(words)
    word_starts = [index for index in range(len(passage)) if index == 0 or passage[index - 1] == " "]
    start = data.draw(st.sampled_from(word_starts))
    remaining_words = passage[start:].split()
    if not remaining_words or passage[start] == " ":
        return
    text = remaining_words[0]
    task_type = span_extraction(albertine_tokenizer)
    example = QuestionExample("", "q", "ka lo?", passage, (AnswerText(text, start),))
    (encoded,) = task_type.encode([example])
    num_tokens = len(albertine_tokenizer.encode_with_offsets([passage])[0][0])
    assert sum(int(window.is_max_context.sum()) for window in encoded.details) == num_tokens
    targets = [sample.target for sample in encoded.samples if sample.target.answerable]
    if not targets or task_type._sequence.max_answer_length < targets[0].end - targets[0].start + 1:
        return
    prediction = task_type.prediction(example, encoded, correct_span_scores(task_type, encoded))
    assert prediction["answer"] == text
    assert prediction["start"] == start
    assert prediction["candidates"][0]["text"] == text


def test_long_context_is_split_into_overlapping_windows(albertine_tokenizer: Tokenizer) -> None:
    passage = " ".join(made_up_sentences(5, 20))
    answer_start = passage.index(" ", len(passage) // 2) + 1
    text = passage[answer_start:].split()[0]
    task_type = span_extraction(albertine_tokenizer)
    example = QuestionExample("", "", "ka?", passage, (AnswerText(text, answer_start),))
    (encoded,) = task_type.encode([example])
    window_starts = [window.char_offsets[0, 0] for window in encoded.details]
    assert len(window_starts) > 3
    assert all(a < b for a, b in pairwise(window_starts))
    assert all(len(sample.ids[0]) <= 40 for sample in encoded.samples)
    assert encoded.details[-1].char_offsets[-1, 1] == len(passage)
    targets = [sample.target for sample in encoded.samples]
    assert 1 <= sum(target.answerable for target in targets) < len(targets)
    assert all(target == AnswerPosition(0, 0, 0) for target in targets if not target.answerable)


def test_max_answer_length(albertine_tokenizer: Tokenizer) -> None:
    task_type = span_extraction(albertine_tokenizer)
    passage = "1, 2, 3, 4, 5, 6, 7, 8, 9"  # no token ends inside of a word, which would be completed
    example = QuestionExample("", "", "ka?", passage, (AnswerText(passage, 0),))
    (encoded,) = task_type.encode([example])
    prediction = task_type.prediction(example, encoded, correct_span_scores(task_type, encoded))
    tokens = albertine_tokenizer.encode_with_offsets([prediction["answer"]])[0][0]
    assert 1 <= len(tokens) <= 6


def test_an_answer_and_its_candidates_are_whole_words(albertine_tokenizer: Tokenizer) -> None:
    task_type, passage = span_extraction(albertine_tokenizer), "ka Xylophonspieler tu 1234567 mi"
    example = QuestionExample("", "", "ka?", passage, None)
    (encoded,) = task_type.encode([example])
    window = encoded.details[0]
    sample = next(iter(encoded.samples))
    for index, (start, end) in enumerate(window.char_offsets.tolist()):
        scores = np.zeros(2 * len(sample.ids[0]) + 1, np.float32)
        scores[[window.first_token + index, len(sample.ids[0]) + window.first_token + index]] = 9
        prediction = task_type.prediction(example, encoded, [scores])
        word = passage[passage.rfind(" ", 0, start + 1) + 1 :].split()[0]
        assert prediction["answer"] == word, passage[start:end]
        assert prediction["start"] == passage.index(word)
        texts = [(candidate["text"], candidate["start"]) for candidate in prediction["candidates"]]
        assert len(set(texts)) == len(texts)
        assert all(set(text.split()) <= set(passage.split()) for text, _ in texts)


@pytest.mark.parametrize("answerable", [True, False])
def test_unanswerable_questions_and_threshold(albertine_tokenizer: Tokenizer, answerable: bool) -> None:
    task_type = span_extraction(albertine_tokenizer, allows_no_answer=True, answerable=answerable)
    passage = "Ka has the lo. Mi has no lo."
    examples = [
        QuestionExample("", "1", "Who?", passage, (AnswerText("Ka", 0),)),
        QuestionExample("", "2", "Where?", passage, ()),
        QuestionExample("", "3", "Who not?", passage, (AnswerText("Mi", 15),)),
    ]
    predictions = [
        task_type.prediction(example, encoded, correct_span_scores(task_type, encoded))
        for example, encoded in zip(examples, task_type.encode(examples), strict=True)
    ]
    assert [prediction["answer"] for prediction in predictions] == ["Ka", "", "Mi"]
    assert predictions[1]["no_answer_score"] > predictions[0]["no_answer_score"]
    # If all no-answer scores are too high by the same amount, the fitted threshold corrects it.
    shifted = [
        {**prediction, "no_answer_score": prediction["no_answer_score"] + 50} for prediction in predictions
    ]
    assert task_type.fit_threshold(examples, shifted)
    assert task_type.no_answer_threshold >= 40
    assert task_type.compute_metrics(examples, shifted)["f1"] == 1.0
    assert (
        task_type.collapse_reason(examples * 7, [{"answer": ""}] * 21, 0.1) == "every prediction is no answer"
    )


def test_threshold_if_no_answer_is_worth_keeping(albertine_tokenizer: Tokenizer) -> None:
    task_type = span_extraction(albertine_tokenizer, allows_no_answer=True)
    examples = [QuestionExample("", str(index), "Who?", "Ka.", ()) for index in range(3)]
    predictions = [
        {"answer": "", "best_answer": "Ka", "no_answer_score": score} for score in (-4.0, -7.0, 2.0)
    ]
    # The official script reports 0, but the fitted threshold is below all scores.
    assert task_type.compute_metrics(examples, predictions)["best_f1_threshold"] == 0.0
    assert task_type.fit_threshold(examples, predictions)
    assert task_type.no_answer_threshold == -8.0
    assert task_type.compute_metrics(examples, predictions)["f1"] == 1.0


def test_empty_context_gives_empty_answer(albertine_tokenizer: Tokenizer) -> None:
    task_type = span_extraction(albertine_tokenizer)
    example = QuestionExample("", "", "Who?", " ")
    (encoded,) = task_type.encode([example])
    strip = strip_from_samples(encoded.samples)
    output = SpanOutput(torch.zeros(len(strip.tokens)), torch.zeros(len(strip.tokens)), None, None)
    assert task_type.prediction(example, encoded, task_type.sample_scores(output, strip))["answer"] == ""
