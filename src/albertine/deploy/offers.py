"""What a model can be asked over HTTP: paths, the fields of a question, and who answers.

A tuned model answers at `/answer`, in the fields of its kind; a pre-trained one fills
masks at `/fill` and, if it has a head for pairs, tells at `/order` whether two segments
are in order. The page draws its forms from the same table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from albertine.errors import InputError
from albertine.interop.hub import locate
from albertine.interop.load import load_checkpoint
from albertine.pretrain.guess import Guess, Guesser, fills_masks, guesser_in
from albertine.settings import MODELS
from albertine.settings.schema import shortened
from albertine.tasks.pipeline import Pipeline
from albertine.tasks.tuned import tuned_in
from albertine.text.pieces import plain
from albertine.text.tokenizer import Tokenizer

Form = Literal["text", "words", "texts"]
_FORMS = {"text": "a text", "words": "a text, or a list of its words", "texts": "a list of texts"}


MOST_TEXT = 100_000  # characters of a question: it is answered in one pass, and others wait meanwhile


@dataclass(frozen=True)
class Field:
    """A part of a question.

    Attributes:
        name: its key in JSON.
        trial: what the page has in it at first.
        form: what it may be.
        needed: whether a question without it is none.
        count: how many texts it must be.
    """

    name: str
    trial: str
    form: Form = "text"
    needed: bool = True
    count: int | None = None

    def refuse_other(self, value: Any) -> None:
        """Refuse what has not the form."""
        as_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
        fits = {"text": isinstance(value, str), "texts": as_list, "words": as_list or isinstance(value, str)}
        if not fits[self.form]:
            raise InputError(f"{self.name}: must be {_FORMS[self.form]}")


@dataclass(frozen=True)
class Offer:
    """What can be asked at a path.

    Attributes:
        path: where.
        kind: classify, regress, tag, span, choice, fill or order.
        fields: of a question.
        read: makes a question of its fields, and refuses what cannot be answered.
        answered: answers questions, several at a time.
        mask: how the model spells what is to be filled.
    """

    path: str
    kind: str
    fields: tuple[Field, ...]
    read: Callable[..., Any]
    answered: Callable[[Sequence[Any]], Sequence[Any]]
    mask: str = ""

    def question(self, told: Any) -> tuple[Any, int]:
        """Read a question, as JSON has it; return its size too, in characters."""
        names = [field.name for field in self.fields]
        if not isinstance(told, Mapping):
            raise InputError(f"a question must be an object with {', '.join(names)}")
        for name in told:
            if name not in names:
                raise InputError(f"{shortened(name) or 'an empty name'}: unknown; known: {', '.join(names)}")
        for field in self.fields:
            if told.get(field.name) is not None:
                field.refuse_other(told[field.name])
            elif field.needed:
                raise InputError(f"{field.name}: missing; it must be {_FORMS[field.form]}")
        size = sum(map(_length, told.values()))
        if size > MOST_TEXT:
            raise InputError(f"{size:,} characters; a question has {MOST_TEXT:,} at most")
        return self.read(**{name: value for name, value in told.items() if value is not None}), size


def _length(value: Any) -> int:
    return sum(map(len, value)) if isinstance(value, list) else len(value or "")


@dataclass(frozen=True)
class Served:
    """A model with all that it can be asked.

    Attributes:
        name: what the person called it.
        labels: those that it knows.
        offers: by path.
    """

    name: str
    labels: tuple[str, ...]
    offers: Mapping[str, Offer]


def served(name: str, device: str, precision: str) -> Served:
    """Open a model, tuned or pre-trained, to be asked."""
    if name in MODELS:
        raise InputError(f"{name}: a preset, with nothing learned; name a model")
    folder = locate(name)
    model = load_checkpoint(folder)
    if fills_masks(model):
        offers = _of_guesser(guesser_in(folder, model, device, precision))
        return Served(name, (), {offer.path: offer for offer in offers})
    pipeline = Pipeline(tuned_in(name, folder, model, device, precision))
    offer = _of_pipeline(pipeline)
    return Served(name, pipeline.labels, {offer.path: offer})


_PASSAGE = "Ida put the key in the drawer. Then she went to the market and bought a pear."
_QUESTION = "Where is the key?"
_PLACES = ("in the drawer", "in the garden", "at the market", "on the table", "under the bed")


def _of_pipeline(pipeline: Pipeline) -> Offer:
    def read(**told: Any) -> Any:
        (example,), _ = pipeline.read(**told)
        return example

    return Offer("/answer", pipeline.kind, _fields(pipeline), read, pipeline.answers)


def _fields(pipeline: Pipeline) -> tuple[Field, ...]:
    match pipeline.kind:
        case "tag":
            return (Field("text", "Ida went to the market in Hull .", "words"),)
        case "span":
            return Field("context", _PASSAGE), Field("question", _QUESTION)
        case "choice":
            trial = [*_PLACES, *("somewhere else",) * pipeline.options][: pipeline.options]
            return (
                Field("context", _PASSAGE, needed=False),
                Field("question", _QUESTION, needed=False),
                Field("options", "\n".join(trial), "texts", count=pipeline.options),
            )
    text = Field("text", "The garden was a joy to see.")
    match pipeline.texts:
        case 1:
            return (text,)
        case 2:
            return text, Field("other", "Somebody saw a garden.")
    return text, Field("other", "", needed=False)


def _of_guesser(guesser: Guesser) -> list[Offer]:
    def fill(asked: Sequence[Any]) -> list[dict[str, Any]]:
        return [_filled(guesser, one) for one in asked]

    def order(asked: Sequence[Any]) -> list[dict[str, float]]:
        return [{"in_order": round(guesser.ordered(*one), 6)} for one in asked]

    text = Field("text", f"She put the key in the {guesser.mask}.")
    first, second = Field("first", "Ida took the key."), Field("second", "Then she opened the door.")
    offers = [Offer("/fill", "fill", (text,), guesser.masked, fill, guesser.mask)]
    if guesser.orders:
        offers.append(Offer("/order", "order", (first, second), guesser.paired, order))
    return offers


def _filled(guesser: Guesser, asked: tuple[list[int], list[int], list[int]]) -> dict[str, Any]:
    return {
        "masks": [
            [_guessed(one, guesser.tokenizer) for one in guesses]
            for guesses in guesser.guesses(*asked, best=5)
        ]
    }


def _guessed(guess: Guess, tokenizer: Tokenizer) -> dict[str, Any]:
    shown = plain(guess.piece, tokenizer)
    return {"piece": guess.piece, "shown": shown, "probability": round(guess.score, 6)}
