"""The grammar test of a demo: minimal pairs made from held-out sentences of English text."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_folder
from albertine.corpus.corpus import Corpus
from albertine.corpus.held_out_sentences import held_out_sentences
from albertine.inference.agreement_pairs import AgreementPair, agreement_pairs
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.inference.minimal_pairs import PairAccuracy, score_minimal_pairs
from albertine.inference.settings import EvaluateSettings
from albertine.text.language_detection import detect_language
from albertine.text.language_samples import NUM_PASSAGES, joined_passages

_MAX_SENTENCES = 20_000
_MAX_PAIRS = 200  # of a kind, which gives an interval of up to 7 points on each side
_RARE_KINDS = "other forms"
_MIN_PAIRS = 20  # of a kind: with fewer, the interval has 20 points or more on each side
_EXAMPLES = 4


@dataclass(frozen=True)
class ScoredPair:
    """A minimal pair with the scores of its sentences.

    Attributes:
        pair: the pair.
        good_score: pseudo-log-likelihood of the sentence, in nats.
        bad_score: the same with the swapped form.
    """

    pair: AgreementPair
    good_score: float
    bad_score: float


@dataclass(frozen=True)
class ModelAgreement:
    """How often a model prefers the sentence to the one with the swapped form.

    Attributes:
        overall: the mean over the kinds.
        kinds: the accuracy on each kind of pair.
        examples: some pairs with their scores.
    """

    overall: PairAccuracy
    kinds: list[PairAccuracy]
    examples: list[ScoredPair]


@dataclass(frozen=True)
class AgreementTest:
    """The results of the grammar test.

    Attributes:
        models: the results of each model; empty if there are no pairs.
        reason: why there are no pairs; empty if there are.
    """

    models: dict[str, ModelAgreement]
    reason: str = ""


def run_agreement_test(corpus: Corpus, folder: Path, runs: Sequence[Path], seed: int) -> AgreementTest:
    """Write minimal pairs to a folder, in the format of BLiMP, and score them with pre-trained models.

    Args:
        corpus: the corpus, with held-out text.
        folder: folder of the pairs.
        runs: the models; the name of its folder names a model.
        seed: seed of the choice of sentences.
    """
    sentences = held_out_sentences(corpus, seed, _MAX_SENTENCES)
    language = detect_language(joined_passages(iter(sentences), NUM_PASSAGES))
    if language.significant != ["en"]:
        return AgreementTest(
            {}, f"no grammar test: minimal pairs are made from English; this text: {language.summary}"
        )
    pairs = _measurable_kinds(agreement_pairs(sentences, _MAX_PAIRS))
    if not pairs:
        return AgreementTest(
            {}, f"no grammar test: fewer than {_MIN_PAIRS} minimal pairs in the held-out text"
        )
    shutil.rmtree(folder, ignore_errors=True)
    with atomic_folder(folder) as partial_folder:
        rows = (
            {"sentence_good": pair.good_sentence, "sentence_bad": pair.bad_sentence, "UID": pair.kind}
            for pair in pairs
        )
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (partial_folder / "pairs.jsonl").write_text("".join(lines), encoding="utf-8")
    return AgreementTest({run.name: _score_model(run, folder, pairs) for run in runs})


def _measurable_kinds(pairs: Sequence[AgreementPair]) -> list[AgreementPair]:
    """Return the pairs of the kinds of which there are enough; rare kinds together are one kind."""
    counts = Counter(pair.kind for pair in pairs)
    merged = [pair if counts[pair.kind] >= _MIN_PAIRS else replace(pair, kind=_RARE_KINDS) for pair in pairs]
    counts = Counter(pair.kind for pair in merged)
    return [pair for pair in merged if counts[pair.kind] >= _MIN_PAIRS]


def _score_model(run: Path, folder: Path, pairs: Sequence[AgreementPair]) -> ModelAgreement:
    scorer = fill_mask_pipeline(run).scorer
    settings = EvaluateSettings(data=str(folder))
    (result,) = score_minimal_pairs(scorer, settings, run.name)
    examples = _one_of_each_kind_first(pairs)[:_EXAMPLES]
    texts = [text for pair in examples for text in (pair.good_sentence, pair.bad_sentence)]
    scores = [text_score.pll for text_score in scorer.score(texts)]
    return ModelAgreement(
        result.overall,
        list(result.paradigms),
        [
            ScoredPair(pair, good, bad)
            for pair, good, bad in zip(examples, scores[::2], scores[1::2], strict=True)
        ],
    )


def _one_of_each_kind_first(pairs: Sequence[AgreementPair]) -> list[AgreementPair]:
    """Return pairs in turns: the first of each kind, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for pair in pairs:
        turns.append(seen[pair.kind])
        seen[pair.kind] += 1
    return [pair for _, pair in sorted(zip(turns, pairs, strict=True), key=lambda item: item[0])]


def print_agreement(test: AgreementTest) -> None:
    """Print the accuracy of each model, or why there is none."""
    if test.reason:
        progress.print_message(test.reason)
    for name, result in test.models.items():
        overall = result.overall
        progress.print_message(
            f"{name}: prefers the grammatical sentence in {overall.accuracy:.0%} of "
            f"{overall.num_pairs:,} minimal pairs (chance: 50%)"
        )
