"""Evaluation on minimal pairs, such as BLiMP: how often a model prefers the acceptable sentence.

A model prefers the sentence with the higher pseudo-log-likelihood. As in published results, the overall
accuracy is the mean over the paradigms, whatever their sizes, and so is that of a phenomenon.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.inference.fill_mask import fill_mask_pipeline_in
from albertine.inference.masked_copies import MASKED_METHODS, SCORING_METHODS, ScoringMethod
from albertine.inference.pseudo_likelihood import PseudoLikelihoodScorer
from albertine.inference.settings import EvaluateSettings
from albertine.interop.hub import locate_model
from albertine.settings.engine import EngineOptions
from albertine.settings.schema import first_changed
from albertine.tasks.card import COLUMN_SETTINGS
from albertine.tasks.examples import example_chunks
from albertine.tasks.formats.minimal_pairs import MinimalPair, read_minimal_pairs
from albertine.tasks.metrics.intervals import wilson_interval
from albertine.tasks.reading import report_skipped
from albertine.text.read_errors import ReadErrors

_CHUNK_SIZE = 2048  # pairs
_UNUSED_SETTINGS = (*COLUMN_SETTINGS, "header", "split")  # of other evaluations


@dataclass(frozen=True)
class PairAccuracy:
    """The accuracy on some minimal pairs, with its 95% interval.

    Attributes:
        name: name of the paradigm or phenomenon; "overall" for all pairs.
        num_pairs: number of pairs.
        ties: number of pairs whose sentences have the same score; each counts as half correct.
        accuracy: share of correct pairs; of several paradigms, the mean of their accuracies.
        low: lower end of the interval.
        high: upper end of the interval.
        phenomenon: phenomenon of a paradigm, if the data names one; else empty.
    """

    name: str
    num_pairs: int
    ties: int
    accuracy: float
    low: float
    high: float
    phenomenon: str = ""


@dataclass(frozen=True)
class MinimalPairsResult:
    """The accuracies of one model on minimal pairs.

    Attributes:
        model: name of the model.
        task: name of the task.
        method: how sentences are scored.
        overall: mean over the paradigms.
        phenomena: mean over the paradigms of each phenomenon; empty if the data names none.
        paradigms: accuracy of each paradigm.
        seconds: time for reading and scoring, of all methods together.
    """

    model: str
    task: str
    method: ScoringMethod
    overall: PairAccuracy
    phenomena: tuple[PairAccuracy, ...]
    paradigms: tuple[PairAccuracy, ...]
    seconds: float


@dataclass
class _Paradigm:
    """The counts of one paradigm; `points` has the number of correct pairs of each method, ties as halves."""

    phenomenon: str
    num_pairs: int = 0
    points: dict[ScoringMethod, float] = field(default_factory=lambda: dict.fromkeys(SCORING_METHODS, 0.0))
    ties: dict[ScoringMethod, int] = field(default_factory=lambda: dict.fromkeys(SCORING_METHODS, 0))


def evaluate_minimal_pairs(
    models: str | Path | Sequence[str | Path], settings: EvaluateSettings
) -> list[MinimalPairsResult]:
    """Return the accuracies of pre-trained models on minimal pairs, for each model and method.

    Args:
        models: one or several runs, folders of checkpoints (also of `transformers` or Google), or hub names.
        settings: the data, the method, the number of pairs, and what to do with invalid rows.
    """
    sources = [models] if isinstance(models, str | Path) else list(models)
    if settings.data is None:
        raise InputError("--data is missing: a folder of .jsonl files with minimal pairs, or one file")
    if not sources:
        raise InputError("MODEL is missing: a pre-trained run, the folder of a checkpoint, or a hub name")
    if unused := first_changed(settings, _UNUSED_SETTINGS):
        option = unused.replace("_", "-")
        raise InputError(
            f"--{option} is for the tasks of fine-tuned models, not for minimal pairs; leave it out"
        )
    engine = settings.engine
    if settings.method == "left-to-right":  # other engines read all tokens at once
        if engine not in (None, "auto", "torch"):
            raise InputError(f"--engine {engine}: not for --method left-to-right; leave it out")
        engine = None
    options = EngineOptions(settings.device, settings.precision, engine).with_fp32_default()
    results = []
    for source in sources:
        can_exit = settings.depth is not None
        pipeline = fill_mask_pipeline_in(locate_model(source), source, options, can_exit=can_exit)
        results += score_minimal_pairs(pipeline.scorer_at(settings.depth), settings, str(source))
    return results


def score_minimal_pairs(
    scorer: PseudoLikelihoodScorer, settings: EvaluateSettings, model: str
) -> list[MinimalPairsResult]:
    """Return the accuracies of one model, for each method.

    Args:
        scorer: scores with the model.
        settings: the data, the method, the number of pairs, and what to do with invalid rows.
        model: name of the model.
    """
    assert settings.data is not None
    started = time.monotonic()
    methods = MASKED_METHODS if settings.method == "both" else (settings.method,)
    errors = ReadErrors(skip=settings.on_error == "skip")
    pairs = first_of_each_paradigm(read_minimal_pairs(settings.data, errors), settings.pairs)
    paradigms: dict[str, _Paradigm] = {}
    with progress.progress_counter("Scoring pairs", total=None, unit="pairs") as advance:
        for chunk in example_chunks(pairs, _CHUNK_SIZE):
            _count_chunk(scorer, chunk, methods, paradigms, errors)
            advance(len(chunk))
    report_skipped(errors)
    if not paradigms:
        raise InputError(f"{settings.data}: no minimal pairs")
    seconds = time.monotonic() - started
    task = settings.task or "blimp"
    return [_result(paradigms, model, task, method, seconds) for method in methods]


def first_of_each_paradigm(pairs: Iterable[MinimalPair], count: int | None) -> Iterator[MinimalPair]:
    """Yield the first pairs of each paradigm; all pairs without a count."""
    seen: dict[str, int] = {}
    for pair in pairs:
        number = seen[pair.paradigm] = seen.get(pair.paradigm, 0) + 1
        if count is None or number <= count:
            yield pair


def _count_chunk(
    scorer: PseudoLikelihoodScorer,
    pairs: Sequence[MinimalPair],
    methods: Sequence[ScoringMethod],
    paradigms: dict[str, _Paradigm],
    errors: ReadErrors,
) -> None:
    """Add the outcomes of some pairs to the counts of their paradigms."""
    encoded = scorer.encode([sentence for pair in pairs for sentence in (pair.good, pair.bad)])
    scored_pairs, texts = [], []
    for pair, good, bad in zip(pairs, encoded[::2], encoded[1::2], strict=True):
        too_long = next((text for text in (good, bad) if scorer.is_too_long(text)), None)
        if too_long is not None:
            errors.handle(pair.location, f"a sentence of {scorer.length_problem(too_long)}")
            continue
        scored_pairs.append(pair)
        texts += [good, bad]
    scores = scorer.log_likelihoods(texts, methods)
    for pair, good_scores, bad_scores in zip(scored_pairs, scores[::2], scores[1::2], strict=True):
        paradigm = paradigms.setdefault(pair.paradigm, _Paradigm(pair.phenomenon))
        paradigm.num_pairs += 1
        for method, good_score, bad_score in zip(methods, good_scores, bad_scores, strict=True):
            difference = float(good_score.sum(dtype=float) - bad_score.sum(dtype=float))
            paradigm.ties[method] += difference == 0
            paradigm.points[method] += 0.5 if difference == 0 else difference > 0


def _result(
    paradigms: dict[str, _Paradigm], model: str, task: str, method: ScoringMethod, seconds: float
) -> MinimalPairsResult:
    by_phenomenon = sorted(
        (paradigm for paradigm in paradigms.values() if paradigm.phenomenon),
        key=lambda paradigm: paradigm.phenomenon,
    )
    return MinimalPairsResult(
        model,
        task,
        method,
        _accuracy("overall", list(paradigms.values()), method),
        tuple(
            _accuracy(phenomenon, list(members), method)
            for phenomenon, members in groupby(by_phenomenon, lambda paradigm: paradigm.phenomenon)
        ),
        tuple(
            replace(_accuracy(name, [paradigm], method), phenomenon=paradigm.phenomenon)
            for name, paradigm in paradigms.items()
        ),
        seconds,
    )


def _effective_count(paradigms: Sequence[_Paradigm], method: ScoringMethod) -> float:
    """Return the number of pairs whose mean varies as much as that of the paradigms, or more.

    If all paradigms were equally difficult, their sizes alone would give it. If the small ones are more
    difficult, it is smaller. That paradigms differ can also make it larger, which is not used.
    """
    sizes = [paradigm.num_pairs for paradigm in paradigms]
    of_sizes = len(sizes) ** 2 / sum(1 / size for size in sizes)
    # Smoothed as by Agresti and Coull (1998), so that no paradigm has a variance of 0.
    shares = [(paradigm.points[method] + 2) / (paradigm.num_pairs + 4) for paradigm in paradigms]
    mean = math.fsum(shares) / len(shares)
    variance = sum(share * (1 - share) / size for share, size in zip(shares, sizes, strict=True))
    return min(of_sizes, mean * (1 - mean) * len(sizes) ** 2 / variance)


def _accuracy(name: str, paradigms: Sequence[_Paradigm], method: ScoringMethod) -> PairAccuracy:
    """Return the mean accuracy of paradigms, with a Wilson interval."""
    accuracies = [paradigm.points[method] / paradigm.num_pairs for paradigm in paradigms]
    mean = math.fsum(accuracies) / len(paradigms)
    low, high = wilson_interval(mean, _effective_count(paradigms, method))
    num_pairs = sum(paradigm.num_pairs for paradigm in paradigms)
    ties = sum(paradigm.ties[method] for paradigm in paradigms)
    return PairAccuracy(name, num_pairs, ties, mean, low, high)
