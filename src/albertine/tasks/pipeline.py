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
from albertine.tasks.examples import Choice, Example, Labelled, Question, Tagged
from albertine.tasks.tuned import Tuned, tuned
from albertine.text.unicode import refuse_broken

Answer = dict[str, Any]


class Pipeline:
    """A tuned model as a function.

    Attributes:
        kind: classify, regress, tag, span or choice.
        labels: those that it knows.
        texts: how many it judges at a time, of classify and regress; None where nothing says.
        options: how many it chooses between.
    """

    def __init__(self, model: Tuned):
        self._scorer = model.scorer()
        self.kind, self.labels = model.card.kind, model.card.labels
        self.texts, self.options = model.card.texts, model.kind.head.options

    def __call__(
        self,
        text: str | Sequence[Any] | None = None,
        other: str | Sequence[str] | None = None,
        *,
        question: str | Sequence[str] | None = None,
        context: str | Sequence[str] | None = None,
        options: Sequence[str] | Sequence[Sequence[str]] | None = None,
    ) -> Any:
        """Answer one example, or a list of them; a list gives a list."""
        asked = {"text": text, "other": other, "question": question, "context": context, "options": options}
        examples, several = self.read(**asked)
        answers = self.answers(examples)
        return answers if several else answers[0]

    def read(self, **asked: Any) -> tuple[Sequence[Example], bool]:
        """Read what is asked, named as in a call; say whether it is several."""
        names = ("text", "other", "question", "context", "options")
        try:
            return self._examples(*map(asked.get, names))
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.kind}: text, or lists of text, are asked for ({error})") from None

    def answers(self, examples: Sequence[Example]) -> list[Answer]:
        """Answer examples together."""
        return [answer for _, answer in self._scorer.answered(examples)]

    def _examples(
        self, text: Any, other: Any, question: Any, context: Any, options: Any
    ) -> tuple[Sequence[Example], bool]:
        match self.kind:
            case "span":
                columns, several = _columns(question=question, context=context)
                return [Question(_at(n), str(n), row[0], row[1]) for n, row in enumerate(columns)], several
            case "choice":
                examples, several = _choices(context, question, options)
                self._refuse_other_count(examples)
                return examples, several
            case "tag":
                return _sentences(text)
        columns, several = _columns(text=text) if other is None else _columns(text=text, other=other)
        return [Labelled(_at(n), str(n), tuple(row)) for n, row in enumerate(columns)], several

    def _refuse_other_count(self, questions: Sequence[Choice]) -> None:
        for one in questions:
            if len(one.options) != self.options:
                raise InputError(f"options: {len(one.options)}; the model chooses between {self.options}")


def _choices(context: Any, question: Any, options: Any) -> tuple[list[Choice], bool]:
    """Read one question with its options, or a list of them."""
    if not options:
        raise InputError("options: none; a question has two at least")
    several = not isinstance(options[0], str)
    lists = options if several else [options]
    contexts, questions = (
        one if isinstance(one, Sequence) and not isinstance(one, str) else [one or ""] * len(lists)
        for one in (context, question)
    )
    _check("context, question, options", [*contexts, *questions, *(text for one in lists for text in one)])
    rows = zip(contexts, questions, lists, strict=True)
    made = [Choice(_at(n), str(n), text, asked, tuple(each)) for n, (text, asked, each) in enumerate(rows)]
    return made, several


def _sentences(text: Any) -> tuple[list[Tagged], bool]:
    """Read one sentence, as text or as a list of words, or a list of such lists."""
    if text is None:
        raise InputError("text: none; a sentence or a list of words is asked for")
    several = not isinstance(text, str) and bool(text) and not isinstance(text[0], str)
    words = [tuple(one.split() if isinstance(one, str) else one) for one in (text if several else [text])]
    _check("text", [word for one in words for word in one])
    return [Tagged(_at(n), str(n), one) for n, one in enumerate(words)], several


def _at(number: int) -> str:
    return f"example {number}"


def _check(name: str, texts: Sequence[Any]) -> None:
    for text in texts:
        refuse_broken(text, name)


def _columns(**given: Any) -> tuple[list[tuple[str, ...]], bool]:
    """Lay out what may be one text or a list of them, as rows; say whether it was lists."""
    several = any(isinstance(one, Sequence) and not isinstance(one, str) for one in given.values())
    columns = []
    for name, one in given.items():
        listed = list(one) if several and isinstance(one, Sequence) and not isinstance(one, str) else [one]
        _check(name, listed)
        columns.append(listed)
    if len({len(column) for column in columns}) > 1:
        raise InputError(f"{', '.join(given)}: lists of different lengths")
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
    return Pipeline(tuned(source, device, precision, revision=revision))
