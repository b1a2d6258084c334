"""Positions as waves: what a fresh table of positions holds, and how a table that is half trained goes on.

Turning a wave is shifting it, so a head can look for "the piece before" at every place
alike. Training moves the rows that samples reach, and makes them several times as loud;
left alone, those beyond would be too quiet for the heads that have learned to look there.
But most of what the rows learn is again a sum of these waves. Fitted to the rows that
samples reach, it goes on over the others.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from albertine.settings import ModelSettings

# Waves from nearly half a turn a piece to a tenth of that: short enough to tell neighbours apart.
_FASTEST, _RANGE = 0.95 * math.pi, 10.0
_RIDGE = 1 / 32  # of what a wave has in the rows; keeps what one row alone has learned out of the fit


@dataclass(frozen=True)
class Waves:
    """So many waves; `pace` is how far each turns from one piece to the next."""

    pace: Tensor

    @classmethod
    def of(cls, model: ModelSettings) -> "Waves":
        """Return those of a network: as many as its heads and half of its embedding have room for."""
        count = min(model.hidden_size // model.heads // 2, model.embedding_size // 4)
        return cls(_FASTEST * _RANGE ** (-torch.arange(count, dtype=torch.float64) / max(1, count)))

    def __len__(self) -> int:
        return len(self.pace)

    def over(self, rows: int) -> Tensor:
        """Return sines and cosines in turn, [rows, 2 * waves], of mean square 1."""
        angles = torch.arange(rows, dtype=torch.float64)[:, None] * self.pace
        return torch.stack([angles.sin(), angles.cos()], 2).flatten(1) * math.sqrt(2)

    def turned(self, offset: int) -> Tensor:
        """Return the matrix that makes of the waves at a position those `offset` pieces on."""
        sine, cosine = (self.pace * offset).sin(), (self.pace * offset).cos()
        turns = torch.stack([torch.stack([cosine, sine], 1), torch.stack([-sine, cosine], 1)], 1)
        whole: Tensor = torch.block_diag(*turns)
        return whole

    def beyond(self, reached: int, rows: int) -> Tensor:
        """Return the matrix that makes rows `reached` to `rows` of a table out of those before them.

        Fitting waves, and a mean, to the first rows and going on with them is one product.
        """
        waves = torch.cat([self.over(rows), torch.ones(rows, 1, dtype=torch.float64)], 1)
        seen = waves[:reached]
        ridge = _RIDGE * reached * torch.eye(waves.shape[1], dtype=torch.float64)
        made_of = torch.linalg.solve(seen.T @ seen + ridge, seen.T)
        mixing: Tensor = (waves[reached:] @ made_of).float()
        return mixing
