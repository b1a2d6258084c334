"""What a checkpoint knows of the pre-training objectives: masked pieces, order, company.

Any checkpoint that reads the corpus's pieces can be asked, of ours, of `transformers` or of
Google's. Samples are drawn from held-out documents; pairs in order and swapped for SOP, and of
one document and of two for NSP, whichever of them the checkpoint was trained on.
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table as Sheet

from albertine import progress
from albertine.corpus.batches import collate
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings
from albertine.device import choose_precision
from albertine.errors import InputError
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.pretrain.scores import Estimate, SampleSums, ratio_estimate, sample_sums, wilson_estimate
from albertine.pretrain.settings import ProbeSettings
from albertine.pretrain.setup import load_pretrained_checkpoint, open_corpus
from albertine.pretrain.unigram_baseline import TokenFrequencies
from albertine.train.distributed import choose_device

_MICRO_BATCH_TOKENS = 4_096


@dataclass(frozen=True)
class ProbeResult:
    """What was measured.

    Attributes:
        sequences: how many sequences of each kind of pair.
        masked_tokens: how many masked pieces the MLM figures are over.
        unigram_loss: the MLM loss of piece frequencies alone.
        mask_token_loss: over those masked pieces alone that [MASK] hides; the others can be seen.
    """

    sequences: int
    masked_tokens: int
    unigram_loss: float
    mlm_loss: Estimate
    mlm_accuracy: Estimate
    mask_token_loss: Estimate
    mask_token_accuracy: Estimate
    sop_loss: Estimate
    sop_accuracy: Estimate
    nsp_loss: Estimate
    nsp_accuracy: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return it under stable keys; what is not known is null."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)), parse_constant=lambda _: None)
        return values


def probe(source: str, settings: ProbeSettings) -> ProbeResult:
    """Measure a checkpoint on held-out documents."""
    corpus = open_corpus(settings.corpus)
    network = load_pretrained_checkpoint(source, corpus)
    device = choose_device(settings.device)
    network.encoder.compute_options = ComputeOptions(choose_precision("auto", device))
    network.to(device).eval()
    max_length = settings.max_length or min(512, network.settings.max_length)
    if max_length > network.settings.max_length:
        raise InputError(f"--max-length {max_length}: the model takes {network.settings.max_length} pieces")
    objective = ObjectiveSettings("sop", max_length, seed=settings.seed)
    sop = _sample_sums(network, corpus, objective, settings.tokens)
    nsp = sop[:0]  # of a single document there is no other one
    if corpus.manifest.documents["dev"] > 1:
        nsp = _sample_sums(network, corpus, replace(objective, pair="nsp"), settings.tokens)
    return ProbeResult(
        sequences=len(sop),
        masked_tokens=int(sop[:, 0].sum()),
        unigram_loss=TokenFrequencies.from_corpus(corpus).baseline_loss(
            PretrainDataset(corpus, objective, "dev"), len(sop)
        ),
        mlm_loss=ratio_estimate(sop, "mlm_loss", "masked"),
        mlm_accuracy=ratio_estimate(sop, "mlm_right", "masked"),
        mask_token_loss=ratio_estimate(sop, "hidden_loss", "hidden"),
        mask_token_accuracy=ratio_estimate(sop, "hidden_right", "hidden"),
        sop_loss=ratio_estimate(sop, "pair_loss", None),
        sop_accuracy=wilson_estimate(sop, "pair_right"),
        nsp_loss=ratio_estimate(nsp, "pair_loss", None),
        nsp_accuracy=wilson_estimate(nsp, "pair_right"),
    )


def _sample_sums(network: Model, corpus: Corpus, objective: ObjectiveSettings, tokens: int) -> SampleSums:
    sampler = PretrainDataset(corpus, objective, "dev")
    sample_numbers = np.arange(min(len(sampler), max(1, tokens // objective.max_length)))
    size = max(1, _MICRO_BATCH_TOKENS // objective.max_length)
    chunks = [sample_numbers[at : at + size] for at in range(0, len(sample_numbers), size)]
    batches = (collate(sampler.draw(one), len(one)) for one in chunks)
    device = next(network.parameters()).device
    tracked_batches = progress.track(batches, f"Probing {objective.pair}", total=len(chunks), unit="batches")
    return sample_sums(network, tracked_batches, device, corpus.tokenizer.special_ids.mask)


def _percent(share: float) -> str:
    return "unknown" if math.isnan(share) else f"{share:.1%}"


def _interval(low: float, high: float, number_format: str) -> str:
    return "unknown" if math.isnan(low) else f"{low:{number_format}} to {high:{number_format}}"


def show_probe(source: str, result: ProbeResult, *, as_json: bool) -> None:
    """Print what was measured."""
    if as_json:
        print(json.dumps({"source": source, **result.to_json()}, indent=2))
        return
    table = Sheet(box=None, pad_edge=False, header_style="bold")
    for title in ("", "right", "95%", "chance", "loss", "95%", "level"):
        table.add_column(title, justify="left" if not title and not table.columns else "right", no_wrap=True)
    rows = [
        ("masked pieces", result.mlm_accuracy, "", result.mlm_loss, f"{result.unigram_loss:.3f}"),
        (
            "behind [MASK] alone",
            result.mask_token_accuracy,
            "",
            result.mask_token_loss,
            f"{result.unigram_loss:.3f}",
        ),
        ("order (SOP)", result.sop_accuracy, "50%", result.sop_loss, "0.693"),
        ("company (NSP)", result.nsp_accuracy, "50%", result.nsp_loss, "0.693"),
    ]
    for name, accuracy, chance, loss, baseline in rows:
        table.add_row(
            escape(name),
            _percent(accuracy.value),
            _interval(100 * accuracy.low, 100 * accuracy.high, ".1f"),
            chance,
            "unknown" if math.isnan(loss.value) else f"{loss.value:.3f}",
            _interval(loss.low, loss.high, ".3f"),
            baseline,
        )
    out = progress.result_console()
    out.print(table)
    out.print(
        f"{result.sequences:,} held-out sequences, {result.masked_tokens:,} masked pieces; "
        "level: the loss of one who knows frequencies alone, or tosses a coin",
        highlight=False,
    )
