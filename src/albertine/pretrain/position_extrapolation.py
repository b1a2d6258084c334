"""Sinusoidal position embeddings: the initial table, and the extrapolation of a partly trained one.

Rotating the phases of sinusoids shifts the position, so one matrix lets an attention head
attend to "the token before" at every position. Training changes the rows that samples
reach, and makes them several times larger; the other rows would then be too small for heads
that attend by position. But the trained rows are mostly still sums of these sinusoids, so
a fit to the trained rows extrapolates to the others.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from albertine.settings import ModelSettings

# Frequencies from nearly half a turn per token to a tenth of that, which distinguish neighbouring tokens.
_MAX_FREQUENCY, _FREQUENCY_RATIO = 0.95 * math.pi, 10.0
_RIDGE = 1 / 32  # relative to the power of a sinusoid; keeps the noise of single rows out of the fit


@dataclass(frozen=True)
class Sinusoids:
    """Sinusoids of the position.

    Attributes:
        frequencies: angle per token of each sinusoid, `[sinusoids]`.
    """

    frequencies: Tensor

    @classmethod
    def for_model(cls, settings: ModelSettings) -> "Sinusoids":
        """Return as many sinusoids as fit into a head and into half of the embedding of a model."""
        count = min(settings.hidden_size // settings.heads // 2, settings.embedding_size // 4)
        return cls(
            _MAX_FREQUENCY * _FREQUENCY_RATIO ** (-torch.arange(count, dtype=torch.float64) / max(1, count))
        )

    def __len__(self) -> int:
        return len(self.frequencies)

    def table(self, rows: int) -> Tensor:
        """Return alternating sines and cosines with mean square 1, `[rows, 2 * sinusoids]`."""
        angles = torch.arange(rows, dtype=torch.float64)[:, None] * self.frequencies
        return torch.stack([angles.sin(), angles.cos()], 2).flatten(1) * math.sqrt(2)

    def shift_matrix(self, offset: int) -> Tensor:
        """Return the matrix `[2 * sinusoids, 2 * sinusoids]` that maps a row of the table to a later one.

        Args:
            offset: how many tokens later; negative for an earlier row.
        """
        sine, cosine = (self.frequencies * offset).sin(), (self.frequencies * offset).cos()
        rotations = torch.stack([torch.stack([cosine, sine], 1), torch.stack([-sine, cosine], 1)], 1)
        matrix: Tensor = torch.block_diag(*rotations)
        return matrix

    def extrapolation_matrix(self, trained_rows: int, rows: int) -> Tensor:
        """Return the matrix `[rows - trained_rows, trained_rows]` that maps the trained rows to the others.

        It fits sinusoids and a constant to the trained rows and evaluates the fit at the others.
        """
        features = torch.cat([self.table(rows), torch.ones(rows, 1, dtype=torch.float64)], 1)
        trained = features[:trained_rows]
        ridge = _RIDGE * trained_rows * torch.eye(features.shape[1], dtype=torch.float64)
        fit = torch.linalg.solve(trained.T @ trained + ridge, trained.T)
        extrapolation: Tensor = (features[trained_rows:] @ fit).float()
        return extrapolation
