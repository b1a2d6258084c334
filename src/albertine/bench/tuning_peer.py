"""Fine-tuning with `transformers`, as one sets it up with care: what our own tuning is held beside."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from albertine.bench.peer import as_delivered
from albertine.bench.settings import FinetuneBench
from albertine.interop.names import family_of
from albertine.model.heads import LabelOutput, SpanOutput, SpanTargets
from albertine.tasks.kinds.kind import Row, Sample, Sheet, strip_of
from albertine.tasks.prepare import Prepared
from albertine.tasks.scoring import at_once_on
from albertine.tasks.work import order_of
from albertine.train.machine import now
from albertine.train.schedule import Schedule

_CLASSES = {
    "classify": "AutoModelForSequenceClassification",
    "regress": "AutoModelForSequenceClassification",
    "token": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
    "choice": "AutoModelForMultipleChoice",
}


_DROPOUT = {"albert": "classifier_dropout_prob", "bert": "classifier_dropout"}


class TuningPeer:
    """The other side."""

    def __init__(self, prepared: Prepared, settings: FinetuneBench, device: torch.device, dtype: torch.dtype):
        as_delivered()
        import transformers

        # Their heads do not judge whether there is an answer; the score of none at [CLS] does.
        self.kind = prepared.card.reader(prepared.tokenizer, dropout=prepared.kind.head.dropout)
        head = self.kind.head
        torch.manual_seed(settings.train.seed)
        made: Any = getattr(transformers, _CLASSES[head.kind])
        labels = {"num_labels": head.labels} if head.kind in ("classify", "regress", "token") else {}
        self.network = made.from_pretrained(
            prepared.folder,
            attn_implementation="sdpa",
            hidden_dropout_prob=settings.dropout,
            attention_probs_dropout_prob=settings.dropout,
            **{_DROPOUT[family_of(prepared.network)]: head.dropout},
            **labels,
        ).to(device)
        self._prepared, self._settings = prepared, settings
        self._device, self._dtype = device, dtype
        decay = settings.train.weight_decay
        parameters = list(self.network.parameters())
        self._optimizer = torch.optim.AdamW(
            [
                {"params": [one for one in parameters if one.dim() > 1], "weight_decay": decay},
                {"params": [one for one in parameters if one.dim() == 1], "weight_decay": 0.0},
            ],
            lr=0.0,
            fused=True,
        )

    def train(self) -> float:
        """Take all steps; return the seconds."""
        train = self._settings.train
        samples = [sample for sheet in self._prepared.train for sample in sheet.samples]
        schedule = Schedule.settled(train)
        self.network.train()
        seconds = 0.0
        for step, batch in enumerate(_batches(samples, train.seed, train.batch or 1, train.steps)):
            started = now(self._device)
            self._optimizer.zero_grad()
            for piece in self._pieces(batch):
                with self._autocast():
                    loss = self._loss(piece) * self._share(piece, batch)
                loss.backward()
            if train.clip:
                torch.nn.utils.clip_grad_norm_(self.network.parameters(), train.clip)
            for group in self._optimizer.param_groups:
                group["lr"] = schedule.rate(step)
            self._optimizer.step()
            seconds += now(self._device) - started
        return seconds

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._dtype == torch.bfloat16)

    def _inputs(self, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """Pad sequences to the longest."""
        ids, mask, types = strip_of(samples).to_padded()
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        if self.kind.head.kind == "choice":
            options = self.kind.head.options
            inputs = {name: one.view(-1, options, one.shape[1]) for name, one in inputs.items()}
        return {name: one.to(self._device) for name, one in inputs.items()}

    def _loss(self, samples: Sequence[Sample]) -> Tensor:
        targets: Any = self.kind.targets(samples)
        if isinstance(targets, SpanTargets):
            told = {"start_positions": targets.start, "end_positions": targets.end}
        elif self.kind.head.kind == "token":
            told = {"labels": strip_of(samples).pad(targets, -100)}
        else:
            told = {"labels": targets}
        told = {name: one.to(self._device) for name, one in told.items()}
        loss: Tensor = self.network(**self._inputs(samples), **told).loss
        return loss

    def rows(self, sheets: Sequence[Sheet]) -> list[list[Row]]:
        """Return the scores of all samples, in their order."""
        self.network.eval()
        samples = [sample for sheet in sheets for sample in sheet.samples]
        found: list[Row] = []
        with torch.no_grad(), self._autocast():
            for batch in self._pieces(samples):
                strip = strip_of(batch)
                found += self.kind.rows(self._output(self._inputs(batch), strip), strip)
        coming = iter(found)
        return [[next(coming) for _ in sheet.samples] for sheet in sheets]

    def _pieces(self, samples: Sequence[Sample]) -> Iterator[list[Sample]]:
        """Cut samples into as many tokens at once as ours, padding counted: more takes long to allocate."""
        piece: list[Sample] = []
        longest = 0
        budget = at_once_on(self._device)
        for sample in samples:
            long = max(map(len, sample.ids))
            if piece and (sum(len(one.ids) for one in piece) + len(sample.ids)) * max(longest, long) > budget:
                yield piece
                piece, longest = [], 0
            piece.append(sample)
            longest = max(longest, long)
        yield piece

    def _share(self, piece: Sequence[Sample], batch: Sequence[Sample]) -> float:
        """Return how much a piece's loss, a mean over what it judges, is of its batch's."""
        return self.kind.counts(piece)[0] / self.kind.counts(batch)[0]

    def _output(self, inputs: dict[str, Tensor], strip: Any) -> Any:
        """Put their output into the form that scores are read from."""
        out = self.network(**inputs)
        match self.kind.head.kind:
            case "span":
                start, end = (one[strip.real.to(one.device)] for one in (out.start_logits, out.end_logits))
                return SpanOutput(start, end, None, None)
            case "token":
                return LabelOutput(out.logits[strip.real.to(out.logits.device)], None)
            case "regress":
                return LabelOutput(out.logits.squeeze(1), None)
        return LabelOutput(out.logits, None)


def _batches(samples: Sequence[Sample], seed: int, size: int, steps: int) -> Iterator[list[Sample]]:
    """Yield the batches that our own tuning takes."""
    order: list[int] = []
    epoch = 0
    for _ in range(steps):
        while len(order) < size:
            order += order_of(seed, epoch, len(samples)).tolist()
            epoch += 1
        yield [samples[at] for at in order[:size]]
        order = order[size:]
