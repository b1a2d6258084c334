"""Memory of a training step on one device, and the largest micro-batch that fits."""

from dataclasses import dataclass

from albertine.model.cost import (
    BYTES_PER_VALUE,
    Precision,
    TrainingMemory,
    activation_bytes,
    layer_activation_bytes,
)
from albertine.model.step_shapes import matrix_shapes
from albertine.plan.parameters import ParameterCosts
from albertine.plan.workload import Workload

# Of the memory of a device; the rest is for its driver, its libraries and gaps between tensors.
USABLE_FRACTION = 0.9
_SCORE_TENSORS = 2  # attention scores and probabilities, where they are stored


@dataclass(frozen=True)
class MemoryModel:
    """Memory of the training steps of a run.

    Attributes:
        workload: the run.
        parameters: its parameters.
        precision: precision of the matrix products.
        devices: number of devices.
        keeps_attention_scores: whether attention scores are stored for the backward pass.
    """

    workload: Workload
    parameters: ParameterCosts
    precision: Precision
    devices: int
    keeps_attention_scores: bool = False

    def step_memory(self, tokens: int, *, recompute: bool | None = None) -> TrainingMemory:
        """Return the memory of a step on one device.

        Args:
            tokens: tokens of a micro-batch.
            recompute: whether activations are recomputed; by default as the run does.
        """
        model, parameters = self.workload.model, self.parameters
        # During a pass, sharded training holds the weights and gradients of two layers, and of all that is
        # not of one layer: while a layer is computed, the next one is gathered.
        count = passed = parameters.count
        shards = self.devices if self.workload.train.shard else 1
        if shards > 1:
            passed = count - parameters.unshared_count + 2 * parameters.unshared_layer_count
            passed = min(passed, count)
        cast_bytes = passed * (2 if self.precision == "bf16" else 0)  # a second copy of the weights
        if model.step_rank:  # the sum of shared matrix and difference of each layer is kept, too
            matrices = sum(rows * columns for rows, columns in matrix_shapes(model).values())
            cast_bytes += model.layers * matrices * BYTES_PER_VALUE[self.precision]
        gathered = 4 * passed if shards > 1 else 0
        return TrainingMemory(
            weights=4 * count // shards + gathered + cast_bytes,
            gradients=4 * count // shards + gathered,
            optimizer=self.parameters.state_bytes // shards,
            activations=int(tokens * self.activation_bytes_per_token(recompute=recompute)),
        )

    def activation_bytes_per_token(self, *, recompute: bool | None = None) -> float:
        """Return the bytes per token of activations, and of the gradients of those of one layer."""
        recompute = self.workload.train.recompute if recompute is None else recompute
        model = self.workload.model
        fractions = [stage.masked_fraction for stage in self.workload.stages]
        most_masked = max(self.workload.predicted_fraction, *fractions)
        kept = self._kept_bytes(most_masked, recompute=recompute)
        scored_layers = 1 if recompute else model.applied_layers
        one_layer = sum(layer_activation_bytes(model, self.precision)) + self._score_bytes
        return kept + scored_layers * self._score_bytes + one_layer

    def traffic_bytes_per_token(self) -> float:
        """Return the bytes per token that a step reads and writes for activations and their gradients.

        Each value that is kept moves five times: it is written and read in the forward pass and read in the
        backward pass, where its gradient is written and read.
        """
        masked_fraction = sum(stage.share * stage.masked_fraction for stage in self.workload.stages)
        kept = self._kept_bytes(masked_fraction, recompute=False)
        return 5 * (kept + self.workload.model.applied_layers * self._score_bytes)

    def _kept_bytes(self, masked_fraction: float, *, recompute: bool) -> float:
        """Return the bytes per token of activations that a forward pass keeps."""
        sample, model = 10**6, self.workload.model
        kept = activation_bytes(
            model, sample, self.precision, recompute=recompute, masked_fraction=masked_fraction
        )
        return kept / sample

    @property
    def _score_bytes(self) -> float:
        """Bytes per token and layer of attention scores that are stored."""
        if not self.keeps_attention_scores:
            return 0.0
        length = max(stage.length for stage in self.workload.stages)
        return _SCORE_TENSORS * self.workload.model.heads * length * BYTES_PER_VALUE[self.precision]

    def largest_micro_batch(self, memory: float, *, recompute: bool) -> int:
        """Return the tokens of the largest micro-batch that fits; 0 if not even the longest example does."""
        fixed = self.step_memory(0).total
        per_token = self.activation_bytes_per_token(recompute=recompute)
        units = int((memory * USABLE_FRACTION - fixed) // (per_token * self.workload.unit_tokens))
        return max(0, units) * self.workload.unit_tokens
