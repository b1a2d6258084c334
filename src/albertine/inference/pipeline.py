"""`albertine.pipeline`: a fine-tuned model as a function of text; threads may share one.

classifier = albertine.pipeline("runs/reviews")
classifier("A fine film.")                        one text
classifier(["A fine film.", "Dull."])             a list of texts gives a list of predictions

The arguments depend on the task type of the model:

pair_classifier("It rained.", "It was wet outside.")
reader(question="Who has the key?", context="Ida has the key.")
chooser(context="...", question="...", options=["a door", "a boat"])
tagger("Ida lives in Hull .")                     words separated by spaces, or a list of words
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.inference.ensemble_model import TaskModel, load_task_model
from albertine.settings.exit_rule import make_exit_rule
from albertine.tasks.examples import Example
from albertine.tasks.types.inputs import InputField
from albertine.tasks.types.task_type import Prediction


class Pipeline:
    """A fine-tuned model as a function.

    Attributes:
        type_name: name of its task type.
        labels: labels that it predicts; empty if its task type has none.
        max_length: maximum tokens of a sequence; longer examples are truncated.
        input_fields: arguments of a call that its task type takes.
    """

    def __init__(self, model: TaskModel):
        self._scorer, self._task_type = model.create_scorer(), model.task_type
        self.type_name, self.labels = model.card.type_name, model.card.labels
        self.max_length = model.card.max_length
        self.input_fields: tuple[InputField, ...] = model.task_type.input_fields()

    def __call__(
        self,
        text: str | Sequence[Any] | None = None,
        text_pair: str | Sequence[str] | None = None,
        *,
        question: str | Sequence[str] | None = None,
        context: str | Sequence[str] | None = None,
        options: Sequence[str] | Sequence[Sequence[str]] | None = None,
    ) -> Any:
        """Return the prediction for one example, or a list of predictions for a list."""
        inputs = {
            "text": text,
            "text_pair": text_pair,
            "question": question,
            "context": context,
            "options": options,
        }
        examples, is_list = self.parse(**inputs)
        predictions = self.predict(examples)
        return predictions if is_list else predictions[0]

    def parse(self, **inputs: Any) -> tuple[Sequence[Example], bool]:
        """Return the examples in the arguments of a call, and whether these are lists."""
        try:
            return self._task_type.parse_inputs(inputs)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.type_name}: expected text or lists of text ({error})") from None

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Return the predictions for examples, in order; see `Scorer.predict`."""
        return [prediction for _, prediction in self._scorer.predict(examples)]

    def predict_counted(self, examples: Sequence[Example]) -> list[tuple[Prediction, int]]:
        """Return the predictions for examples, in order, each with the number of tokens that were read."""
        return [
            (prediction, encoded.num_tokens)
            for _, encoded, prediction in self._scorer.predict_encoded(examples)
        ]


def pipeline(
    source: str | Path,
    *,
    device: str = "auto",
    precision: str = "auto",
    revision: str | None = None,
    exit: str | None = None,  # noqa: A002  # the name of the option
    depth: int | None = None,
) -> Pipeline:
    """Load a fine-tuned model or an ensemble as a function.

    Args:
        source: a run, the folder of a checkpoint (also of `transformers`) or of an ensemble, or a hub name.
        device: "auto", "cpu" or "cuda".
        precision: precision of the matrix products: "fp32" or "bf16"; "auto" is that of the fine-tuning.
        revision: branch, tag or commit of a hub repository.
        exit: when a prediction is final: "patience:K", "confidence:P" or "learned:Q"; None after all steps.
        depth: number of steps of depth, with `exit` the largest; None for those of the model.
    """
    rule = make_exit_rule(exit, depth)
    return Pipeline(load_task_model(source, device, precision, revision=revision, exit_rule=rule))
