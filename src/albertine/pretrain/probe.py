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
from albertine.corpus.batches import to_batch
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sampler
from albertine.corpus.settings import Objective
from albertine.errors import InputError
from albertine.model.encoder import Computation
from albertine.model.network import Model
from albertine.pretrain.prepare import checkpoint_of, corpus_of
from albertine.pretrain.scores import Estimate, Table, ratio, table_of, wilson
from albertine.pretrain.settings import ProbeSettings
from albertine.pretrain.unigram import Frequencies
from albertine.train.machine import choose_precision
from albertine.train.ranks import choose_device

_AT_ONCE = 4_096


@dataclass(frozen=True)
class Probed:
    """What was measured.

    Attributes:
        samples: how many sequences of each kind of pair.
        pieces: how many masked pieces the MLM figures are over.
        unigram: the MLM loss of piece frequencies alone.
        hidden_loss: over those masked pieces alone that [MASK] hides; the others can be seen.
    """

    samples: int
    pieces: int
    unigram: float
    mlm_loss: Estimate
    mlm_accuracy: Estimate
    hidden_loss: Estimate
    hidden_accuracy: Estimate
    sop_loss: Estimate
    sop_accuracy: Estimate
    nsp_loss: Estimate
    nsp_accuracy: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return it under stable keys; what is not known is null."""
        known: dict[str, Any] = json.loads(json.dumps(asdict(self)), parse_constant=lambda _: None)
        return known


def probe(source: str, settings: ProbeSettings) -> Probed:
    """Measure a checkpoint on held-out documents."""
    corpus = corpus_of(settings.corpus)
    network = checkpoint_of(source, corpus)
    device = choose_device(settings.device)
    network.encoder.computation = Computation(choose_precision("auto", device))
    network.to(device).eval()
    longest = settings.max_length or min(512, network.model.max_length)
    if longest > network.model.max_length:
        raise InputError(f"--max-length {longest}: the model takes {network.model.max_length} pieces")
    objective = Objective("sop", longest, seed=settings.seed)
    sop = _table(network, corpus, objective, settings.tokens)
    nsp = sop[:0]  # of a single document there is no other one
    if corpus.manifest.documents["dev"] > 1:
        nsp = _table(network, corpus, replace(objective, pair="nsp"), settings.tokens)
    return Probed(
        samples=len(sop),
        pieces=int(sop[:, 0].sum()),
        unigram=Frequencies.of(corpus).loss(Sampler(corpus, objective, "dev"), len(sop)),
        mlm_loss=ratio(sop, "mlm_loss", "masked"),
        mlm_accuracy=ratio(sop, "mlm_right", "masked"),
        hidden_loss=ratio(sop, "hidden_loss", "hidden"),
        hidden_accuracy=ratio(sop, "hidden_right", "hidden"),
        sop_loss=ratio(sop, "pair_loss", None),
        sop_accuracy=wilson(sop, "pair_right"),
        nsp_loss=ratio(nsp, "pair_loss", None),
        nsp_accuracy=wilson(nsp, "pair_right"),
    )


def _table(network: Model, corpus: Corpus, objective: Objective, tokens: int) -> Table:
    sampler = Sampler(corpus, objective, "dev")
    places = np.arange(min(len(sampler), max(1, tokens // objective.max_length)))
    size = max(1, _AT_ONCE // objective.max_length)
    chunks = [places[at : at + size] for at in range(0, len(places), size)]
    batches = (to_batch(sampler.draw(one), len(one)) for one in chunks)
    device = next(network.parameters()).device
    counted = progress.track(batches, f"Probing {objective.pair}", total=len(chunks), unit="batches")
    return table_of(network, counted, device, corpus.tokenizer.special.mask)


def _percent(share: float) -> str:
    return "unknown" if math.isnan(share) else f"{share:.1%}"


def _between(low: float, high: float, form: str) -> str:
    return "unknown" if math.isnan(low) else f"{low:{form}} to {high:{form}}"


def show(source: str, found: Probed, *, as_json: bool) -> None:
    """Print what was measured."""
    if as_json:
        print(json.dumps({"source": source, **found.to_json()}, indent=2))
        return
    sheet = Sheet(box=None, pad_edge=False, header_style="bold")
    for title in ("", "right", "95%", "chance", "loss", "95%", "level"):
        sheet.add_column(title, justify="left" if not title and not sheet.columns else "right", no_wrap=True)
    rows = [
        ("masked pieces", found.mlm_accuracy, "", found.mlm_loss, f"{found.unigram:.3f}"),
        ("behind [MASK] alone", found.hidden_accuracy, "", found.hidden_loss, f"{found.unigram:.3f}"),
        ("order (SOP)", found.sop_accuracy, "50%", found.sop_loss, "0.693"),
        ("company (NSP)", found.nsp_accuracy, "50%", found.nsp_loss, "0.693"),
    ]
    for name, accuracy, chance, loss, level in rows:
        sheet.add_row(
            escape(name),
            _percent(accuracy.value),
            _between(100 * accuracy.low, 100 * accuracy.high, ".1f"),
            chance,
            "unknown" if math.isnan(loss.value) else f"{loss.value:.3f}",
            _between(loss.low, loss.high, ".3f"),
            level,
        )
    out = progress.results()
    out.print(sheet)
    out.print(
        f"{found.samples:,} held-out sequences, {found.pieces:,} masked pieces; "
        "level: the loss of one who knows frequencies alone, or tosses a coin",
        highlight=False,
    )
