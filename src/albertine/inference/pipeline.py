"""`albertine.pipeline`: a tuned model as a function, text in, answers out. Threads may share one.

judge = albertine.pipeline("runs/reviews")
judge("A fine film.")                          one text
judge(["A fine film.", "Dull."])               several
judge("It rained.", "It was wet outside.")     a pair
reader(question="Who has the key?", context="Ida has the key.")
chooser(context="...", question="...", options=["a door", "a boat"])
tagger("Ida lives in Hull .")                  words between spaces, or a list of words
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned
from albertine.tasks.examples import (
    Example,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from albertine.text.unicode_check import check_text

Prediction = dict[str, Any]


class Pipeline:
    """A tuned model as a function.

    Attributes:
        type_name: classify, regress, tag, span or choice.
        labels: those that it knows.
        num_texts: how many it judges at a time, of classify and regress; None where nothing says.
        num_options: how many it chooses between.
    """

    def __init__(self, model: FinetunedModel):
        self._scorer = model.create_scorer()
        self.type_name, self.labels = model.card.type_name, model.card.labels
        self.num_texts, self.num_options = model.card.num_texts, model.task_type.head_settings.options

    def __call__(
        self,
        text: str | Sequence[Any] | None = None,
        text_pair: str | Sequence[str] | None = None,
        *,
        question: str | Sequence[str] | None = None,
        context: str | Sequence[str] | None = None,
        options: Sequence[str] | Sequence[Sequence[str]] | None = None,
    ) -> Any:
        """Answer one example, or a list of them; a list gives a list."""
        inputs = {
            "text": text,
            "other": text_pair,
            "question": question,
            "context": context,
            "options": options,
        }
        examples, is_list = self.parse(**inputs)
        predictions = self.predict(examples)
        return predictions if is_list else predictions[0]

    def parse(self, **inputs: Any) -> tuple[Sequence[Example], bool]:
        """Read what is asked, named as in a call; say whether it is several."""
        names = ("text", "other", "question", "context", "options")
        try:
            return self._parse_examples(*map(inputs.get, names))
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.type_name}: text, or lists of text, are asked for ({error})") from None

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answer examples together."""
        return [answer for _, answer in self._scorer.predict(examples)]

    def _parse_examples(
        self, text: Any, text_pair: Any, question: Any, context: Any, options: Any
    ) -> tuple[Sequence[Example], bool]:
        match self.type_name:
            case "span":
                columns, several = _parse_rows(question=question, context=context)
                return [
                    QuestionExample(_location(n), str(n), row[0], row[1]) for n, row in enumerate(columns)
                ], several
            case "choice":
                examples, several = _choice_examples(context, question, options)
                self._check_option_counts(examples)
                return examples, several
            case "tag":
                return _tagged_examples(text)
        columns, several = (
            _parse_rows(text=text) if text_pair is None else _parse_rows(text=text, other=text_pair)
        )
        return [TextExample(_location(n), str(n), tuple(row)) for n, row in enumerate(columns)], several

    def _check_option_counts(self, questions: Sequence[MultipleChoiceExample]) -> None:
        for one in questions:
            if len(one.options) != self.num_options:
                raise InputError(f"options: {len(one.options)}; the model chooses between {self.num_options}")


def _choice_examples(context: Any, question: Any, options: Any) -> tuple[list[MultipleChoiceExample], bool]:
    """Read one question with its options, or a list of them."""
    if not options:
        raise InputError("options: none; a question has two at least")
    several = not isinstance(options[0], str)
    lists = options if several else [options]
    contexts, questions = (
        one if isinstance(one, Sequence) and not isinstance(one, str) else [one or ""] * len(lists)
        for one in (context, question)
    )
    _check_texts(
        "context, question, options", [*contexts, *questions, *(text for one in lists for text in one)]
    )
    rows = zip(contexts, questions, lists, strict=True)
    made = [
        MultipleChoiceExample(_location(n), str(n), text, asked, tuple(each))
        for n, (text, asked, each) in enumerate(rows)
    ]
    return made, several


def _tagged_examples(text: Any) -> tuple[list[TaggedExample], bool]:
    """Read one sentence, as text or as a list of words, or a list of such lists."""
    if text is None:
        raise InputError("text: none; a sentence or a list of words is asked for")
    several = not isinstance(text, str) and bool(text) and not isinstance(text[0], str)
    words = [tuple(one.split() if isinstance(one, str) else one) for one in (text if several else [text])]
    _check_texts("text", [word for one in words for word in one])
    return [TaggedExample(_location(n), str(n), one) for n, one in enumerate(words)], several


def _location(number: int) -> str:
    return f"example {number}"


def _check_texts(name: str, texts: Sequence[Any]) -> None:
    for text in texts:
        check_text(text, name)


def _parse_rows(**inputs: Any) -> tuple[list[tuple[str, ...]], bool]:
    """Lay out what may be one text or a list of them, as rows; say whether it was lists."""
    several = any(isinstance(one, Sequence) and not isinstance(one, str) for one in inputs.values())
    columns = []
    for name, one in inputs.items():
        listed = list(one) if several and isinstance(one, Sequence) and not isinstance(one, str) else [one]
        _check_texts(name, listed)
        columns.append(listed)
    if len({len(column) for column in columns}) > 1:
        raise InputError(f"{', '.join(inputs)}: lists of different lengths")
    return list(zip(*columns, strict=True)), several


def pipeline(
    source: str | Path, *, device: str = "auto", precision: str = "auto", revision: str | None = None
) -> Pipeline:
    """Open a tuned model as a function.

    Args:
        source: a run, a checkpoint's folder (also of `transformers`), or a hub name.
        device: auto, cpu or cuda.
        precision: of the matrix products: auto, fp32 or bf16.
        revision: which branch, tag or commit of a hub repository.
    """
    return Pipeline(load_finetuned(source, device, precision, revision=revision))
