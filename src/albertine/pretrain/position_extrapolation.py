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
_MAX_FREQUENCY, _FREQUENCY_RATIO = 0.95 * math.pi, 10.0
_RIDGE = 1 / 32  # of what a wave has in the rows; keeps what one row alone has learned out of the fit


@dataclass(frozen=True)
class Sinusoids:
    """So many waves; `frequencies` is how far each turns from one piece to the next."""

    frequencies: Tensor

    @classmethod
    def for_model(cls, settings: ModelSettings) -> "Sinusoids":
        """Return those of a network: as many as its heads and half of its embedding have room for."""
        count = min(settings.hidden_size // settings.heads // 2, settings.embedding_size // 4)
        return cls(
            _MAX_FREQUENCY * _FREQUENCY_RATIO ** (-torch.arange(count, dtype=torch.float64) / max(1, count))
        )

    def __len__(self) -> int:
        return len(self.frequencies)

    def table(self, rows: int) -> Tensor:
        """Return sines and cosines in turn, [rows, 2 * waves], of mean square 1."""
        angles = torch.arange(rows, dtype=torch.float64)[:, None] * self.frequencies
        return torch.stack([angles.sin(), angles.cos()], 2).flatten(1) * math.sqrt(2)

    def shift_matrix(self, offset: int) -> Tensor:
        """Return the matrix that makes of the waves at a position those `offset` pieces on."""
        sine, cosine = (self.frequencies * offset).sin(), (self.frequencies * offset).cos()
        rotations = torch.stack([torch.stack([cosine, sine], 1), torch.stack([-sine, cosine], 1)], 1)
        matrix: Tensor = torch.block_diag(*rotations)
        return matrix

    def extrapolation_matrix(self, trained_rows: int, rows: int) -> Tensor:
        """Return the matrix that makes rows `trained_rows` to `rows` of a table out of those before them.

        Fitting waves, and a mean, to the first rows and going on with them is one product.
        """
        features = torch.cat([self.table(rows), torch.ones(rows, 1, dtype=torch.float64)], 1)
        trained = features[:trained_rows]
        ridge = _RIDGE * trained_rows * torch.eye(features.shape[1], dtype=torch.float64)
        fit = torch.linalg.solve(trained.T @ trained + ridge, trained.T)
        extrapolation: Tensor = (features[trained_rows:] @ fit).float()
        return extrapolation
