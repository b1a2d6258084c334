"""Takes training steps with sharded weights in one of several processes, and prints the bytes that they took.

The argument is the settings of `albertine plan` as JSON; see `test_sharded_memory.py`.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.strip import Strip
from albertine.plan.settings import PlanSettings
from albertine.plan.workload import Workload, make_workload
from albertine.pretrain.setup import PRETRAIN_HEAD
from albertine.settings import SettingsSource, build_settings
from albertine.train.distributed import Distributed, init_distributed
from albertine.train.gradients import Gradients, make_gradients
from albertine.train.optimizers import Optimizers
from albertine.train.sharding import shard_model

_STEPS, _MICRO_BATCHES = 3, 2


def resident_bytes(name: str) -> int:
    """Return VmRSS, the resident bytes of this process, or VmHWM, their maximum."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def reset_maximum() -> None:
    """Let VmHWM count from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def local_bytes(tensors: Sequence[Tensor]) -> int:
    """Return the bytes of what this process holds of some tensors."""
    local = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]
    return sum(tensor.nbytes for tensor in local)


class ShardedSteps:
    """A sharded model with its gradients and optimizers.

    Attributes:
        model: the model.
    """

    def __init__(self, workload: Workload, distributed: Distributed):
        self.model = Model(workload.model, PRETRAIN_HEAD)
        self.model.configure(ComputeOptions(torch.float32, recompute=False, compile=False))
        shard_model(self.model, distributed, torch.float32)
        self._gradients: Gradients = make_gradients(self.model)
        self._optimizers = Optimizers(self.model, workload.train, torch.float32)
        self._distributed = distributed

    def take(self, tokens: int, length: int) -> None:
        """Take some steps, each with several micro-batches, as the trainer does."""
        strip, targets = _random_batch(self.model.settings.vocab_size, tokens, length)
        for _ in range(_STEPS):
            self._gradients.zero()
            for _ in range(_MICRO_BATCHES):
                self.model(strip, targets).loss.backward()
            self._gradients.all_reduce(self._distributed)
            self._gradients.clip(float(self._gradients.norm()), 1.0)
            self._optimizers.step(1e-4)

    def held_bytes(self) -> dict[str, int]:
        """Return the bytes of weights, gradients and optimizer state that are held between passes."""
        weights = list(self.model.parameters())
        states = [optimizer.state.values() for optimizer in self._optimizers._optimizers]
        return {
            "weights": local_bytes(weights),
            "gradients": local_bytes([weight.grad for weight in weights if weight.grad is not None]),
            "optimizer": local_bytes(
                [tensor for state in states for one in state for tensor in one.values()]
            ),
        }


def _random_batch(vocab_size: int, tokens: int, length: int) -> tuple[Strip, PretrainingTargets]:
    strip = Strip.from_padded(torch.randint(5, vocab_size, (tokens // length, length)))
    masked = torch.arange(1, tokens, 7)
    pair_labels = torch.randint(0, 2, (tokens // length,))
    return strip, PretrainingTargets(MaskedLMTargets(masked, strip.tokens[masked]), pair_labels)


def main() -> None:
    """Take steps of a small model, so that all libraries are loaded, and then those to measure."""
    small, wide = (
        make_workload(build_settings(PlanSettings, SettingsSource(values)))
        for values in json.loads(sys.argv[1])
    )
    torch.manual_seed(0)
    with init_distributed("cpu", timeout_minutes=2.0) as distributed:
        length = wide.unit_tokens
        tokens = wide.step_tokens // distributed.world_size
        ShardedSteps(small, distributed).take(tokens, length)
        before = resident_bytes("VmRSS")
        steps = ShardedSteps(wide, distributed)
        reset_maximum()
        steps.take(tokens, length)
        peak = resident_bytes("VmHWM") - before
        print(json.dumps({**steps.held_bytes(), "peak": peak}), flush=True)


if __name__ == "__main__":
    main()
