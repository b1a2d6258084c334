"""The results of the parts of a report card, as they are stored and as `--json` prints them."""

from dataclasses import dataclass

from albertine.inference.minimal_pairs import PairAccuracy


@dataclass(frozen=True)
class EstimatedScore:
    """A score with its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class HeldOutScores:
    """Scores on held-out text; a score that cannot be estimated is None.

    Attributes:
        sequences: number of samples.
        unigram_loss: loss of a model that knows only token frequencies.
        mask_token_loss: loss on the masked tokens that became [MASK].
        mask_token_accuracy: accuracy on the same tokens.
        order_accuracy: accuracy of sentence order.
    """

    sequences: int
    unigram_loss: float
    mask_token_loss: EstimatedScore | None
    mask_token_accuracy: EstimatedScore | None
    order_accuracy: EstimatedScore | None


@dataclass(frozen=True)
class MinimalPairScores:
    """Accuracies on minimal pairs, with their 95% intervals.

    Attributes:
        method: how sentences are scored.
        overall: mean over the paradigms.
        phenomena: mean over the paradigms of each phenomenon.
        paradigms: accuracy of each paradigm.
    """

    method: str
    overall: PairAccuracy
    phenomena: list[PairAccuracy]
    paradigms: list[PairAccuracy]


@dataclass(frozen=True)
class CopiedData:
    """The copied examples of a task.

    Attributes:
        source: folder or file from which the training examples come.
        train_examples: number of training examples.
        dev_examples: number of dev examples.
    """

    source: str
    train_examples: int
    dev_examples: int


@dataclass(frozen=True)
class BaselineScores:
    """Scores of the baselines of a task; None for questions on passages, which have none.

    Attributes:
        tf_idf: score of a linear model on TF-IDF.
        most_common_label: score of the most common label of the training examples.
    """

    tf_idf: float | None = None
    most_common_label: float | None = None


@dataclass(frozen=True)
class RunScores:
    """Scores of one fine-tuned model.

    Attributes:
        score: the score on the card.
        metrics: all metrics of the task.
    """

    score: float
    metrics: dict[str, float]
