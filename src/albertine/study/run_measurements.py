"""Measures of the pre-trained model of a study run, by the names of `measures.py`."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median

from albertine.corpus.corpus import open_corpus
from albertine.interop.load import load
from albertine.model.cost import pretraining_flops
from albertine.model.parameter_counts import count_parameters
from albertine.pretrain.curriculum import GROW, growing_depth
from albertine.pretrain.probe import probe
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.report.held_out_examples import held_out_mean_steps, held_out_transitions
from albertine.study.measures import why_impossible
from albertine.train.metrics_log import read_metrics

_BYTES_PER_PARAMETER = 4
_EXTENDED_DEPTH_FACTOR = 4  # how much deeper than in training a shared layer is observed
_SAMPLED_STEPS = 1_000  # at which the depth is taken for the FLOPs of a run


@dataclass(frozen=True)
class PartResult:
    """What a part of a run has given.

    Attributes:
        values: numbers by measure; None where the text gives none.
        failure: why the training or fine-tuning failed; None if it did not.
        machines: where the training ran, by `machine_name`; several if it was resumed elsewhere, none if
            unknown, as in results of earlier versions, or of other parts.
        precision: precision in which held-out text was evaluated; None in results of earlier versions, where
            it was that of the machine, and in those of other parts.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    failure: str | None = None
    machines: tuple[str, ...] = ()
    precision: str | None = None


def training_measures(model: Path, settings: PretrainSettings) -> PartResult:
    """Return the size of a model and the costs of its training.

    Args:
        model: folder of the pre-training run.
        settings: its settings, without unset values.
    """
    lines = [line for line in read_metrics(model) if "tokens_per_second" in line]
    parameters, tokens = count_parameters(load(model).settings).encoder, lines[-1]["tokens"]
    return PartResult(
        {
            "parameters": parameters,
            "megabytes": parameters * _BYTES_PER_PARAMETER,
            "flops": flops_per_token(settings) * tokens,
            "seconds": lines[-1]["seconds"],
            "tokens": tokens,
            "tokens_per_second": median(line["tokens_per_second"] for line in lines),
        }
    )


def probe_measures(model: Path, corpus: Path, tokens: int, max_length: int) -> PartResult:
    """Return losses and accuracies on held-out text; None where it gives none.

    Args:
        model: folder of the model.
        corpus: folder of the corpus.
        tokens: number of held-out tokens.
        max_length: longest sample.
    """
    result = probe(str(model), ProbeSettings(corpus=corpus, tokens=tokens, max_length=max_length))
    estimates = {
        "mask_loss": result.mask_token_loss,
        "mask_accuracy": result.mask_token_accuracy,
        "sop_accuracy": result.sop_accuracy,
        "nsp_accuracy": result.nsp_accuracy,
    }
    return PartResult(
        {
            name: estimate.value if math.isfinite(estimate.value) else None
            for name, estimate in estimates.items()
        },
        precision="fp32",
    )


def layer_measures(folder: Path, corpus_folder: Path) -> PartResult:
    """Return distance and angle between input and output of each layer, and measures made from them.

    Args:
        folder: folder of the model.
        corpus_folder: folder of the corpus, whose held-out text the model reads.
    """
    model, corpus = load(folder).eval(), open_corpus(corpus_folder)
    depth = model.settings.applied_layers
    can_extend_depth = why_impossible("iterated_angle", model.settings) is None
    transitions = held_out_transitions(
        model, corpus, seed=0, depth=_EXTENDED_DEPTH_FACTOR * depth if can_extend_depth else None
    )
    distances = [transition.distance for transition in transitions[:depth]]
    changes = [abs(after - before) for before, after in itertools.pairwise(distances)]
    values: dict[str, float | None] = {
        "roughness": fmean(changes) / fmean(distances) if changes else None,
        "last_angle": transitions[depth - 1].angle,
        "last_distance": distances[-1],
        "iterated_angle": transitions[-1].angle if can_extend_depth else None,
        "mean_steps": held_out_mean_steps(model, corpus, seed=0),
    }
    for number, transition in enumerate(transitions, start=1):
        values |= {f"distance {number}": transition.distance, f"angle {number}": transition.angle}
    return PartResult(values)


def flops_per_token(settings: PretrainSettings) -> float:
    """Return the mean FLOPs per token of a pre-training run."""
    steps, model = settings.train.steps, settings.model
    if settings.curriculum.depth == GROW and model.shares_all_layers:
        curriculum = replace(settings.curriculum, depth=growing_depth(model.layers, steps))
        settings = replace(settings, curriculum=curriculum)
    sampled_steps = range(0, steps, math.ceil(steps / _SAMPLED_STEPS))
    kinds = Counter((settings.exit_depths_at(step), settings.objective_at(step)) for step in sampled_steps)
    total = sum(
        count * pretraining_flops(model, objective.max_length, depths, objective.predicted_fraction)
        for (depths, objective), count in kinds.items()
    )
    return total / len(sampled_steps)
