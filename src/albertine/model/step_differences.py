"""What a layer has of its own where layers share their weights: low-rank differences, biases and norms.

    weights of layer t  =  shared weights + outer[t] @ inner[t]
    vectors of layer t  =  shared biases and norms + vectors[t]

With rank 16, the layers of ALBERT-base differ for a fraction of the parameters that separate layers have
(Relaxed Recursive Transformers, Bae et al. 2024). The differences are added to the weights before a layer
runs, so the layer itself is the same code, and the cost does not grow with the number of tokens.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from albertine.model.layers import AttentionWeights, FeedForwardWeights
from albertine.model.step_shapes import matrix_shapes, vector_sizes
from albertine.settings import ModelSettings


class LowRankDifferences(nn.Module):
    """A matrix of low rank for each layer, outer @ inner; `outer` starts at 0."""

    def __init__(self, layers: int, shape: tuple[int, int], rank: int):
        super().__init__()
        self.inner = nn.Parameter(torch.empty(layers, rank, shape[1]))
        self.outer = nn.Parameter(torch.empty(layers, shape[0], rank))

    def forward(self, number: int) -> Tensor:
        """Return the difference of layer `number`, counted from 0, [out, in]."""
        return self.outer[number] @ self.inner[number]


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
        self, number: int, attention: AttentionWeights, ffn: FeedForwardWeights
    ) -> tuple[AttentionWeights, FeedForwardWeights]:
        """Return the weights of layer `number`, counted from 0, from the shared ones."""
        of_attention = self._changed(("qkv", "out"), self.attention_vectors, number, attention._asdict())
        of_ffn = self._changed(("up", "down"), self.ffn_vectors, number, ffn._asdict())
        return attention._replace(**of_attention), ffn._replace(**of_ffn)

    def _changed(
        self, matrices: tuple[str, ...], vectors: nn.ParameterDict, number: int, shared: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        differences = {name: vector[number] for name, vector in vectors.items()}
        for name in matrices if self.matrices else ():
            differences[name] = self.matrices[name](number)
        return {name: shared[name] + value.to(shared[name].dtype) for name, value in differences.items()}
