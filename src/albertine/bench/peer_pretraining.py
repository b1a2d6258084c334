"""The peer of the pre-training benchmark: pre-training with a well configured `transformers`.

It trains `AlbertForPreTraining` or `BertForPreTraining` with SDPA attention, and bf16 autocast
where the machine has bf16. The collator of `transformers` pads and masks; pairs and their labels are the
same as in Albertine's run, in the same order. The optimizer is fused AdamW without weight
decay of norms and biases, with warm-up, linear decay and gradient clipping.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.corpus.batches import Batch
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.device import synchronized_time
from albertine.interop.transformers_config import transformers_config
from albertine.model.kernels.primitive_cache import restore_primitive_cache
from albertine.settings import HeadSettings, ModelSettings
from albertine.train.schedule import LearningRateSchedule


class PeerPretraining:
    """Trains and evaluates an ALBERT or a BERT of `transformers` on a corpus."""

    def __init__(self, settings: ModelSettings, corpus: Corpus, device: torch.device, dtype: torch.dtype):
        reset_environment()
        import transformers

        torch.manual_seed(0)
        tokenizer = transformers.AutoTokenizer.from_pretrained(corpus.folder / "tokenizer")
        self._collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
        values = transformers_config(settings, HeadSettings())
        self._pair_label = "next_sentence_label" if values["model_type"] == "bert" else "sentence_order_label"
        config = transformers.AutoConfig.for_model(**values)
        model_class: Any = transformers.AutoModelForPreTraining
        self.model = model_class.from_config(config, attn_implementation="sdpa").to(device)
        self._device, self._dtype = device, dtype
        self._optimizer = torch.optim.AdamW(weight_decay_groups(self.model, 0.01), lr=0.0, fused=True)

    def train(
        self, dataset: PretrainDataset, batch_size: int, schedule: LearningRateSchedule
    ) -> Iterator[tuple[int, float, int]]:
        """Take all steps; after each, yield its number, and the seconds and tokens of all steps so far.

        The seconds do not include what the caller does between two steps.
        """
        self.model.train()
        seconds, tokens = 0.0, 0
        for step in range(schedule.steps):
            started = synchronized_time(self._device)
            samples = dataset.draw(np.arange(step * batch_size, (step + 1) * batch_size))
            inputs = self._inputs(samples)
            with self._autocast():
                loss = self.model(**inputs).loss
            self._optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for group in self._optimizer.param_groups:
                group["lr"] = schedule.lr_at(step)
            self._optimizer.step()
            seconds += synchronized_time(self._device) - started
            tokens += sum(len(sample) for sample in samples)
            yield step + 1, seconds, tokens

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._dtype == torch.bfloat16)

    def _inputs(self, samples: list[PretrainSample]) -> dict[str, Tensor]:
        """Return the inputs of the model, padded and masked by the collator of the library."""
        features = [
            {"input_ids": sample.original_tokens().tolist(), "token_type_ids": sample.segments.tolist()}
            for sample in samples
        ]
        batch = dict(self._collate(features))
        batch[self._pair_label] = torch.tensor([sample.pair_label for sample in samples])
        return {name: tensor.to(self._device) for name, tensor in batch.items()}

    def masked_lm_loss(self, batches: Iterable[Batch]) -> float:
        """Return the mean MLM loss over the masked tokens of batches."""
        self.model.eval()
        total, count = 0.0, 0
        for batch in batches:
            ids, mask, token_type_ids = batch.strip.to_padded()
            labels = torch.full_like(batch.strip.tokens, -100)
            labels[batch.targets.masked.indices] = batch.targets.masked.labels
            padded = batch.strip.pad(labels, -100)
            with torch.no_grad(), self._autocast():
                logits = self.model(
                    input_ids=ids.to(self._device),
                    attention_mask=mask.to(self._device),
                    token_type_ids=token_type_ids.to(self._device),
                ).prediction_logits
            is_masked = padded != -100
            scores = logits[is_masked.to(self._device)].float()
            loss = torch.nn.functional.cross_entropy(
                scores, padded[is_masked].to(self._device), reduction="sum"
            )
            total, count = total + float(loss), count + int(is_masked.sum())
        self.model.train()
        return total / count


def reset_environment() -> None:
    """Restore the default sizes of oneDNN's primitive cache, and silence `transformers`."""
    restore_primitive_cache()
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def weight_decay_groups(model: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return the parameter groups of an optimizer: matrices with weight decay, norms and biases without."""
    parameters = list(model.parameters())
    return [
        {
            "params": [parameter for parameter in parameters if parameter.dim() > 1],
            "weight_decay": weight_decay,
        },
        {"params": [parameter for parameter in parameters if parameter.dim() == 1], "weight_decay": 0.0},
    ]
