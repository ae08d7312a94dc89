import pytest
import torch

from torch_softucb import functional as F


@pytest.mark.parametrize("with_mask", [False, True])
def test_coverage_and_number_of_suboptimal_arms_by_loops(with_mask):
    g = torch.Generator().manual_seed(0)
    means, mu_hat, index = torch.randn(3, 4, 6, generator=g, dtype=torch.double)
    width, beta = torch.rand(4, 6, generator=g, dtype=torch.double), torch.rand(4, generator=g, dtype=torch.double)
    mask = torch.rand(4, 6, generator=g) > 0.4 if with_mask else torch.ones(4, 6, dtype=torch.bool)
    mask[:, 0] = True
    got = F.coverage(means, mu_hat, width, beta, mask=mask if with_mask else None)
    low = F.num_suboptimal(index, mask=mask if with_mask else None)
    assert got.dtype == torch.double
    for r in range(4):
        arms = [i for i in range(6) if mask[r, i]]
        held = [abs(means[r, i] - mu_hat[r, i]) <= beta[r] * width[r, i] for i in arms]
        assert got[r].item() == pytest.approx(sum(held) / len(arms))
        assert low[r].item() == sum(1 for i in arms if index[r, i] < 0)


def test_an_index_of_exactly_0_is_not_suboptimal():
    assert F.num_suboptimal(torch.tensor([1.0, 0.0, -1.0])) == 1
