"""The dual variable's state: shapes, dtypes, processes, checkpoints. Where it leads is in tests/training."""

import pytest
import torch

from torch_softucb import functional as F
from torch_softucb.learning.dual import Dual, OnlineDual, mean_of_processes


def test_one_process_has_its_own_mean():
    value = torch.tensor(0.3)
    assert mean_of_processes(value) is value


def test_eta_rises_while_coverage_is_too_low_and_falls_while_it_is_too_high():
    for coverage, sign in ((0.5, 1), (0.99, -1)):
        dual = Dual(0.85)
        start = float(dual.log_eta)
        weight = dual.weigh(torch.tensor(coverage))
        dual.step()
        assert sign * (float(dual.log_eta) - start) > 0
        assert sign * (float(weight.log()) - start) > 0
        assert float(dual.log_eta) == pytest.approx(start + 0.25 * float(F.coverage_error(torch.tensor(coverage), 0.85)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_online_dual_has_the_dtype_and_shape_of_beta(dtype):
    for shape in ((), (5,)):
        dual = OnlineDual(0.9, beta=torch.full(shape, 0.7, dtype=dtype))
        for value in dual.state_dict().values():
            assert value.shape == shape
            assert value.dtype == dtype
        torch.testing.assert_close(dual.coverage(torch.full(shape, 0.7, dtype=dtype)), torch.full(shape, 0.9, dtype=dtype))


def test_residuals_of_several_rewards_count_like_one_after_the_other(seeded):
    mu_hat, width, reward = torch.rand(3, 4, 6, generator=seeded(0), dtype=torch.double).unbind(0)
    together, apart = (OnlineDual(0.9, beta=torch.ones(4, dtype=torch.double)) for _ in range(2))
    together.observe(mu_hat, width, reward)
    for i in range(6):
        apart.observe(mu_hat[:, i], width[:, i], reward[:, i])
    torch.testing.assert_close(together.kappa, apart.kappa, atol=1e-14, rtol=0)


def test_state_survives_a_checkpoint(seeded):
    dual = OnlineDual(0.9, beta=torch.ones(4))
    dual.observe(*torch.rand(3, 4, generator=seeded(0)).unbind(0))
    dual.climb(torch.ones(4), -torch.ones(4), torch.ones(4))
    other = OnlineDual(0.9, beta=torch.zeros(4))
    other.load_state_dict(dual.state_dict())
    assert other.kappa.equal(dual.kappa)
    assert other.eta == dual.eta


def test_targets_that_cannot_be_measured_are_refused():
    for target in (0.0, 0.9995, 1.0):
        with pytest.raises(ValueError, match="target_coverage must be in"):
            Dual(target)
