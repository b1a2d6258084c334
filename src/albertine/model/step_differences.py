"""What a layer has of its own where layers share their weights: low-rank differences, biases and norms.

    weights of layer t  =  shared weights + outer[t] @ inner[t]
    vectors of layer t  =  shared biases and norms + vectors[t]

With rank 16, the layers of ALBERT-base differ for a fraction of the parameters that separate layers have
(Relaxed Recursive Transformers, Bae et al. 2024). The differences are added to the weights before a layer
runs, so the cost does not grow with the number of tokens. Exports multiply by the two factors instead, so
that all steps refer to the same shared matrices.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from albertine.model.layers import AttentionWeights, FeedForwardWeights, LowRankFactors
from albertine.model.step_shapes import matrix_shapes, vector_sizes
from albertine.settings import ModelSettings


class LowRankDifferences(nn.Module):
    """A matrix of low rank for each layer, outer @ inner; `outer` starts at 0."""

    def __init__(self, layers: int, shape: tuple[int, int], rank: int):
        super().__init__()
        self.inner = nn.Parameter(torch.empty(layers, rank, shape[1]))
        self.outer = nn.Parameter(torch.empty(layers, shape[0], rank))

    def forward(self, number: int, dtype: torch.dtype) -> LowRankFactors:
        """Return the factors of layer `number`, counted from 0."""
        return LowRankFactors(self.outer[number].to(dtype), self.inner[number].to(dtype))


class StepDifferences(nn.Module):
    """The differences of all layers of a model whose layers share one attention and one FFN block."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.matrices = nn.ModuleDict()
        self.attention_vectors, self.ffn_vectors = nn.ParameterDict(), nn.ParameterDict()
        if settings.step_rank:
            for name, shape in matrix_shapes(settings).items():
                self.matrices[name] = LowRankDifferences(settings.layers, shape, settings.step_rank)
        if settings.step_vectors:
            attention, ffn = vector_sizes(settings)
            for vectors, sizes in ((self.attention_vectors, attention), (self.ffn_vectors, ffn)):
                for name, size in sizes.items():
                    vectors[name] = nn.Parameter(torch.empty(settings.layers, size))

    def applied(
        self, number: int, attention: AttentionWeights, ffn: FeedForwardWeights, *, factored: bool = False
    ) -> tuple[AttentionWeights, FeedForwardWeights]:
        """Return the weights of layer `number`, counted from 0, from the shared ones.

        With `factored`, the matrices stay as they are, and the factors are beside them.
        """

        def changed(
            shared: Mapping[str, Tensor], vectors: nn.ParameterDict, *matrices: str
        ) -> dict[str, Any]:
            values: dict[str, Any] = {
                name: shared[name] + vector[number].to(shared[name].dtype) for name, vector in vectors.items()
            }
            for name in matrices if self.matrices else ():
                if factored:
                    values[f"{name}_difference"] = self.matrices[name](number, shared[name].dtype)
                else:
                    factors = self.matrices[name](number, torch.float32)
                    values[name] = shared[name] + (factors.outer @ factors.inner).to(shared[name].dtype)
            return values

        return (
            attention._replace(**changed(attention._asdict(), self.attention_vectors, "qkv", "out")),
            ffn._replace(**changed(ffn._asdict(), self.ffn_vectors, "up", "down")),
        )
