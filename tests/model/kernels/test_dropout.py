"""16-bit dropout: the rate, independent values, gradients, and the same mask for the same seed."""

import pytest
import torch

from albertine.model.kernels.dropout import dropout_mask, sixteen_bit_dropout


@pytest.mark.parametrize("rate", [0.0001, 0.1, 0.5, 0.99])
def test_rate_and_independence(rate: float) -> None:
    torch.manual_seed(0)
    mask = dropout_mask(torch.Size((3999, 1001)), rate).double()
    standard_error = (rate * (1 - rate) / mask.numel()) ** 0.5
    assert float(mask.mean()) == pytest.approx(1 - rate, abs=5 * standard_error + 2**-17)
    for shifted in (mask.roll(1, 1), mask.roll(1, 0), mask.roll(4, 1)):
        kept_in_both = float((mask * shifted).mean())
        assert kept_in_both == pytest.approx((1 - rate) ** 2, abs=10 * standard_error + 2**-16)


def test_gradients_are_zeroed_and_rescaled_like_values() -> None:
    torch.manual_seed(0)
    values = torch.full((300, 70), 3.0, requires_grad=True)
    actual = sixteen_bit_dropout(values, 0.25)
    assert actual.unique().tolist() == [0, 4]
    actual.sum().backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad, actual.detach() / 3)


def test_same_seed_gives_the_same_mask() -> None:
    values = torch.randn(300, 70)
    torch.manual_seed(0)
    first = sixteen_bit_dropout(values, 0.25)
    torch.manual_seed(0)
    assert torch.equal(sixteen_bit_dropout(values, 0.25), first)
