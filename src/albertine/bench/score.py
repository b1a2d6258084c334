"""Benchmark of scoring with pseudo-log-likelihoods.

The peer is what one writes with `transformers`: `AutoModelForMaskedLM` with SDPA attention computes the
masked copies of all texts, sorted by length, 256 in a batch. Both sides score the same different
sentences of minimal pairs with the same weights and report the same sums. The runs of both alternate,
and the peer gets token ids, so that only Albertine's time includes the tokenizer.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from albertine import progress
from albertine.bench.peer_model import check_transformers, peer_options
from albertine.bench.peer_pretraining import reset_environment
from albertine.bench.settings import ScoreBenchSettings
from albertine.device import synchronized_time
from albertine.engines.torch_engine import prepare_torch_engine
from albertine.errors import InputError, WorkError
from albertine.inference.masked_copies import EncodedText, ScoringMethod
from albertine.inference.minimal_pairs import first_of_each_paradigm
from albertine.inference.pseudo_likelihood import PseudoLikelihoodScorer
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import ModelSettings
from albertine.tasks.formats.minimal_pairs import read_minimal_pairs
from albertine.text.read_errors import ReadErrors
from albertine.text.tokenizer import Tokenizer, load_tokenizer

_BATCH_SIZE = 256  # masked copies in a batch of the peer
_TOLERANCE = 1e-3  # of a text's sum of log-probabilities


@dataclass(frozen=True)
class ScoreComparison:
    """The result for one method.

    Attributes:
        method: method of scoring.
        num_texts: number of different texts.
        num_tokens: number of their tokens.
        texts_per_second: Albertine's median rate.
        peer_texts_per_second: the peer's median rate.
        largest_difference: largest difference between the sums of both sides for one text, in nats.
    """

    method: ScoringMethod
    num_texts: int
    num_tokens: int
    texts_per_second: float
    peer_texts_per_second: float
    largest_difference: float

    @property
    def ratio(self) -> float:
        """Albertine's rate as a multiple of the peer's."""
        return self.texts_per_second / self.peer_texts_per_second


class PeerScorer:
    """Scores encoded texts with a model of `transformers`."""

    def __init__(self, folder: Path, model: ModelSettings, tokenizer: Tokenizer, device: torch.device):
        reset_environment()
        import transformers

        model_class: Any = transformers.AutoModelForMaskedLM
        options = {"attn_implementation": "sdpa", "dtype": torch.float32, **peer_options(folder, model)}
        self._model = model_class.from_pretrained(folder, **options).to(device).eval()
        self._mask_id, self._pad_id = tokenizer.special_ids.mask, tokenizer.special_ids.pad
        self._device = device

    def score(self, texts: Sequence[EncodedText], method: ScoringMethod) -> list[float]:
        """Return the pseudo-log-likelihood of each text."""
        copies = [
            (index, position, end if method == "word-l2r" else position + 1)
            for index, text in enumerate(texts)
            for position, end in enumerate(text.word_ends.tolist(), start=1)
        ]
        copies.sort(key=lambda copy: len(texts[copy[0]].ids))
        sums = [0.0] * len(texts)
        for first in range(0, len(copies), _BATCH_SIZE):
            batch = copies[first : first + _BATCH_SIZE]
            for (index, _, _), value in zip(batch, self._log_probabilities(texts, batch), strict=True):
                sums[index] += value
        return sums

    def _log_probabilities(
        self, texts: Sequence[EncodedText], copies: Sequence[tuple[int, int, int]]
    ) -> list[float]:
        """Return the log-probability of the first masked token of each copy."""
        longest = max(len(texts[index].ids) for index, _, _ in copies)
        input_ids = torch.full((len(copies), longest), self._pad_id)
        attention_mask = torch.zeros_like(input_ids)
        labels = torch.zeros(len(copies), dtype=torch.long)
        for row, (index, position, end) in enumerate(copies):
            ids = torch.from_numpy(texts[index].ids).long()
            input_ids[row, : len(ids)], attention_mask[row, : len(ids)] = ids, 1
            labels[row] = ids[position]
            input_ids[row, position:end] = self._mask_id
        positions = torch.tensor([position for _, position, _ in copies], device=self._device)
        rows = torch.arange(len(copies), device=self._device)
        with torch.inference_mode():
            logits: Tensor = self._model(
                input_ids=input_ids.to(self._device), attention_mask=attention_mask.to(self._device)
            ).logits
            predicted = logits[rows, positions].float().log_softmax(1)
            values: list[float] = predicted[rows, labels.to(self._device)].tolist()
        return values


def measure_scoring(data: str, tokenizer_folder: Path, settings: ScoreBenchSettings) -> list[ScoreComparison]:
    """Return the rates of both sides for each method, on the sentences of minimal pairs.

    Args:
        data: a folder of .jsonl files with minimal pairs, or one file.
        tokenizer_folder: folder of a tokenizer.
        settings: the model, the number of pairs and of runs.
    """
    check_transformers("bench score")
    tokenizer = load_tokenizer(tokenizer_folder)
    settings = replace(settings, model=replace(settings.model, vocab_size=len(tokenizer)))
    device = torch.device(settings.device)
    pairs = first_of_each_paradigm(read_minimal_pairs(data, ReadErrors(skip=False)), settings.pairs)
    sentences = list(dict.fromkeys(sentence for pair in pairs for sentence in (pair.good, pair.bad)))
    if not sentences:
        raise InputError(f"{data}: no minimal pairs")
    with tempfile.TemporaryDirectory() as folder:
        model = Model(settings.model)
        save_folder(model, Path(folder) / "model", tokenizer=tokenizer)
        peer = PeerScorer(Path(folder) / "model", settings.model, tokenizer, device)
    engine = prepare_torch_engine(model, settings.device, "fp32")
    methods: tuple[ScoringMethod, ...] = ("word-l2r", "token")
    return [
        _compare(method, sentences, lambda: PseudoLikelihoodScorer(engine, tokenizer), peer, settings)
        for method in methods
    ]


def _compare(
    method: ScoringMethod,
    sentences: Sequence[str],
    new_scorer: Callable[[], PseudoLikelihoodScorer],
    peer: PeerScorer,
    settings: ScoreBenchSettings,
) -> ScoreComparison:
    """Return the rates of both sides for one method.

    Args:
        method: the method.
        sentences: different sentences.
        new_scorer: returns a scorer that has not scored these sentences yet.
        peer: the other side.
        settings: number of runs and device.
    """
    device = torch.device(settings.device)
    encoded = new_scorer().encode(sentences)
    if too_long := next((text for text in encoded if new_scorer().is_too_long(text)), None):
        raise InputError(f"a sentence of {new_scorer().length_problem(too_long)}; choose a longer --model")
    warm_up = max(1, len(sentences) // 10)
    new_scorer().score(sentences[:warm_up], method)
    peer.score(encoded[:warm_up], method)
    seconds, peer_seconds = [], []
    scores, peer_scores = [], []
    for _ in progress.track(range(settings.runs), f"Scoring, {method}", unit="runs"):
        scorer, started = new_scorer(), synchronized_time(device)
        scores = [score.pll for score in scorer.score(sentences, method)]
        middle = synchronized_time(device)
        peer_scores = peer.score(encoded, method)
        seconds.append(middle - started)
        peer_seconds.append(synchronized_time(device) - middle)
    difference = max(abs(ours - theirs) for ours, theirs in zip(scores, peer_scores, strict=True))
    if difference > _TOLERANCE:
        raise WorkError(f"bench score: the sums of a text differ by {difference:.2g}; report this")
    return ScoreComparison(
        method,
        len(sentences),
        sum(map(len, encoded)),
        len(sentences) / median(seconds),
        len(sentences) / median(peer_seconds),
        difference,
    )


def show_scoring(results: Sequence[ScoreComparison], *, as_json: bool) -> None:
    """Print the results as text or JSON."""
    if as_json:
        progress.print_json({"results": [{**asdict(result), "ratio": result.ratio} for result in results]})
        return
    for result in results:
        print(
            f"{result.method:9} {result.num_texts:,} texts, {result.num_tokens:,} tokens: "
            f"{result.texts_per_second:,.1f} texts/s, transformers {result.peer_texts_per_second:,.1f} "
            f"({result.ratio:.2f} times); largest difference {result.largest_difference:.1g} nats"
        )
