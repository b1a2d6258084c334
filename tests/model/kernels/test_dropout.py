"""16-bit dropout: the rate, independent values, gradients, and the same mask for the same seed."""

import pytest
import torch

from albertine.model.kernels.dropout import dropout_mask, sixteen_bit_dropout


@pytest.mark.parametrize("rate", [0.0001, 0.1, 0.5, 0.99])
def test_rate_and_independence(rate: float) -> None:
    torch.manual_seed(0)
    mask = dropout_mask(torch.Size((3999, 1001)), rate).double()
    spread = (rate * (1 - rate) / mask.numel()) ** 0.5
    assert float(mask.mean()) == pytest.approx(1 - rate, abs=5 * spread + 2**-17)
    for other in (mask.roll(1, 1), mask.roll(1, 0), mask.roll(4, 1)):
        assert float((mask * other).mean()) == pytest.approx((1 - rate) ** 2, abs=10 * spread + 2**-16)


def test_values_and_gradients_are_zeroed_and_rescaled_alike() -> None:
    torch.manual_seed(0)
    values = torch.full((300, 70), 3.0, requires_grad=True)
    found = sixteen_bit_dropout(values, 0.25)
    assert found.unique().tolist() == [0, 4]
    found.sum().backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad, found.detach() / 3)


def test_same_seed_gives_the_same_mask() -> None:
    values = torch.randn(300, 70)
    torch.manual_seed(0)
    first = sixteen_bit_dropout(values, 0.25)
    torch.manual_seed(0)
    assert torch.equal(sixteen_bit_dropout(values, 0.25), first)
