"""Chooses the engine that runs a loaded model."""

import time
from collections.abc import Iterator
from statistics import median

import torch

from albertine import progress
from albertine.device import choose_device
from albertine.engines.conversion import check_convertible, check_steps, convert_model
from albertine.engines.engine import Engine
from albertine.engines.libraries import check_libraries
from albertine.engines.torch_engine import prepare_torch_engine
from albertine.errors import AlbertineError, InputError
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.model.trial_strip import trial_strip
from albertine.settings.engine import FORMAT_OF_ENGINE, EngineOptions

# Lengths of the sequences that `auto` measures: of sentences, and of a few longer texts.
_LENGTHS = (8, 12, 16, 16, 20, 24, 24, 28, 32, 40, 64, 128)
_RUNS = 3


def prepare_engine(model: Model, options: EngineOptions, *, can_exit: bool = False) -> Engine:
    """Return an engine for a loaded model.

    Args:
        model: the model.
        options: device, precision and library.
        can_exit: whether predictions may be taken after fewer or more steps than the model has.
    """
    if options.engine in FORMAT_OF_ENGINE:
        return convert_model(
            model.eval(), options.engine, options.device, options.precision, in_steps=can_exit
        )
    if options.engine == "auto" and choose_device(options.device).type == "cpu":
        return _fastest_engine(model, options, can_exit=can_exit)
    return prepare_torch_engine(model, options.device, options.precision)


def _fastest_engine(model: Model, options: EngineOptions, *, can_exit: bool) -> Engine:
    """Return the fastest of the engines that can run a model here, and print what was measured."""
    engines = list(_candidates(model, options, can_exit))
    if len(engines) == 1:
        progress.print_message(f"engine {engines[0].name} is the only one that runs this model here")
        return engines[0]
    strip = trial_strip(model, _LENGTHS, torch.Generator().manual_seed(0), 1)
    rates = [(_tokens_per_second(engine, strip), engine) for engine in engines]
    rates.sort(key=lambda rate: rate[0], reverse=True)
    fastest = rates[0][1]
    measured = "; ".join(f"{engine.name}: {rate:,.0f}" for rate, engine in rates)
    progress.print_message(f"engine {fastest.name} is the fastest here; tokens/s: {measured}")
    return fastest


def _candidates(model: Model, options: EngineOptions, can_exit: bool) -> Iterator[Engine]:
    """Yield the engines that can run a model here in the precision of the options."""
    for name, to in FORMAT_OF_ENGINE.items():
        if to == "onnx" and options.precision == "bf16":
            continue
        try:
            check_convertible(model)
            if can_exit:
                check_steps(model, "this model", "--exit")
            check_libraries(to, "fp32")
        except InputError:
            continue
        progress.print_message(f"engine auto: converting the model for {name}")
        try:
            engine = convert_model(model.eval(), name, "cpu", options.precision, in_steps=can_exit)
        except AlbertineError as error:
            progress.print_message(f"engine {name}: {error}")
            continue
        yield engine
    yield prepare_torch_engine(model, "cpu", options.precision)  # last, because it may change the model


def _tokens_per_second(engine: Engine, strip: Strip) -> float:
    engine.run(strip)  # kernels are prepared
    seconds = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        engine.run(strip)
        seconds.append(time.perf_counter() - started)
    return len(strip.tokens) / median(seconds)
