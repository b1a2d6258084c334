"""The probe: evaluates a checkpoint on the pre-training objectives, on held-out documents.

It evaluates masked tokens, sentence order (SOP) and next sentence (NSP), even if the
checkpoint was trained on only one of the pair objectives or on neither; a model with one
segment cannot tell the parts of a pair apart, so only masked tokens are evaluated. The
checkpoint may come from Albertine, from `transformers` or from Google; its tokenizer must
be that of the corpus. Matrix products are in fp32 on all machines.
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.markup import escape

from albertine import progress
from albertine.corpus.batches import collate
from albertine.corpus.corpus import Corpus, open_corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings
from albertine.device import choose_device
from albertine.errors import InputError
from albertine.interop.hub import locate_checkpoint
from albertine.model.depth_plan import depth_plan
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.pretrain.kept_gain import KeptGain, measure_kept_gain
from albertine.pretrain.scores import (
    SUM_COLUMNS,
    SampleSums,
    ratio_estimate,
    sample_sums,
    wilson_estimate,
)
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.pretrain.setup import load_pretrained_checkpoint
from albertine.pretrain.unigram_baseline import TokenFrequencies
from albertine.settings import build_settings
from albertine.tasks.metrics.intervals import Estimate
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.run_folder import SETTINGS_FILE, read_run_settings

_MICRO_BATCH_TOKENS = 4_096


@dataclass(frozen=True)
class ProbeResult:
    """Result of a probe.

    Attributes:
        sequences: number of sequences for each objective.
        masked_tokens: number of masked tokens.
        unigram_loss: MLM loss of a model that knows only token frequencies.
        mlm_loss: MLM loss of all masked tokens.
        mlm_accuracy: accuracy on all masked tokens.
        mask_token_loss: MLM loss of the masked tokens that became [MASK]. Of the others, some are unchanged,
            so that the model can copy them, and some became a random token.
        mask_token_accuracy: accuracy on the masked tokens that became [MASK].
        sop_loss: loss of sentence order; NaN for a model with one segment.
        sop_accuracy: accuracy of sentence order; NaN in the same case.
        nsp_loss: loss of next sentence; NaN if it is not evaluated, if text of only one document is held
            out, or for a model with one segment.
        nsp_accuracy: accuracy of next sentence; NaN in the same case.
        kept: the comparison with the original; None without one.
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
    kept: KeptGain | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result under stable keys; unknown values are null."""
        text = json.dumps({**asdict(self), "kept": self.kept and self.kept.to_json()})
        values: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
        return values


def _trained_length(checkpoint: str) -> int:
    """Return the length of the longest samples of a run, also of one of its checkpoints; 512 for others.

    A model with rotary positions may take more tokens than it has seen together, and is worse on them.
    """
    folder = Path(checkpoint)
    if not folder.exists():  # a URL or a hub name
        folder = locate_checkpoint(checkpoint)
    run = folder.parent.parent if folder.parent.name == CHECKPOINTS_FOLDER else folder
    if not (run / SETTINGS_FILE).exists():  # no settings of a run are known
        return 512
    return build_settings(PretrainSettings, read_run_settings(run, PretrainSettings)).longest_sample()


def probe(checkpoint: str, settings: ProbeSettings, *, with_nsp: bool = True) -> ProbeResult:
    """Evaluate a checkpoint on the held-out documents of a corpus.

    Args:
        checkpoint: a folder or a hub name.
        settings: the corpus and the number of tokens.
        with_nsp: whether to evaluate next sentence too, which takes half of the time.
    """
    corpus = open_corpus(settings.corpus)
    model = _load(checkpoint, corpus, settings)
    original = None if settings.original is None else _load(settings.original, corpus, settings)
    depth_plan(model.settings, settings.depth)  # raises if the model cannot be so deep
    longest, name = model.settings.max_length, "the model"
    if original is not None and original.settings.max_length < longest:
        longest, name = original.settings.max_length, str(settings.original)
    max_length = settings.max_length or min(_trained_length(checkpoint), longest)
    if max_length > longest:
        raise InputError(f"--max-length {max_length}: {name} takes {longest} tokens")
    has_pairs = min(one.settings.segments for one in (model, original or model)) > 1
    objective = ObjectiveSettings("sop" if has_pairs else "none", max_length, seed=settings.seed)
    sums = _evaluate_samples(model, corpus, objective, settings)
    sop, nsp = sums if has_pairs else sums[:0], sums[:0]
    if has_pairs and with_nsp and corpus.manifest.documents["dev"] > 1:
        nsp = _evaluate_samples(model, corpus, replace(objective, pair="nsp"), settings)
    dataset = PretrainDataset(corpus, objective, "dev")
    unigram_loss = TokenFrequencies.from_corpus(corpus).baseline_loss(dataset, len(sums))
    kept = None
    if original is not None:
        original_sums = _evaluate_samples(original, corpus, objective, replace(settings, depth=None))
        kept = measure_kept_gain(
            str(settings.original), (model, original), (sums, original_sums), unigram_loss
        )
    return ProbeResult(
        sequences=len(sums),
        masked_tokens=int(sums[:, SUM_COLUMNS.index("num_targets")].sum()),
        unigram_loss=unigram_loss,
        mlm_loss=ratio_estimate(sums, "mlm_loss", "num_targets"),
        mlm_accuracy=ratio_estimate(sums, "mlm_correct", "num_targets"),
        mask_token_loss=ratio_estimate(sums, "mask_token_loss", "num_mask_tokens"),
        mask_token_accuracy=ratio_estimate(sums, "mask_token_correct", "num_mask_tokens"),
        sop_loss=ratio_estimate(sop, "pair_loss", None),
        sop_accuracy=wilson_estimate(sop, "pair_correct"),
        nsp_loss=ratio_estimate(nsp, "pair_loss", None),
        nsp_accuracy=wilson_estimate(nsp, "pair_correct"),
        kept=kept,
    )


def _load(checkpoint: str, corpus: Corpus, settings: ProbeSettings) -> Model:
    """Return a checkpoint on its device."""
    model = load_pretrained_checkpoint(checkpoint, corpus, predicts_masks=True)
    device = choose_device(settings.device)
    model.configure(ComputeOptions(torch.float32))  # on all machines, so that they agree on the numbers
    return model.to(device).eval()


def _evaluate_samples(
    model: Model, corpus: Corpus, objective: ObjectiveSettings, settings: ProbeSettings
) -> SampleSums:
    """Evaluate held-out samples of about `settings.tokens` tokens in total; return the sums of each sample.

    The result is `[samples, columns]`, with the columns `SUM_COLUMNS`.
    """
    dataset = PretrainDataset(corpus, objective, "dev")
    indices = np.arange(min(len(dataset), max(1, settings.tokens // objective.max_length)))
    samples_per_batch = max(1, _MICRO_BATCH_TOKENS // objective.max_length)
    chunks = [
        indices[start : start + samples_per_batch] for start in range(0, len(indices), samples_per_batch)
    ]
    batches = (collate(dataset.draw(chunk), len(chunk)) for chunk in chunks)
    device = next(model.parameters()).device
    title = "Probing masks" if objective.pair == "none" else f"Probing {objective.pair}"
    tracked_batches = progress.track(batches, title, total=len(chunks), unit="batches")
    mask_id = corpus.tokenizer.special_ids.mask
    return sample_sums(model, tracked_batches, device, mask_id, settings.depth)


def _percent(fraction: float) -> str:
    return "unknown" if math.isnan(fraction) else f"{fraction:.1%}"


def _interval(low: float, high: float, number_format: str) -> str:
    return "unknown" if math.isnan(low) else f"{low:{number_format}} to {high:{number_format}}"


def show_probe(checkpoint: str, result: ProbeResult, *, as_json: bool) -> None:
    """Print the result of a probe."""
    if as_json:
        progress.print_json({"source": checkpoint, **result.to_json()})
        return
    table = progress.result_table("", "correct", "95%", "chance", "loss", "95%", "baseline")
    rows = [
        ("masked tokens", result.mlm_accuracy, "", result.mlm_loss, f"{result.unigram_loss:.3f}"),
        (
            "[MASK] only",
            result.mask_token_accuracy,
            "",
            result.mask_token_loss,
            f"{result.unigram_loss:.3f}",
        ),
        ("order (SOP)", result.sop_accuracy, "50%", result.sop_loss, "0.693"),
        ("next (NSP)", result.nsp_accuracy, "50%", result.nsp_loss, "0.693"),
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
    console = progress.result_console()
    console.print(table)
    console.print(
        f"{result.sequences:,} held-out sequences, {result.masked_tokens:,} masked tokens; "
        "baseline: the loss of a model that knows only token frequencies, or of guessing",
        highlight=False,
    )
    if result.kept is not None:
        console.print(escape(result.kept.text), highlight=False)
    if math.isnan(result.sop_accuracy.value):
        console.print("SOP and NSP are unknown: they need a model with two segments", highlight=False)
    elif math.isnan(result.nsp_accuracy.value):
        console.print(
            "NSP is unknown: it needs held-out text of two documents, and the corpus has one; "
            "build it from more documents, or with a larger --held-out",
            highlight=False,
        )
