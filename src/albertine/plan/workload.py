"""What a run computes: its model, its steps, and the operations of a token, whatever the hardware."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from albertine.corpus.corpus import open_corpus
from albertine.errors import InputError
from albertine.finetune.paper_defaults import default_optimizer, task_defaults
from albertine.interop.hub import locate_checkpoint
from albertine.interop.transformers_config import checkpoint_model_settings
from albertine.model.cost import MASKED_FRACTION, prediction_flops, pretraining_flops
from albertine.model.model import Model
from albertine.plan.settings import PlanSettings, parse_hardware, parse_tokens
from albertine.pretrain.curriculum import GROW
from albertine.pretrain.default_length import fitting_batch_tokens, with_default_length
from albertine.pretrain.duration import with_steps
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import (
    PRETRAIN_HEAD,
    check_causal_fraction,
    model_from_checkpoint,
    resolved_growth,
)
from albertine.settings import HeadSettings, ModelSettings, SettingError
from albertine.tasks.registry import find_task
from albertine.train.duration import TRIAL_STEPS, check_length, trial_settings
from albertine.train.settings import DEFAULT_MAX_BATCH_TOKENS, DEFAULT_MAX_STEPS, PretrainTrainSettings

_BACKWARD = 2  # a backward pass takes twice the operations of the forward pass


@dataclass(frozen=True)
class Stage:
    """A part of a run in which all steps cost the same.

    Attributes:
        share: fraction of the steps.
        length: tokens per sequence.
        masked_fraction: fraction of the tokens to predict in pre-training.
        depths: numbers of layers after which the head is trained; the last is that of the model.
        flops: FLOPs per token of forward and backward pass.
    """

    share: float
    length: int
    masked_fraction: float
    depths: tuple[int, ...]
    flops: float


@dataclass(frozen=True)
class Workload:
    """A run to plan.

    Attributes:
        name: what it is, such as "pre-training".
        model: settings of the encoder.
        head: settings of the head.
        train: settings of the training, of which the optimizer, precision, memory and micro-batch matter.
        stages: the stages; their shares sum to 1.
        steps: number of optimizer steps.
        step_tokens: tokens per step, over all devices.
        unit_tokens: tokens of the longest example, which is not divided over micro-batches.
        evaluated_tokens: tokens in all evaluations together.
        predicted_fraction: fraction of the tokens to predict for which a micro-batch must have memory.
        causal_fraction: fraction of the samples that are causal; no micro-batch has samples of both kinds.
        examples: number of training examples; None for pre-training.
        batch_size: number of examples per step, over all devices; None for pre-training.
    """

    name: str
    model: ModelSettings
    head: HeadSettings
    train: PretrainTrainSettings
    stages: Sequence[Stage]
    steps: int
    step_tokens: int
    unit_tokens: int
    evaluated_tokens: int
    predicted_fraction: float = MASKED_FRACTION
    causal_fraction: float = 0.0
    examples: int | None = None
    batch_size: int | None = None

    @property
    def is_pretraining(self) -> bool:
        """Whether it is pre-training, not fine-tuning."""
        return self.head == PRETRAIN_HEAD

    @property
    def tokens(self) -> int:
        """Number of tokens trained on."""
        return self.steps * self.step_tokens

    @property
    def flops_per_token(self) -> float:
        """Mean FLOPs per token over the run."""
        return sum(stage.share * stage.flops for stage in self.stages)


def with_corpus_sizes(settings: PlanSettings) -> PlanSettings:
    """Return settings with the vocabulary and the length that pre-training on their corpus has.

    The corpus is not opened if other settings give both, as in the settings file of a run.
    """
    train = settings.train
    takes_length = (
        settings.tokens is None and train.minutes is None and not (train.steps and train.batch_tokens)
    )
    takes_vocabulary = settings.init_from is None and "model.vocab_size" not in settings.explicit_keys
    if settings.corpus is None or settings.finetune is not None or not (takes_length or takes_vocabulary):
        return settings
    corpus = open_corpus(settings.corpus)
    if takes_length:
        devices = parse_hardware(settings.hardware)[0]
        settings = replace(settings, train=with_default_length(settings, corpus, devices).train)
    if takes_vocabulary:
        settings = replace(settings, model=replace(settings.model, vocab_size=len(corpus.tokenizer)))
    return settings


def make_workload(settings: PlanSettings, steps: int | None = None) -> Workload:
    """Return the run that settings describe.

    Args:
        settings: the run and the hardware.
        steps: number of steps of a run whose length is given in minutes; by default those of a trial.
    """
    settings = _with_checkpoint_model(settings)
    if settings.train.minutes is not None and settings.tokens is None:
        check_length(settings, settings.train)
        train = replace(trial_settings(settings.train), steps=steps or TRIAL_STEPS)
        if settings.finetune is None:
            train = replace(train, batch_tokens=train.batch_tokens or DEFAULT_MAX_BATCH_TOKENS)
            train = with_steps(train, train.steps)
        settings = replace(settings, train=train)
    if settings.finetune is not None:
        return _finetuning_workload(settings, settings.finetune)
    return _pretraining_workload(settings)


def _with_checkpoint_model(settings: PlanSettings) -> PlanSettings:
    """Return the settings with the model of the checkpoint to start from, as pre-training changes it."""
    if settings.init_from is None:
        return settings
    stored = checkpoint_model_settings(locate_checkpoint(settings.init_from, weights=False))
    return replace(settings, model=model_from_checkpoint(stored, settings.model, settings.explicit_keys))


def _pretraining_workload(settings: PlanSettings) -> Workload:
    settings = _with_steps(settings)
    train, model = settings.train, settings.model
    stages = list(_pretraining_stages(settings))
    longest = max(stage.length for stage in stages)
    if longest > model.max_length:
        raise InputError(
            f"samples of {longest} tokens: the model takes at most {model.max_length}; "
            "reduce --objective.max-length, or raise --model.max-length"
        )
    if max(stage.depths[-1] for stage in stages) > model.layers:
        raise InputError(
            f'--curriculum.depth "{settings.curriculum.depth}": the model has only {model.layers} layers; '
            "raise --model.layers, or lower the depths"
        )
    check_causal_fraction(settings)
    return Workload(
        "pre-training",
        model,
        PRETRAIN_HEAD,
        train,
        stages,
        steps=train.steps,
        step_tokens=train.batch_tokens,
        unit_tokens=longest,
        # One evaluation is before the first step, and one after the last.
        evaluated_tokens=train.evaluation_tokens
        * (1 + math.ceil(train.steps / train.evaluation_interval))
        * settings.objective.evaluation_passes,
        predicted_fraction=settings.objective.micro_batch_fraction,
        causal_fraction=settings.objective.causal_fraction,
    )


def _with_steps(settings: PlanSettings) -> PlanSettings:
    """Return the settings with the number of steps, length of samples and stages of depth of the run."""
    train, model, explicit_keys = settings.train, settings.model, settings.explicit_keys
    if settings.tokens is not None:
        tokens = parse_tokens(settings.tokens)
        batch_tokens = train.batch_tokens or fitting_batch_tokens(
            settings, tokens, parse_hardware(settings.hardware)[0]
        )
        # The warm-up of the settings may be longer than this run; it costs nothing of its own.
        steps = math.ceil(tokens / batch_tokens)
        train = replace(train, steps=steps, batch_tokens=batch_tokens, minutes=None, warmup=None)
    train = replace(
        train,
        steps=train.steps or DEFAULT_MAX_STEPS,
        batch_tokens=train.batch_tokens or DEFAULT_MAX_BATCH_TOKENS,
    )
    objective, curriculum = settings.objective, settings.curriculum
    if "objective.max_length" not in explicit_keys:
        objective = replace(objective, max_length=min(objective.max_length, model.max_length))
    if curriculum.depth == GROW:
        has_checkpoint = settings.init_from is not None
        depth = resolved_growth(replace(settings, train=train), model, has_checkpoint=has_checkpoint)
        curriculum = replace(curriculum, depth=depth)
    return replace(settings, train=train, objective=objective, curriculum=curriculum)


def _pretraining_stages(settings: PretrainSettings) -> Sequence[Stage]:
    """Return the stages of a curriculum."""
    stages = []
    for start, end in pairwise(settings.curriculum.boundaries()):
        step = min(settings.train.steps - 1, math.ceil(start * settings.train.steps))
        objective, depths = settings.objective_at(step), settings.exit_depths_at(step)
        flops = pretraining_flops(
            settings.model,
            objective.max_length,
            depths,
            objective.predicted_fraction,
            recompute=settings.train.recompute,
        )
        stages.append(Stage(end - start, objective.max_length, objective.predicted_fraction, depths, flops))
    return stages


def _finetuning_workload(settings: PlanSettings, task_name: str) -> Workload:
    """Return fine-tuning on a task with the paper's settings, scaled to the number of examples."""
    try:
        task, defaults = find_task(task_name), task_defaults(task_name)
    except InputError as error:
        raise InputError(str(error).replace("--task", "--finetune", 1)) from None
    # A head of numbers has one label; one is also assumed for tasks whose labels come from the data.
    head = HeadSettings(kind=task.task_type.head_kind, labels=max(1, len(task.labels)))
    model = replace(settings.model, dropout=defaults.dropout, attention_dropout=defaults.dropout)
    is_given = "objective.max_length" in settings.explicit_keys
    longest = min(settings.objective.max_length if is_given else defaults.max_length, model.max_length)
    length = longest if settings.example_tokens is None else settings.example_tokens
    if length > longest:
        problem = f"must be at most the maximum length, {longest}"
        raise SettingError("example_tokens", length, problem, ("objective.max_length",))
    examples = settings.examples or defaults.num_train_examples
    batch_size = defaults.scaled_batch_size(examples)
    steps = defaults.scaled_steps(examples, batch_size)
    sequences = untrained(model, head).head.sequences_per_prediction
    exit_depth = model.layers if settings.train.exits else None
    prediction = prediction_flops(model, head, length, model.layers, exit_depth=exit_depth)
    flops = (1 + _BACKWARD) * prediction / length
    if settings.train.recompute:
        flops += flops / (1 + _BACKWARD)
    optimizer = settings.train.optimizer
    if "train.optimizer" not in settings.explicit_keys:
        optimizer = default_optimizer(model.hidden_size)
    return Workload(
        f"fine-tuning on {task.name}",
        model,
        head,
        replace(settings.train, optimizer=optimizer),
        [Stage(1.0, length, MASKED_FRACTION, (model.layers,), flops)],
        steps=steps,
        step_tokens=batch_size * sequences * length,
        unit_tokens=sequences * longest,
        evaluated_tokens=0,
        examples=examples,
        batch_size=batch_size,
    )


def untrained(model: ModelSettings, head: HeadSettings) -> Model:
    """Return a model whose weights have shapes but no values."""
    with torch.device("meta"):
        return Model(model, head, seed=None)
