"""Pre-training with `transformers`, as one sets it up with care: what our own run races against.

`AlbertForPreTraining` with SDPA attention and bf16 autocast where the machine has it; the
library's own collator pads and masks; the order of sentences beside it; fused AdamW
without decay of norms and biases, warm-up, linear decay, clipping. The pairs are the
ones that our own run sees, in the same order.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.corpus.batches import Batch
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sample, Sampler
from albertine.model.encoder import SHAPES_KEPT
from albertine.settings import ModelSettings
from albertine.train.machine import now
from albertine.train.schedule import Schedule


class Peer:
    """The other side."""

    def __init__(self, model: ModelSettings, corpus: Corpus, device: torch.device, dtype: torch.dtype):
        as_delivered()
        import transformers

        torch.manual_seed(0)
        tokenizer = transformers.AutoTokenizer.from_pretrained(corpus.folder / "tokenizer")
        self._collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
        config = transformers.AlbertConfig(
            vocab_size=model.vocab_size,
            embedding_size=model.embedding_size,
            hidden_size=model.hidden_size,
            num_hidden_layers=model.layers,
            num_attention_heads=model.heads,
            intermediate_size=model.ffn,
            max_position_embeddings=model.max_length,
            hidden_dropout_prob=model.dropout,
            attention_probs_dropout_prob=model.attention_dropout,
        )
        made: Any = transformers.AutoModelForPreTraining
        self.network = made.from_config(config, attn_implementation="sdpa").to(device)
        self._device, self._dtype = device, dtype
        self._optimizer = torch.optim.AdamW(
            [
                {"params": [one for one in self.network.parameters() if one.dim() > 1], "weight_decay": 0.01},
                {"params": [one for one in self.network.parameters() if one.dim() == 1], "weight_decay": 0.0},
            ],
            lr=0.0,
            fused=True,
        )

    def train(
        self, sampler: Sampler, sequences: int, schedule: Schedule, after: Callable[[int, float, int], None]
    ) -> None:
        """Take all steps of a schedule; `after` each is told its number, the seconds and tokens so far."""
        self.network.train()
        seconds, tokens = 0.0, 0
        for step in range(schedule.steps):
            started = now(self._device)
            samples = sampler.draw(np.arange(step * sequences, (step + 1) * sequences))
            inputs = self._inputs(samples)
            with self._autocast():
                loss = self.network(**inputs).loss
            self._optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            for group in self._optimizer.param_groups:
                group["lr"] = schedule.rate(step)
            self._optimizer.step()
            seconds += now(self._device) - started
            tokens += sum(len(sample) for sample in samples)
            after(step + 1, seconds, tokens)

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._dtype == torch.bfloat16)

    def _inputs(self, samples: list[Sample]) -> dict[str, Tensor]:
        """Let the library's collator pad and mask pairs."""
        features = [
            {"input_ids": sample.original().tolist(), "token_type_ids": sample.types.tolist()}
            for sample in samples
        ]
        batch = dict(self._collate(features))
        batch["sentence_order_label"] = torch.tensor([sample.label for sample in samples])
        return {name: one.to(self._device) for name, one in batch.items()}

    def loss_on(self, batches: Iterator[Batch]) -> float:
        """Return the mean MLM loss on batches that are masked already."""
        self.network.eval()
        total, count = 0.0, 0
        for batch in batches:
            ids, mask, types = batch.strip.to_padded()
            labels = torch.full_like(batch.strip.tokens, -100)
            labels[batch.targets.masked.at] = batch.targets.masked.pieces
            padded = batch.strip.pad(labels, -100)
            with torch.no_grad(), self._autocast():
                logits = self.network(
                    input_ids=ids.to(self._device),
                    attention_mask=mask.to(self._device),
                    token_type_ids=types.to(self._device),
                ).prediction_logits
            chosen = padded != -100
            scores = logits[chosen.to(self._device)].float()
            loss = torch.nn.functional.cross_entropy(scores, padded[chosen].to(self._device), reduction="sum")
            total, count = total + float(loss), count + int(chosen.sum())
        self.network.train()
        return total / count


def as_delivered() -> None:
    """Make this process the peer's: none of what our network asks of the libraries below, and no chatter."""
    for name, ours in SHAPES_KEPT.items():  # it counts at the first product
        if os.environ.get(name) == ours:
            del os.environ[name]
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
