"""The peer of the fine-tuning benchmark: fine-tuning with a well configured `transformers`."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from albertine.bench.peer_model import peer_options
from albertine.bench.peer_pretraining import reset_environment, weight_decay_groups
from albertine.bench.settings import FinetuneBenchSettings
from albertine.device import synchronized_time
from albertine.finetune.finetuning import epoch_order
from albertine.finetune.prepare import FinetuneData
from albertine.interop.tensor_names import checkpoint_family
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.span_head import SpanOutput, SpanTargets
from albertine.settings import HeadSettings
from albertine.tasks.registry import create_task_type
from albertine.tasks.sequences import EncodedExample, TaskSample, strip_from_samples
from albertine.tasks.types.task_type import SampleScores
from albertine.train.bert_adam import make_bert_adam
from albertine.train.micro_batch import training_micro_batch_tokens
from albertine.train.schedule import LearningRateSchedule

_MODEL_CLASSES = {
    "classify": "AutoModelForSequenceClassification",
    "multi-label": "AutoModelForSequenceClassification",
    "regress": "AutoModelForSequenceClassification",
    "token": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
    "choice": "AutoModelForMultipleChoice",
}

_DROPOUT_KEYS = {"albert": "classifier_dropout_prob", "bert": "classifier_dropout"}


class PeerFinetuning:
    """Trains and evaluates a model of `transformers` on prepared data."""

    def __init__(
        self,
        prepared: FinetuneData,
        settings: FinetuneBenchSettings,
        device: torch.device,
        dtype: torch.dtype,
    ):
        reset_environment()
        self.task_type = create_task_type(
            prepared.card, prepared.tokenizer, dropout=prepared.task_type.head_settings.dropout
        )
        self.task_type.fit_target_transform(prepared.train_samples, str(settings.data))
        torch.manual_seed(settings.train.seed)
        self.model = _load_model(prepared, self.task_type.head_settings, settings.dropout).to(device)
        self._optimizer = _make_optimizer(self.model, settings)
        self._prepared, self._settings = prepared, settings
        self._device, self._dtype = device, dtype

    def train(self) -> float:
        """Take all training steps; return their seconds."""
        train = self._settings.train
        samples = self._prepared.train_samples
        schedule = LearningRateSchedule.from_resolved_settings(train)
        self.model.train()
        seconds = 0.0
        for step, batch in enumerate(_batches(samples, train.seed, train.batch_size or 1, train.steps)):
            started = synchronized_time(self._device)
            self._optimizer.zero_grad()
            for micro_batch in self._micro_batches(batch):
                with self._autocast():
                    loss = self._loss(micro_batch) * self._loss_weight(micro_batch, batch)
                loss.backward()
            if train.max_gradient_norm:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), train.max_gradient_norm)
            for group in self._optimizer.param_groups:
                group["lr"] = schedule.lr_at(step)
            self._optimizer.step()
            seconds += synchronized_time(self._device) - started
        return seconds

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._dtype == torch.bfloat16)

    def _inputs(self, samples: Sequence[TaskSample]) -> dict[str, Tensor]:
        """Return the inputs of the model, padded to the longest sequence."""
        ids, mask, token_type_ids = strip_from_samples(samples).to_padded()
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": token_type_ids}
        if self.task_type.head_settings.kind == "choice":
            options = self.task_type.head_settings.options
            inputs = {name: tensor.view(-1, options, tensor.shape[1]) for name, tensor in inputs.items()}
        return {name: tensor.to(self._device) for name, tensor in inputs.items()}

    def _loss(self, samples: Sequence[TaskSample]) -> Tensor:
        targets: Any = self.task_type.targets(samples)
        if isinstance(targets, SpanTargets):
            labels = {"start_positions": targets.start, "end_positions": targets.end}
        elif self.task_type.head_settings.kind == "token":
            labels = {"labels": strip_from_samples(samples).pad(targets, -100)}
        else:
            labels = {"labels": targets}
        labels = {name: tensor.to(self._device) for name, tensor in labels.items()}
        loss: Tensor = self.model(**self._inputs(samples), **labels).loss
        return loss

    def outputs(self, examples: Sequence[EncodedExample]) -> list[list[SampleScores]]:
        """Return the scores of all samples, by example."""
        self.model.eval()
        samples = [sample for example in examples for sample in example.samples]
        outputs: list[SampleScores] = []
        with torch.no_grad(), self._autocast():
            for batch in self._micro_batches(samples):
                strip = strip_from_samples(batch)
                outputs += self.task_type.sample_scores(self._output(self._inputs(batch), strip), strip)
        remaining = iter(outputs)
        return [[next(remaining) for _ in example.samples] for example in examples]

    def _micro_batches(self, samples: Sequence[TaskSample]) -> Iterator[list[TaskSample]]:
        """Yield micro-batches of at most as many tokens as Albertine's, padding included."""
        micro_batch: list[TaskSample] = []
        longest = 0
        max_tokens = training_micro_batch_tokens(
            self._settings.train, self._prepared.model_settings, self._device
        )
        for sample in samples:
            length = max(map(len, sample.ids))
            if (
                micro_batch
                and (sum(len(other.ids) for other in micro_batch) + len(sample.ids)) * max(longest, length)
                > max_tokens
            ):
                yield micro_batch
                micro_batch, longest = [], 0
            micro_batch.append(sample)
            longest = max(longest, length)
        yield micro_batch

    def _loss_weight(self, micro_batch: Sequence[TaskSample], batch: Sequence[TaskSample]) -> float:
        """Return the weight of the mean loss of a micro-batch in the mean loss of its batch."""
        return self.task_type.target_counts(micro_batch)[0] / self.task_type.target_counts(batch)[0]

    def _output(self, inputs: dict[str, Tensor], strip: Any) -> Any:
        """Return the outputs of a batch in the type of Albertine's heads."""
        peer_output = self.model(**inputs)
        is_token = strip.attention_mask.to(self._device)  # [batch, longest]
        match self.task_type.head_settings.kind:
            case "span":
                # There is no answerable output; the logits at [CLS] are the score of no answer.
                start, end = (
                    logits[is_token] for logits in (peer_output.start_logits, peer_output.end_logits)
                )
                return SpanOutput(start, end, None, None)
            case "token":
                return PredictionOutput(peer_output.logits[is_token], None)
            case "regress":
                return PredictionOutput(peer_output.logits.squeeze(1), None)
        return PredictionOutput(peer_output.logits, None)


def _load_model(prepared: FinetuneData, head: HeadSettings, dropout: float | None) -> Any:
    """Return a model of `transformers` with the checkpoint's encoder and a new head."""
    import transformers

    model_class: Any = getattr(transformers, _MODEL_CLASSES[head.kind])
    is_labeled = head.kind in ("classify", "multi-label", "regress", "token")
    labels: dict[str, Any] = {"num_labels": head.labels} if is_labeled else {}
    if head.kind == "multi-label":
        labels["problem_type"] = "multi_label_classification"
    return model_class.from_pretrained(
        prepared.checkpoint,
        attn_implementation="sdpa",
        dtype=torch.float32,
        **peer_options(prepared.checkpoint, prepared.model_settings),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **{_DROPOUT_KEYS[checkpoint_family(prepared.model_settings)]: head.dropout},
        **labels,
    )


def _make_optimizer(model: torch.nn.Module, settings: FinetuneBenchSettings) -> torch.optim.Optimizer:
    groups = weight_decay_groups(model, settings.train.weight_decay)
    if settings.train.optimizer == "bert-adam":
        return make_bert_adam(groups)
    return torch.optim.AdamW(groups, lr=0.0, fused=True)


def _batches(samples: Sequence[TaskSample], seed: int, size: int, steps: int) -> Iterator[list[TaskSample]]:
    """Yield the same batches as Albertine's fine-tuning."""
    order: list[int] = []
    epoch = 0
    for _ in range(steps):
        while len(order) < size:
            order += epoch_order(seed, epoch, len(samples)).tolist()
            epoch += 1
        yield [samples[index] for index in order[:size]]
        order = order[size:]
