"""The plan of a run: what it takes on given hardware, estimated from data sheets or measured here."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from albertine.device import choose_device, choose_precision, total_memory
from albertine.display import counted
from albertine.errors import InputError
from albertine.model.cost import Precision, TrainingMemory
from albertine.plan.estimate import StepTime, estimate_step, sent_bytes
from albertine.plan.hardware import Device, Hardware, device_precision, find_hardware
from albertine.plan.measurement import measure_step
from albertine.plan.memory import USABLE_FRACTION, MemoryModel
from albertine.plan.parameters import parameter_costs
from albertine.plan.settings import PlanSettings
from albertine.plan.workload import Workload, make_workload, with_corpus_sizes
from albertine.pretrain.default_length import fitting_batch_tokens
from albertine.progress import format_bytes
from albertine.train.micro_batch import fitting_micro_batch_tokens, training_micro_batch_tokens

_ASSUMED_EFFICIENCY = 0.5  # of the matrix products of a device that was not measured
_PYTHON_NOTE = "; the time of waiting for Python is that beside an H100"


def forward_share(workload: Workload) -> float:
    """Return the share of an evaluation, which runs only forward, in the passes of a training step."""
    return 1 / 4 if workload.train.recompute else 1 / 3


@dataclass(frozen=True)
class TrainingPlan:
    """What a run takes.

    Attributes:
        workload: the run.
        hardware: the devices.
        precision: precision of the matrix products.
        basis: what the time follows from: a measurement, or a data sheet and an assumption.
        parameters: number of parameters.
        micro_batch_tokens: tokens per micro-batch.
        micro_batches: number of micro-batches per step of each device.
        memory: memory of a step on each device.
        device_memory: memory of a device in bytes.
        largest_micro_batch: tokens of the largest micro-batch that fits.
        largest_micro_batch_recomputed: the same with recomputation of activations.
        step: seconds of a step.
        sent_bytes: bytes that each device sends per step.
        training_seconds: seconds of all steps.
        evaluation_seconds: seconds of all evaluations on held-out data.
        cost: price of the run; None without a price.
    """

    workload: Workload
    hardware: Hardware
    precision: Precision
    basis: str
    parameters: int
    micro_batch_tokens: int
    micro_batches: int
    memory: TrainingMemory
    device_memory: int
    largest_micro_batch: int
    largest_micro_batch_recomputed: int
    step: StepTime
    sent_bytes: int
    training_seconds: float
    evaluation_seconds: float
    cost: float | None

    @property
    def seconds(self) -> float:
        """Seconds of the run."""
        return self.training_seconds + self.evaluation_seconds

    def to_json(self) -> dict[str, Any]:
        """Return the plan under stable keys."""
        workload = self.workload
        return {
            "run": workload.name,
            "hardware": self.hardware.name,
            "devices": self.hardware.count,
            "basis": self.basis,
            "is_measured": self.hardware.device is None,
            "parameters": self.parameters,
            "precision": self.precision,
            "optimizer": workload.train.optimizer,
            "tokens": workload.tokens,
            "steps": workload.steps,
            "step_tokens": workload.step_tokens,
            "flops": workload.tokens * workload.flops_per_token,
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
            "evaluation_seconds": self.evaluation_seconds,
            "tokens_per_second": workload.step_tokens / self.step.total,
            "step_seconds": {**asdict(self.step), "total": self.step.total},
            "communication": {
                "sent_per_device_and_step": self.sent_bytes,
                "share": self.step.communication_share,
            },
            "memory": {**asdict(self.memory), "total": self.memory.total, "device": self.device_memory},
            "micro_batch_tokens": self.micro_batch_tokens,
            "micro_batches": self.micro_batches,
            "largest_micro_batch_tokens": {
                "without_recomputation": self.largest_micro_batch,
                "with_recomputation": self.largest_micro_batch_recomputed,
            },
            "device_hours": self.hardware.count * self.seconds / 3600,
            "cost": self.cost,
        }


def plan_training(settings: PlanSettings) -> TrainingPlan:
    """Return what a run takes; on this machine, steps are measured for about ten seconds.

    Args:
        settings: the run and the hardware.
    """
    settings = with_corpus_sizes(settings)
    plan, train = _plan_run(settings), settings.train
    if train.minutes is None or train.batch_tokens or settings.tokens is not None or settings.finetune:
        return plan
    tokens = 60 * train.minutes * plan.workload.step_tokens / plan.step.total
    batch_tokens = fitting_batch_tokens(settings, tokens, plan.hardware.count)
    if batch_tokens == plan.workload.step_tokens:
        return plan
    return _plan_run(replace(settings, train=replace(train, batch_tokens=batch_tokens)))


def _plan_run(settings: PlanSettings) -> TrainingPlan:
    """Return what a run takes whose batches have the default size, or a given one."""
    hardware, workload = find_hardware(settings.hardware), make_workload(settings)
    place = _planned_device(settings, hardware, workload)
    keeps_scores = hardware.device is not None and hardware.device.keeps_attention_scores
    parameters = parameter_costs(workload)
    memory = MemoryModel(workload, parameters, place.precision, hardware.count, keeps_scores)
    largest, recomputed = (
        memory.largest_micro_batch(place.memory, recompute=recompute) for recompute in (False, True)
    )
    fitting = recomputed if workload.train.recompute else largest
    if not fitting:
        raise _does_not_fit(memory, hardware, place.memory, recomputed)
    micro_batch_tokens, micro_batches = _micro_batches(
        workload, hardware, fitting, place.default_micro_batch_tokens
    )
    if hardware.device is None:
        measured = measure_step(workload, choose_device(settings.device), place.precision, micro_batch_tokens)
        step, note = measured.step_time(workload), measured.note
    else:
        efficiency, basis = _efficiency(hardware.device, settings.efficiency)
        step = estimate_step(workload, hardware, memory, micro_batches, efficiency)
        note = (
            f"{efficiency:.0%} of the peak rate, {basis}; {hardware.device.source}"
            f"{_PYTHON_NOTE if hardware.device.waits_for_python else ''}"
        )
    if settings.train.minutes is not None:
        workload = _with_minutes(settings, step, 60 * settings.train.minutes)
    training_seconds, evaluation_seconds = _run_seconds(workload, step)
    device_hours = hardware.count * (training_seconds + evaluation_seconds) / 3600
    return TrainingPlan(
        workload,
        hardware,
        place.precision,
        note,
        parameters=parameters.count,
        micro_batch_tokens=micro_batch_tokens,
        micro_batches=micro_batches,
        memory=memory.step_memory(micro_batch_tokens),
        device_memory=int(place.memory),
        largest_micro_batch=largest,
        largest_micro_batch_recomputed=recomputed,
        step=step,
        sent_bytes=round(sent_bytes(workload, memory, hardware.count, micro_batches)),
        training_seconds=training_seconds,
        evaluation_seconds=evaluation_seconds,
        cost=None if settings.price is None else settings.price * device_hours,
    )


def _efficiency(device: Device, given: float | None) -> tuple[float, str]:
    """Return the fraction of its peak rate that a device reaches, and where it is from."""
    if given is not None:
        return given, "as given"
    if device.efficiency is not None:
        return device.efficiency, "as measured"
    return _ASSUMED_EFFICIENCY, "an assumption"


def _with_minutes(settings: PlanSettings, step: StepTime, seconds: float) -> Workload:
    """Return the run whose training steps and evaluations take some seconds."""
    workload, evaluation_seconds = make_workload(settings), 0.0
    for _ in range(5):  # the number of evaluations depends on that of steps, and converges
        # Evaluations take at most half of the time; a run with more of them takes longer, as in training.
        steps = max(seconds - evaluation_seconds, seconds / 2) / step.total
        workload = make_workload(settings, max(1, int(steps)))
        evaluation_seconds = _run_seconds(workload, step)[1]
    return workload


def _run_seconds(workload: Workload, step: StepTime) -> tuple[float, float]:
    """Return the seconds of all training steps, and of all evaluations."""
    evaluated_steps = workload.evaluated_tokens / workload.step_tokens
    return workload.steps * step.total, forward_share(workload) * evaluated_steps * step.passes


@dataclass(frozen=True)
class _PlannedDevice:
    """What a plan needs to know of a device, whether it is here or not."""

    precision: Precision
    memory: float
    default_micro_batch_tokens: int


def _planned_device(settings: PlanSettings, hardware: Hardware, workload: Workload) -> _PlannedDevice:
    if hardware.device is not None:
        precision = device_precision(hardware.device, settings.train.precision)
        default = fitting_micro_batch_tokens(
            workload.model,
            hardware.device.memory,
            precision,
            recompute=workload.train.recompute,
            predicted_fraction=workload.predicted_fraction,
        )
        return _PlannedDevice(precision, hardware.device.memory, default)
    device = choose_device(settings.device)
    dtype = choose_precision(settings.train.precision, device)
    memory = total_memory() if device.type == "cpu" else torch.cuda.get_device_properties(device).total_memory
    precision = "bf16" if dtype == torch.bfloat16 else "fp32"
    default = training_micro_batch_tokens(workload.train, workload.model, device, workload.predicted_fraction)
    return _PlannedDevice(precision, memory, default)


def _micro_batches(workload: Workload, hardware: Hardware, fitting: int, default: int) -> tuple[int, int]:
    """Return the tokens of a micro-batch, and the number of micro-batches in a step of a device.

    Args:
        workload: the run.
        hardware: the devices.
        fitting: tokens of the largest micro-batch that fits.
        default: tokens of a micro-batch if the settings have none.
    """
    unit = workload.unit_tokens
    device_tokens = math.ceil(workload.step_tokens / hardware.count)
    if workload.batch_size is not None and hardware.count > workload.batch_size:
        raise InputError(
            f"{hardware.name}: {counted(hardware.count, 'device')} for the "
            f"{counted(workload.batch_size, 'example')} of a step; use fewer devices"
        )
    if device_tokens < unit and workload.is_pretraining:
        raise InputError(
            f"--train.batch-tokens {workload.step_tokens}: must hold a sample of {unit} tokens for each of "
            f"{hardware.count:,} devices; raise it to at least {unit * hardware.count}, or use fewer devices"
        )
    requested = max(unit, workload.train.micro_batch_tokens or default)
    if workload.train.micro_batch_tokens and requested > fitting:
        raise InputError(
            f"--train.micro-batch-tokens {workload.train.micro_batch_tokens}: does not fit into the memory "
            f"of {hardware.name}; at most {fitting:,} tokens do"
        )
    causal = workload.causal_fraction
    tokens_by_kind = [device_tokens * part for part in (1 - causal, causal) if part]
    counts = [math.ceil(tokens / min(requested, fitting)) for tokens in tokens_by_kind]
    largest = max(math.ceil(tokens / count) for tokens, count in zip(tokens_by_kind, counts, strict=True))
    return max(unit, largest), sum(counts)


def _does_not_fit(memory: MemoryModel, hardware: Hardware, available: float, recomputed: int) -> InputError:
    """Return the error for a model that does not fit into the memory of a device."""
    needed = memory.step_memory(memory.workload.unit_tokens).total
    usable = format_bytes(int(available * USABLE_FRACTION))
    advice = "use devices with more memory"
    if recomputed:
        advice += ", or --train.recompute"
    elif hardware.count > 1 and not memory.workload.train.shard:
        advice += ", or --train.shard"
    return InputError(
        f"{hardware.name}: cannot hold this model: a step with one example of "
        f"{memory.workload.unit_tokens} tokens needs {format_bytes(needed)} of memory, and {usable} of "
        f"{format_bytes(int(available))} are usable; {advice}"
    )
