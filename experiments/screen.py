"""Screens one idea: trains a variation for equal processor time on one thread, and scores it.

    python -m experiments.screen --corpus my-corpus --blimp blimp/data --seconds 600 --norm before --seed 1

The result is one line of JSON, appended to `--out`.
"""

import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import cyclopts
import numpy as np
import torch
from cyclopts import Parameter
from torch import Tensor
from torch.nn import functional

from albertine.corpus.batches import Batch, BatchLoader, DataPosition, collate
from albertine.corpus.corpus import Corpus, open_corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings
from albertine.errors import InputError
from albertine.inference.minimal_pairs import first_of_each_paradigm, score_minimal_pairs
from albertine.inference.pseudo_likelihood import PseudoLikelihoodScorer
from albertine.inference.settings import EvaluateSettings
from albertine.model.strip import Strip
from albertine.pretrain.curriculum import CurriculumStages, parse_stages
from albertine.pretrain.scores import SUM_COLUMNS, sample_sums
from albertine.pretrain.unigram_baseline import TokenFrequencies
from albertine.settings import HeadSettings
from albertine.tasks.formats.minimal_pairs import read_minimal_pairs
from albertine.text.read_errors import ReadErrors
from albertine.train.muon import Muon
from experiments.copied_pairs import CopiedPairsDataset
from experiments.easy_samples import EasySamplesDataset
from experiments.network import VariantEngine, VariantModel
from experiments.save import check_save, save
from experiments.starts import new_model
from experiments.variation import Variation

_MICRO_BATCH_TOKENS = 2048
_WEIGHT_DECAY = 0.01
_HELD_OUT_SAMPLES, _HELD_OUT_SEED = 600, 12345
_MUON_MATRICES = ("projection", "out", "up", "down", "dense", "next_dense", "pooler", "replaced_dense")
# Other programs slow memory and caches. A step counts as at most so many times a fast one of its kind.
_SLOWEST_STEP = 1.05


def screen(
    variation: Annotated[Variation, Parameter(name="*")] = Variation(),  # noqa: B008
    *,
    corpus: Path,
    blimp: Path | None = None,
    pairs: int = 40,
    seconds: float = 600.0,
    name: str = "albert",
    out: Path = Path("screening.jsonl"),
    save_to: Path | None = None,
) -> None:
    """Train a variation, score it, and append the result to a file.

    Args:
        variation: what is tried.
        corpus: the corpus (albertine corpus build).
        blimp: folder of minimal pairs.
        pairs: minimal pairs of each paradigm.
        seconds: processor time of the training.
        name: name of the variation in the result.
        out: file of results; with minimal pairs, a run writes its line when it is trained, and again with
            their score.
        save_to: folder to write the model to, if its network is that of ALBERT.
    """
    torch.set_num_threads(1)
    data = open_corpus(corpus)
    frequencies = TokenFrequencies.from_corpus(data)
    model = new_model(variation, data, frequencies.counts.astype(float))
    # Before the training, so that a wrong option does not cost its time.
    if save_to is not None:
        check_save(model, data, save_to)
    if blimp is not None:
        _check_pairs(blimp, pairs)
    out.open("a", encoding="utf-8").close()
    run = _Run(model, data, frequencies, seconds)
    run.train()
    result = {"name": name, "seconds": seconds, "variation": asdict(variation), **run.result()}
    _append(result, out)
    if save_to is not None:
        save(model, data, save_to)
    if blimp is not None:
        result["blimp"] = _blimp_accuracy(model, data, blimp, pairs)
        _append(result, out)
    print(json.dumps({key: result[key] for key in ("name", "mask_loss", "blimp", "tokens") if key in result}))


def _append(result: dict[str, Any], out: Path) -> None:
    with out.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(result) + "\n")


class _Stage(NamedTuple):
    """What the samples and batches depend on."""

    masked: float
    length: float
    batch_tokens: float
    easy: float


class _Run:
    """The training of one variation."""

    def __init__(self, model: VariantModel, corpus: Corpus, frequencies: TokenFrequencies, seconds: float):
        self.model, self.corpus, self.seconds = model, corpus, seconds
        self._log_probabilities = frequencies.log_probabilities
        self.variation = v = model.encoder.variation
        self.steps = self.tokens = 0
        self._used = v.context_seconds
        self._costs: dict[tuple[Any, ...], list[float]] = {}
        self._curve: list[tuple[float, int, float]] = []
        self._masked, self._length = _stages(v.masked, 0.01, 0.9), _stages(v.length, 8, 512)
        self._batch_tokens = _stages(v.batch, 64, 2**20)
        self._depth, self._causal = _stages(v.depth or str(v.layers), 1, 100), _stages(v.causal, 0, 1)
        self._easy = _stages(v.easy, 0, 1)
        self._optimizers = _optimizers(model)
        self._average: dict[str, Tensor] = {}
        self._generator = torch.Generator().manual_seed(v.seed)

    def train(self) -> None:
        """Train until the time is used up; the model then has the weights to evaluate."""
        for batch, kind in self._batches():
            started = time.process_time()
            is_causal = torch.rand((), generator=self._generator).item() < self._value(self._causal)
            self._step(batch, depth=self._current_depth, causal=is_causal)
            self.steps, self.tokens = self.steps + 1, self.tokens + len(batch.strip.tokens)
            self._count_time((*kind, is_causal), time.process_time() - started, len(batch.strip.tokens))
            if len(self._curve) < 8 * self._used / self.seconds - 1:
                self._curve.append(
                    (round(self._used, 1), self.tokens, self._evaluate(samples=150)["mask_loss"])
                )
        for name, parameter in self.model.named_parameters():
            if name in self._average:
                parameter.data.copy_(self._average[name])

    def result(self) -> dict[str, Any]:
        """Return the scores on held-out samples, sizes, and the learning curve."""
        shared = sum(
            parameter.numel()
            for name, parameter in self.model.encoder.named_parameters()
            if not name.startswith(("tokens.", "segments.", "positions."))
        )
        return {
            **self._evaluate(_HELD_OUT_SAMPLES),
            **self._evaluate_next(_HELD_OUT_SAMPLES),
            "steps": self.steps,
            "tokens": self.tokens,
            "encoder_parameters": shared,
            "curve": self._curve,
        }

    @property
    def _fraction(self) -> float:
        return self._used / self.seconds

    def _batches(self) -> Iterator[tuple[Batch, tuple[Any, ...]]]:
        """Yield batches with the stage they are of, until the time is used up."""
        position = 0.0
        while self._fraction < 1:
            stage = self._stage
            loader = self._loader(stage, position)
            for batch in loader:
                yield batch, (*stage, math.ceil(self._current_depth))
                position = loader.position.sample_index / loader.epoch_samples
                if self._fraction >= 1 or stage != self._stage:
                    break

    @property
    def _stage(self) -> "_Stage":
        schedules = self._masked, self._length, self._batch_tokens, self._easy
        return _Stage(*map(self._value, schedules))

    def _value(self, stages: CurriculumStages) -> float:
        """Return the current value of a schedule."""
        milliseconds, total = int(1000 * self._used), int(1000 * self.seconds)
        return stages.value_at(min(milliseconds, total - 1), total)

    @property
    def _current_depth(self) -> float:
        """The depth, between two whole numbers of layers if it changes smoothly."""
        depth, smooth = self._value(self._depth), self.variation.smooth
        index = self._depth.values.index(depth)
        since_change = self._fraction - self._depth.starts[index]
        if not index or since_change >= smooth:
            return depth
        before = self._depth.values[index - 1]
        return before + (depth - before) * since_change / smooth

    def _loader(self, stage: "_Stage", position: float) -> BatchLoader:
        objective = ObjectiveSettings(
            pair=self.variation.pair,
            max_length=int(stage.length),
            mlm_probability=stage.masked,
            max_ngram=self.variation.ngram,
            seed=self.variation.seed + 1,
        )
        dataset = CopiedPairsDataset(self.corpus, objective, self.variation.copies)
        if self.variation.easy != "0":
            dataset = EasySamplesDataset(
                self.corpus, objective, self.variation.copies, stage.easy, self._log_probabilities
            )
        start = DataPosition(int(position * len(dataset)), 0)
        return BatchLoader(dataset, int(stage.batch_tokens), position=start)

    def _count_time(self, kind: tuple[Any, ...], seconds: float, tokens: int) -> None:
        costs = self._costs.setdefault(kind, [])
        costs.append(seconds / tokens)
        self._used += min(seconds, _SLOWEST_STEP * tokens * float(np.quantile(costs, 0.2)))

    def _step(self, batch: Batch, depth: float, *, causal: bool) -> None:
        v = self.variation
        if v.only_masks:
            batch.strip.tokens[batch.targets.masked.indices] = self.corpus.tokenizer.special_ids.mask
        counts = len(batch.targets.masked.labels), len(batch.strip), len(batch.strip.tokens)
        for part in batch.split(_MICRO_BATCH_TOKENS):
            with torch.autocast("cpu", torch.bfloat16, enabled=v.precision == "bf16"):
                loss = (
                    self._causal_loss(part, depth) / (counts[2] * v.causal_targets)
                    if causal
                    else self._loss(part, depth, counts)
                )
            loss.backward()
        for parameter in self.model.parameters():  # a causal step does not use all of them
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if v.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), v.clip)
        factor = _rate_factor(self._fraction, v)
        for optimizer, peak in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * factor
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        if v.average:
            decay = min(v.average, (1 + self.steps) / (10 + self.steps))
            for name, parameter in self.model.named_parameters():
                average = self._average.setdefault(name, parameter.detach().clone())
                average.lerp_(parameter.detach(), 1 - decay)

    def _loss(self, part: Batch, depth: float, counts: tuple[int, int, int]) -> Tensor:
        """Return the share of a micro-batch in the mean losses of the step."""
        v, model, targets = self.variation, self.model, part.targets
        out = model(part.strip, targets, depth=depth)
        loss = model.token_loss(out.masked.values, targets.masked.labels) / counts[0]
        if v.pair != "none":
            pair_loss = functional.cross_entropy(out.pair_logits, targets.pair_labels, reduction="sum")
            loss = loss + pair_loss / counts[1]
        if v.z_loss:
            loss = loss + v.z_loss * out.masked.logits.logsumexp(1).square().sum() / counts[0]
        if v.replaced_weight:
            logits = out.masked.logits.detach()
            loss = loss + v.replaced_weight * self._replaced_loss(part, logits, depth) / counts[2]
        return loss

    def _replaced_loss(self, part: Batch, logits: Tensor, depth: float) -> Tensor:
        """Return the loss of finding the tokens that the model itself has put in place of the masked ones."""
        masked, strip = part.targets.masked, part.strip
        tokens = strip.tokens.clone()
        original = tokens.index_copy(0, masked.indices, masked.labels)
        drawn = torch.distributions.Categorical(logits=logits).sample()
        tokens[masked.indices] = drawn
        hidden = self.model.encoder(Strip(tokens, strip.segments, strip.offsets), None, depth)
        is_replaced = (tokens != original).float()
        found = self.model.replaced_logits(hidden)
        return functional.binary_cross_entropy_with_logits(found, is_replaced, reduction="sum")

    def _causal_loss(self, part: Batch, depth: float) -> Tensor:
        """Return the sum of the losses of predicting each token from those before it."""
        causal = part.as_causal()
        indices, labels = causal.targets.masked.indices, causal.targets.masked.labels
        if (share := self.variation.causal_targets) < 1:
            is_chosen = torch.rand(len(indices), generator=self._generator) < share
            indices, labels = indices[is_chosen], labels[is_chosen]
        hidden = self.model.encoder(causal.strip, indices, depth)
        return self.model.token_loss(self.model.next_decoder_input(hidden), labels)

    def _evaluate(self, samples: int) -> dict[str, float]:
        """Return the loss on [MASK] tokens and the pair accuracy on fixed held-out samples."""
        objective = ObjectiveSettings(max_length=128, seed=_HELD_OUT_SEED)
        dataset = PretrainDataset(self.corpus, objective, "dev")
        batches = (
            collate(dataset.draw(np.arange(start, min(start + 32, samples))), 32)
            for start in range(0, samples, 32)
        )
        mask_id = self.corpus.tokenizer.special_ids.mask
        depth: Any = self._current_depth  # the model accepts a fraction
        sums = sample_sums(self.model, batches, torch.device("cpu"), mask_id, depth)
        totals = dict(zip(SUM_COLUMNS, sums.sum(0).tolist(), strict=True))
        masked = totals["num_mask_tokens"]
        return {
            "mask_loss": totals["mask_token_loss"] / masked,
            "mask_accuracy": totals["mask_token_correct"] / masked,
            "pair_accuracy": totals["pair_correct"] / len(sums),
        }

    @torch.no_grad()
    def _evaluate_next(self, samples: int) -> dict[str, float]:
        """Return the loss of next tokens on the same held-out samples."""
        if self.variation.causal == "0":
            return {}
        dataset = PretrainDataset(self.corpus, ObjectiveSettings(max_length=128, seed=_HELD_OUT_SEED), "dev")
        total, count = 0.0, 0
        for start in range(0, samples, 32):
            batch = collate(dataset.draw(np.arange(start, min(start + 32, samples))), 32)
            causal = batch.as_causal()
            targets = causal.targets.masked
            hidden = self.model.encoder(causal.strip, targets.indices, self._current_depth)
            values = self.model.next_decoder_input(hidden)
            total += float(self.model.token_loss(values, targets.labels))
            count += len(targets.indices)
        return {"next_loss": total / count}


def _stages(text: str, minimum: float, maximum: float) -> CurriculumStages:
    key = "length" if minimum >= 1 else "mlm_probability"  # the key only matters for messages
    return parse_stages(key, text, minimum, maximum)


def _rate_factor(fraction: float, variation: Variation) -> float:
    """Return the learning rate at a fraction of the time, relative to the peak."""
    if fraction < variation.warmup:
        return (fraction + 1e-9) / variation.warmup
    rest = (fraction - variation.warmup) / (1 - variation.warmup)
    match variation.schedule:
        case "linear":
            return max(0.0, 1 - rest)
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * min(1.0, rest)))
        case "trapezoid":
            return max(0.0, min(1.0, (1 - fraction) / 0.3))


def _optimizers(model: VariantModel) -> list[tuple[Any, float]]:
    """Return the optimizers with their peak learning rates."""
    v = model.encoder.variation
    stacked: list[Tensor] = []
    hidden: list[Tensor] = []
    others: list[Tensor] = []
    vectors: list[Tensor] = []
    for name, parameter in model.named_parameters():
        module = name.split(".")[-2] if "." in name else ""
        if parameter.dim() != 2 or not name.endswith(".weight"):
            vectors.append(parameter)
        elif module == "qkv":
            stacked.append(parameter)
        else:
            (hidden if module in _MUON_MATRICES else others).append(parameter)
    muon_parameters = [*stacked, *hidden] if v.optimizer == "muon" else []
    groups = [
        {
            "params": others if muon_parameters else [*stacked, *hidden, *others],
            "weight_decay": _WEIGHT_DECAY,
        },
        {"params": vectors, "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, 0.0, fused=True)
    if not muon_parameters:
        return [(adamw, v.lr)]
    muon_groups = [
        {"params": stacked, "weight_decay": _WEIGHT_DECAY, "matrix_count": 3},
        {"params": hidden, "weight_decay": _WEIGHT_DECAY},
    ]
    muon_dtype = torch.bfloat16 if v.precision == "bf16" else torch.float32
    return [(Muon(muon_groups, 0.0, muon_dtype), v.lr), (adamw, v.lr if v.adamw_lr is None else v.adamw_lr)]


def _check_pairs(folder: Path, pairs: int) -> None:
    """Raise `InputError` if the minimal pairs that are scored cannot be read."""
    found = first_of_each_paradigm(read_minimal_pairs(str(folder), ReadErrors(skip=False)), pairs)
    if not sum(1 for _ in found):
        raise InputError(f"--blimp {folder}: no minimal pairs")


def _blimp_accuracy(model: VariantModel, corpus: Corpus, folder: Path, pairs: int) -> float:
    """Return the mean accuracy over the paradigms of BLiMP."""
    settings = replace(model.encoder.variation.model_settings(len(corpus.tokenizer)), max_length=128)
    engine = VariantEngine(model, settings, HeadSettings(kind="pretrain"))
    scorer = PseudoLikelihoodScorer(engine, corpus.tokenizer)
    evaluate_settings = replace(EvaluateSettings(), task="blimp", data=str(folder), pairs=pairs)
    (result,) = score_minimal_pairs(scorer, evaluate_settings, "variation")
    return result.overall.accuracy


if __name__ == "__main__":
    cyclopts.run(screen)
