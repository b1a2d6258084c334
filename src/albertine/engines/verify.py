"""Compares an export with its source on sequences of several lengths."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albertine.engines.encoder_engine import SENTENCE_EMBEDDING, ExportedEncoderEngine
from albertine.engines.exported_engine import ExportedEngine, padded_inputs
from albertine.engines.packed_rows import NUM_TASK_SEGMENTS, token_types
from albertine.engines.single_graph_engine import SingleGraphEngine
from albertine.engines.stepped_engine import SteppedEngine
from albertine.errors import WorkError
from albertine.interop.sentence_transformers_folder import SentenceModules
from albertine.model.model import Model
from albertine.model.padded import PaddedModel
from albertine.model.sentence_vectors import apply_layers, pool
from albertine.model.strip import Strip
from albertine.model.trial_strip import trial_strip

MAX_DIFFERENCE = 1e-4  # of logits, in units of the largest one if that is above 1


# Lengths from 1 to 150, and many short sequences: more rows than there are tokens in a row.
_LENGTHS = ((24, 7, 150, 1, 24, 40, 3, 100), (9,) * 20)


def random_strips(model: Model) -> list[Strip]:
    """Return strips of random tokens and segments, of different lengths up to the model's maximum."""
    generator, num_segments = torch.Generator().manual_seed(0), model.settings.segments
    if model.head_settings.co_matching:
        num_segments = min(NUM_TASK_SEGMENTS, num_segments)
    return [trial_strip(model, lengths, generator, num_segments) for lengths in _LENGTHS]


@torch.no_grad()
def largest_difference(model: Model, engine: ExportedEngine, strip: Strip) -> float:
    """Return the largest difference of logits between a model and its export, with all forms of input.

    Packed rows, and for a single graph padded rows, are compared with `PaddedModel`, whose equality to the
    strip has tests of its own. A co-matching head, which `PaddedModel` lacks, is compared with the model on
    the strip. An export in steps is also compared after each step.
    """
    reads_parts = model.head_settings.co_matching
    types = token_types(strip, reads_parts=reads_parts)
    with_types = replace(strip, segments=types)
    ids, mask, segments = with_types.to_padded()
    if reads_parts:
        expected = {"logits": model(strip).logits.flatten()}
    else:
        expected = PaddedModel(model)(ids, mask, segments)
    is_token = mask.bool()
    padded: Mapping[str, NDArray[np.float32]] = {}
    if isinstance(engine, SingleGraphEngine):
        padded = engine.run_rows(padded_inputs(with_types))
    packed = engine.logits(strip)
    differences = []
    for name, values in expected.items():
        of_tokens = name in model.head.logits_of_tokens(torch.zeros(1, model.settings.hidden_size))
        reference = values[is_token] if of_tokens else values
        actuals = [packed[name]]
        if padded:
            from_padded = torch.from_numpy(padded[name])
            actuals.append(from_padded[is_token] if of_tokens else from_padded)
        differences += [_difference(actual, reference) for actual in actuals]
    if isinstance(engine, SteppedEngine):
        differences += _step_differences(model, engine, strip)
    return float(np.max(differences))  # unlike `max`, NaN if one is NaN


def _step_differences(model: Model, engine: SteppedEngine, strip: Strip) -> list[float]:
    """Return the differences of what the heads and the exit unit give after each step of depth."""
    actual_outputs, actual_stops = engine.exit_outputs(strip)
    if model.exit_unit is None:
        outputs, stops = model.exit_outputs(strip, None), []
    else:
        outputs, stop_logits = model.learned_exit_outputs(strip, None)
        stops = list(stop_logits)
    pairs = list(zip(actual_stops, stops, strict=False))  # the model has none after its last step
    for actual, expected in zip(actual_outputs, outputs, strict=True):
        pairs += zip(_logits(actual), _logits(expected), strict=True)
    return [_difference(actual, expected) for actual, expected in pairs]


def _logits(output: Any) -> list[Tensor]:
    """Return all logits in the output of a head; that of pre-training has the outputs of two heads."""
    if isinstance(output, Tensor):
        return [output]
    return [] if output is None else [logits for value in vars(output).values() for logits in _logits(value)]


def verify_export(model: Model, engine: ExportedEngine, name: str | Path) -> float:
    """Return the largest difference in fp32; raise `WorkError` if it is more than rounding gives."""
    return _checked([largest_difference(model, engine, strip) for strip in random_strips(model)], name)


@torch.no_grad()
def verify_encoder(
    model: Model, modules: SentenceModules, engine: ExportedEncoderEngine, name: str | Path
) -> float:
    """Return the largest difference of hidden states and vectors of texts in fp32; see `verify_export`."""
    differences = []
    for strip in random_strips(model):
        hidden = model.encoder(strip)
        vectors = apply_layers(
            pool(hidden, strip, modules.poolings), modules.layers, normalize=modules.normalize
        )
        outputs = engine.run_rows(padded_inputs(strip))
        pairs = (
            (engine.hidden_states(strip), hidden),
            (torch.from_numpy(outputs[SENTENCE_EMBEDDING]), vectors),
        )
        differences += [_difference(actual, expected) for actual, expected in pairs]
    return _checked(differences, name)


def _difference(actual: Tensor, expected: Tensor) -> float:
    """Return the largest difference, in units of the largest expected value if that is above 1."""
    scale = max(1.0, float(expected.abs().max()))
    return float((actual.reshape(expected.shape) - expected).abs().max()) / scale


def _checked(differences: Sequence[float], name: str | Path) -> float:
    """Return the largest difference; raise `WorkError` if it is more than rounding gives."""
    difference = float(np.max(differences))  # unlike `max`, NaN if one is NaN
    if not difference <= MAX_DIFFERENCE:
        raise WorkError(
            f"{name}: the outputs of the export differ from those of its source by {difference:.2g}, more "
            f"than {MAX_DIFFERENCE:g}"
        )
    return difference
