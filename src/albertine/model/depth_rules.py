"""The rules by which a shared layer is applied again and again: a fixed number of times, or two others.

| rule | applies the layer | output | from |
|---|---|---|---|
| fixed | L times | that of the last step | ALBERT |
| halting | L times | a mean over the steps, with weights that each token chooses | Universal Transformer |
| equilibrium | L times, by a solver | a state that the layer nearly keeps | Deep Equilibrium Models |

Every rule yields one output per step, and the output of step t is that of a model with t layers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

# A token whose weights add up to more has halted; published with adaptive computation time.
_HALTING_THRESHOLD = 0.99
_ANDERSON_MEMORY = 4
_ANDERSON_RIDGE = 1e-4


class LayerFunction(Protocol):
    """Applies one layer to hidden states, [..., hidden], and returns all rows of the output or some."""

    def __call__(self, hidden: Tensor, number: int, rows: Tensor | None = None) -> Tensor:
        """Return the output of layer `number`, counted from 0."""
        ...


class StepSignal(nn.Module):
    """Tells a shared layer which step it computes: sinusoids of the step with a learned gain per element.

    The gains start at 0, so that a new model is one without a signal. Unlike a learned vector per step,
    sinusoids exist for more steps than were trained.
    """

    def __init__(self, hidden_size: int):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, number: int | Tensor) -> Tensor:
        """Return what is added to the input of layer `number`, counted from 0, [hidden]."""
        width = len(self.gain)
        steps = torch.arange(width, device=self.gain.device) // 2 * (2 / width)
        angles = (number + 1) * torch.exp(-math.log(10_000.0) * steps)
        is_sine = torch.arange(width, device=self.gain.device) % 2 == 0
        return self.gain * torch.where(is_sine, angles.sin(), angles.cos())


def fixed_depth(
    hidden: Tensor, layer: LayerFunction, depth: int, last_rows: Tensor | None
) -> Iterator[Tensor]:
    """Yield `hidden` and the output of each layer; the last output has only `last_rows`, if given."""
    yield hidden
    for number in range(depth):
        hidden = layer(hidden, number, last_rows if number == depth - 1 else None)
        yield hidden


@dataclass(frozen=True)
class HaltingWeights:
    """The weights that the tokens of the last forward pass gave to the steps.

    Attributes:
        steps: number of steps with a weight above 0, of each row, [...].
        remainders: weight of the last of these steps, [...].
    """

    steps: Tensor
    remainders: Tensor

    def mean_cost(self, tokens: int) -> Tensor:
        """Return the mean of steps plus remainder over the first rows; only remainders have a gradient."""
        if not tokens:
            return self.remainders.sum()
        return (self.steps + self.remainders)[:tokens].mean()

    def mean_steps(self, tokens: int) -> float:
        """Return the mean number of steps of the first rows."""
        return self.steps[:tokens].mean().item()


class Halting(nn.Module):
    """Adaptive computation time: each token chooses the weights of the steps, and with them its depth.

    A token distributes a weight of 1 over the steps; its output is the mean of its states, with these
    weights. The step at which their sum reaches 0.99 gets all the rest. Later steps still change the state
    of the token, which other tokens attend to, but no longer its output.

    Attributes:
        weights: those of the last forward pass; None before the first one.
    """

    weights: HaltingWeights | None = None

    def __init__(self, hidden_size: int):
        super().__init__()
        self.unit = nn.Linear(hidden_size, 1)

    def outputs(self, hidden: Tensor, layer: LayerFunction, depth: int) -> Iterator[Tensor]:
        """Yield `hidden`, and after each step the output of a model with so many steps, [..., hidden]."""
        yield hidden
        remaining = hidden.new_ones((*hidden.shape[:-1], 1), dtype=torch.float32)
        steps, remainders = torch.zeros_like(remaining), torch.zeros_like(remaining)
        total = torch.zeros_like(hidden, dtype=torch.float32)
        for number in range(depth):
            hidden = layer(hidden, number)
            is_running = remaining > 0
            probability = torch.sigmoid(self._halting_logits(hidden))
            is_last = (remaining - probability <= 1 - _HALTING_THRESHOLD) | (number == depth - 1)
            output = total + remaining * hidden
            weight = torch.where(is_last, remaining, probability)
            steps = steps + is_running
            remainders = remainders + torch.where(is_running & is_last, remaining, 0.0)
            total, remaining = total + weight * hidden, torch.where(is_last, 0.0, remaining - weight)
            self.weights = HaltingWeights(steps.squeeze(-1), remainders.squeeze(-1))
            yield output.to(hidden.dtype)

    def _halting_logits(self, hidden: Tensor) -> Tensor:
        """Return the logit of the weight that each token gives to a step, in fp32, [..., 1]."""
        logits: Tensor = self.unit(hidden.float())
        return logits


def equilibrium(embedded: Tensor, layer: LayerFunction, depth: int) -> Iterator[Tensor]:
    """Yield the embedding, and the outputs of a solver of `state = layer(state + embedded)`, [..., hidden].

    The solver is Anderson acceleration, with coefficients of its own for each token, so that the output of a
    sequence does not depend on the others of the batch. Only the last step keeps anything for the backward
    pass. Its gradient is that of an exact solution: the hook solves the adjoint equation with as many steps.
    """

    def function(state: Tensor) -> Tensor:
        return layer(state + embedded, 0)

    yield embedded
    state, solver = torch.zeros_like(embedded), _Anderson()
    for _ in range(depth - 1):
        with torch.no_grad():
            output = function(state)
            state = solver.next_state(state, output)
        yield output
    solution = function(state)
    if solution.requires_grad:
        start = state.detach().requires_grad_()
        with torch.enable_grad():
            end = function(start)
        solution.register_hook(lambda gradient: _adjoint(start, end, gradient, depth))
    yield solution


def _adjoint(start: Tensor, end: Tensor, gradient: Tensor, steps: int) -> Tensor:
    """Return the solution u of `u = gradient + u J`, where J is the Jacobian of `end` by `start`."""
    adjoint, solver = gradient, _Anderson()
    for _ in range(steps):
        (product,) = torch.autograd.grad(end, start, adjoint, retain_graph=True)
        adjoint = solver.next_state(adjoint, gradient + product)
    return adjoint


class _Anderson:
    """Anderson acceleration: the next state mixes recent ones so that their residuals nearly cancel."""

    def __init__(self) -> None:
        self._states: list[Tensor] = []
        self._outputs: list[Tensor] = []

    def next_state(self, state: Tensor, output: Tensor) -> Tensor:
        """Return the state to continue with, from a state and the function's output for it, [..., hidden]."""
        self._states = [*self._states, state][-_ANDERSON_MEMORY:]
        self._outputs = [*self._outputs, output][-_ANDERSON_MEMORY:]
        if len(self._states) == 1:
            return output
        outputs = torch.stack(self._outputs, -2).float()  # [..., memory, hidden]
        residuals = outputs - torch.stack(self._states, -2).float()
        products = residuals @ residuals.transpose(-1, -2)
        size = products.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None] + torch.finfo(torch.float32).tiny
        identity = torch.eye(products.shape[-1], device=products.device)
        ones = products.new_ones((*products.shape[:-1], 1))
        mixture = torch.linalg.solve(products / size + _ANDERSON_RIDGE * identity, ones)
        mixture = mixture / mixture.sum(-2, keepdim=True)
        mixed: Tensor = (mixture.transpose(-1, -2) @ outputs).squeeze(-2)
        return mixed.to(output.dtype)
