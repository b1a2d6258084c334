"""The learned exit: a unit that gives, after each step of depth, the probability to stop there.

PonderNet (Banino et al. 2021) trains such a unit, and PALBERT (Balagansky and Gavrilov 2022) exits by it:

    probability to stop at step t, if not before   s_t, from the unit; 1 at the last step
    probability that step t is the exit            p_t = s_t * (1 - s_1) * ... * (1 - s_(t-1))
    loss in training                               sum of p_t * loss_t + weight * KL(p || prior)
    exit in inference                              the first step at which p_1 + ... + p_t reaches a threshold

So the probabilities of all steps sum to one, and the exit of a sequence does not depend on its batch.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.model.head import linear

_WIDTH = 64


class ExitUnit(nn.Module):
    """Predicts whether to stop after a step of depth, from the states of [CLS] before and after it.

    With both states, the unit can see how much the step has changed.
    """

    def __init__(self, hidden_size: int):
        super().__init__()
        self.dense = nn.Linear(2 * hidden_size, _WIDTH)
        self.out = nn.Linear(_WIDTH, 1)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the logit of the probability to stop, in fp32: twice [sequences, hidden] to [sequences]."""
        states = torch.cat([before, after], dim=1).float()
        return linear(self.out, torch.tanh(linear(self.dense, states))).squeeze(1)

    def start_at(self, probability: float) -> None:
        """Set the bias so that a new unit gives about this probability to stop, for every state."""
        with torch.no_grad():
            self.out.bias.fill_(math.log(probability / (1 - probability)))


def exit_log_probabilities(stop_logits: Tensor) -> Tensor:
    """Return the logarithm of the probability that each step is the exit.

    Args:
        stop_logits: logits of the unit after each step but the last, [steps - 1, predictions].

    Returns:
        Log-probabilities, [steps, predictions]; the probabilities of each prediction sum to one.
    """
    zeros = torch.zeros_like(stop_logits[:1])
    stops = torch.cat([functional.logsigmoid(stop_logits), zeros])
    continues = torch.cat([zeros, functional.logsigmoid(-stop_logits).cumsum(0)])
    return stops + continues


def prior_log_probabilities(steps: int, stop_probability: float) -> Tensor:
    """Return the log-probabilities of a geometric distribution that is truncated to some steps, [steps]."""
    return (torch.arange(steps, dtype=torch.float64) * math.log1p(-stop_probability)).log_softmax(0)


def divergence_from_prior(log_probabilities: Tensor, stop_probability: float) -> Tensor:
    """Return the KL divergence of the exits of each prediction from the prior, [predictions].

    Args:
        log_probabilities: log-probabilities of the exits, [steps, predictions].
        stop_probability: probability to stop at each step under the prior.
    """
    prior = prior_log_probabilities(len(log_probabilities), stop_probability).to(log_probabilities)
    return (log_probabilities.exp() * (log_probabilities - prior[:, None])).sum(0)
