"""The outcome of a question about a passage: the predicted answer beside the right ones, for reports."""

from collections.abc import Mapping
from typing import Any

from albertine.tasks.examples import QuestionExample
from albertine.tasks.metrics.squad import best_scores
from albertine.tasks.outcomes import Decision, Outcome, cut_answer, excerpt
from albertine.tasks.types.task_type import require_label

_NO_ANSWER = "(no answer)"


def span_outcome(
    example: QuestionExample, prediction: Mapping[str, Any], *, allows_no_answer: bool
) -> Outcome:
    """Return a predicted answer beside the right ones; the first of them is marked in the passage.

    The decision is whether there is an answer; it is right if the answer is an exact match.
    """
    answers = require_label(example.answers, example.location, "answers")
    answer = prediction["answer"]
    references = [each.text for each in answers]
    exact, f1 = best_scores(references, answer, allows_no_answer=allows_no_answer)
    probability = _answer_probability(prediction)
    marks = [(answers[0].start, answers[0].start + len(answers[0].text))] if answers else []
    expected, predicted = ("an answer" if is_answered else "no answer" for is_answered in (answers, answer))
    return Outcome(
        cut_answer(" / ".join(dict.fromkeys(references)) or _NO_ANSWER),
        cut_answer(answer or _NO_ANSWER),
        (excerpt("passage", example.context, marks), excerpt("question", example.question)),
        score=f1,
        severity=(1 - f1) * probability,
        decisions=(Decision(expected, predicted, probability, exact == 1.0),),
    )


def _answer_probability(prediction: Mapping[str, Any]) -> float:
    """Return the probability of the predicted answer among the candidates, or that of no answer."""
    no_answer = float(prediction.get("no_answer_probability", 0.0))
    if not prediction["answer"]:
        return no_answer
    return float(prediction["candidates"][0]["probability"]) * (1.0 - no_answer)
