"""`albertine.pipeline`: a fine-tuned model as a function of text; threads may share one.

classifier = albertine.pipeline("runs/reviews")
classifier("A fine film.")                        one text
classifier(["A fine film.", "Dull."])             a list of texts gives a list of predictions

The arguments depend on the task type of the model:

pair_classifier("It rained.", "It was wet outside.")
reader(question="Who has the key?", context="Ida has the key.")
chooser(context="...", question="...", options=["a door", "a boat"])
tagger("Ida lives in Hull .")                     words separated by spaces, or a list of words

With task="embed", any model is a function from texts to vectors; see `embedding.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from albertine.errors import InputError
from albertine.inference.embedding import EmbeddingPipeline, Pooling, load_embedding_pipeline
from albertine.inference.ensemble_model import TaskModel, load_task_model
from albertine.settings.engine import EngineName, EngineOptions
from albertine.settings.exit_rule import make_exit_rule
from albertine.tasks.examples import Example
from albertine.tasks.registry import find_task
from albertine.tasks.types.inputs import InputField, is_list
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
        self.max_length = model.max_length
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
        self._check_arguments(inputs)
        try:
            return self._task_type.parse_inputs(inputs)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.type_name}: expected text or lists of text ({error})") from None

    def _check_arguments(self, inputs: Mapping[str, Any]) -> None:
        """Raise `InputError` for an argument that the model does not take, or one that is missing."""
        given = [name for name, value in inputs.items() if value is not None]
        taken = [field.name for field in self.input_fields]
        needed = [field.name for field in self.input_fields if field.required]
        advice = f"this model takes {' and '.join(taken)}"
        for name in given:
            _check_plain(name, inputs[name], taken)
            if name not in taken:
                raise InputError(f"{name}: not for this model; {advice}")
        for name in needed:
            if name not in given:
                raise InputError(f"{name}: missing; {advice}")

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """Return the predictions for examples, in order; see `Scorer.predict`."""
        return [prediction for _, prediction in self._scorer.predict(examples)]

    def predict_counted(self, examples: Sequence[Example]) -> list[tuple[Prediction, int]]:
        """Return the predictions for examples, in order, each with the number of tokens that were read."""
        return [
            (prediction, encoded.num_tokens)
            for _, encoded, prediction in self._scorer.predict_encoded(examples)
        ]


@overload
def pipeline(  # type: ignore[overload-overlap]  # "embed" is no task
    source: str | Path,
    *,
    task: Literal["embed"],
    device: str = "auto",
    precision: str = "auto",
    engine: EngineName | None = None,
    revision: str | None = None,
    pooling: Pooling | None = None,
    normalize: bool | None = None,
) -> EmbeddingPipeline: ...


@overload
def pipeline(
    source: str | Path,
    *,
    task: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    engine: EngineName | None = None,
    revision: str | None = None,
    exit: str | None = None,
    depth: int | None = None,
) -> Pipeline: ...


def pipeline(
    source: str | Path,
    *,
    task: str | None = None,
    device: str = "auto",
    precision: str = "auto",
    engine: EngineName | None = None,
    revision: str | None = None,
    exit: str | None = None,  # noqa: A002  # the name of the option
    depth: int | None = None,
    pooling: Pooling | None = None,
    normalize: bool | None = None,
) -> Pipeline | EmbeddingPipeline:
    """Load a fine-tuned model or an ensemble as a function, or with `task="embed"` any model to embed texts.

    Args:
        source: a run, the folder of a checkpoint (also of `transformers`) or of an ensemble, or a hub name;
            to embed, also a folder of sentence-transformers or Google, but no ensemble. An export embeds if
            it was made with `--task embed`.
        task: "embed" for vectors of texts; None for predictions of the model's own task. For a model whose
            folder does not name its task, as from `transformers`: the task, such as "squad-2.0" if a question
            may have no answer, or "mnli" for the names of its labels.
        device: "auto", "cpu" or "cuda".
        precision: precision of the matrix products: "fp32" or "bf16"; "auto" is that of the fine-tuning, and
            fp32 to embed.
        engine: library that runs the model: "torch", "onnxruntime" or "openvino"; "auto" is the fastest one
            that is installed, None is torch, or the library of an export. To embed, it can be no other.
        revision: branch, tag or commit of a hub repository.
        exit: when a prediction is final: "patience:K", "confidence:P" or "learned:Q"; None after all steps.
        depth: number of steps of depth, with `exit` the largest; None for those of the model.
        pooling: to embed, "mean" or "cls"; None for that of a folder of sentence-transformers, else the mean.
        normalize: to embed, whether vectors have length 1; None for what a folder of sentence-transformers
            says, else they have.
    """
    options = EngineOptions(device, precision, engine)
    if task == "embed":
        _refuse({"exit": exit, "depth": depth}, "only for predictions; leave it out to embed")
        return load_embedding_pipeline(
            source, options, revision=revision, pooling=pooling, normalize=normalize
        )
    _refuse({"pooling": pooling, "normalize": normalize}, 'only for vectors of texts; add task="embed"')
    rule = make_exit_rule(exit, depth)
    if task is not None:
        _check_task(task)  # before a model is loaded
    return Pipeline(load_task_model(source, options, task=task, revision=revision, exit_rule=rule))


def _check_task(name: str) -> None:
    """Raise `InputError` if there is no such task."""
    try:
        find_task(name)
    except InputError as error:
        raise InputError(f"{error}; or embed, for vectors of texts") from None


def _check_plain(name: str, value: Any, taken: Sequence[str]) -> None:
    """Raise `InputError` for a mapping, or for pairs in one list, which `transformers` takes.

    Args:
        name: name of the argument.
        value: its value, one item or a list.
        taken: the arguments that the model takes.
    """
    in_list = is_list(value) and len(value) > 0
    item = value[0] if in_list else value
    if isinstance(item, Mapping):
        values = ", ".join(f"{argument}={'[...]' if in_list else '...'}" for argument in taken)
        raise InputError(
            f"{name}: must be text, not {type(item).__name__}; pass what is in it by name: {values}"
        )
    if in_list and is_list(item) and name == "text" and "text_pair" in taken:
        raise InputError(
            f"text: must be text, not {type(item).__name__}; "
            "for pairs, pass two lists: text=[...], text_pair=[...]"
        )


def _refuse(arguments: Mapping[str, object], problem: str) -> None:
    """Raise `InputError` if one of some arguments, by name, is given."""
    name = next((name for name, value in arguments.items() if value is not None), None)
    if name is not None:
        raise InputError(f"{name}: {problem}")
